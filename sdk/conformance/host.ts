// The real system for tests in any language: PostgreSQL, gateway and tracker in three regions, and
// faults on demand.
//
//     node_modules/.bin/node sdk/conformance/host.ts
//
// Start it once for a test run, with a pipe as standard input: it ends, and everything with it,
// when the pipe closes, which it also does when the parent dies. When all is ready (some seconds)
// it prints one line of JSON and then nothing more:
//
//     {"control": "http://127.0.0.1:4711", "primary": "us-east",
//      "regions": ["us-east", "us-west", "eu-west"], "database": "postgresql://…",
//      "wire": "postgresql://…",
//      "endpoints": [{"region": "us-east", "gateway": "http://…", "tracker": "http://…"}, …]}
//
// `endpoints` has the primary's region first, which changes with a failover: `GET /` on the control
// answers the same object as it is now. Commands are `POST /NAME` with a JSON object; they answer
// when they are done, with the description unless said otherwise:
//
//     query {sql, node?}: rows of one statement, as superuser on the primary: the truth
//     hold {regions?}: nothing replicates out of the primary's region (or to the named ones), so
//         commits stay pending
//     heal: undoes every cut
//     failover {to?, alone?}: the primary's region is lost, and `to`, else the replica with most of
//         the log, is promoted. After `hold`, everything committed since is lost. `alone`: the
//         third node is down too, so that promises break
//     restart: restarts the primary: a new epoch, and nothing is lost
//     stop, start, pause, continue {service: "gateway" | "tracker", region?: the primary's}
//     cut, uncut {service, region?, mode?: "reset" | "blackhole"}: the way of clients to it
//     mend: undoes all of the above; lost regions come back as replicas, and the data stays
//
// A region is named as it is, or `primary`, `replica 1`, `replica 2`. Variables of the environment
// that begin with GATEWAY_ or TRACKER_ reach the services. Tests share the system: each test
// chooses its own names of tables, and a test that breaks something repairs it.
import { createServer } from "node:http";
import { type AddressInfo } from "node:net";
import { controlOf } from "./system/control.ts";
import { Site } from "./system/site.ts";

const settings = Object.entries(process.env).filter(([name]) => /^(GATEWAY|TRACKER)_/.test(name));
const ended = new Promise<void>((resolve) => {
  process.stdin.once("end", resolve).once("close", resolve).once("error", resolve).resume();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, resolve);
});

/**
 * While it starts, it needs no order to end: the system's processes notice that their parent is
 * gone.
 */
void ended.then(() => {
  if (!isReady) process.exit(0);
});
let isReady = false;
const site = await Site.start(Object.fromEntries(settings) as Record<string, string>);
isReady = true;

const server = createServer(controlOf(site)).listen(0, "127.0.0.1");
await new Promise((resolve) => server.once("listening", resolve));
const control = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
console.log(JSON.stringify({ control, ...(await site.describe()) }));

await ended;
server.close();
server.closeAllConnections();
await site[Symbol.asyncDispose]();
process.exit(0);
