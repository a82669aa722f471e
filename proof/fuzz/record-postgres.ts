// Writes seeds/postgres.json: a real PostgreSQL's answers to the store's calls, as scripts for the
// target postgres-wire.
import { writeFile } from "node:fs/promises";
import { connect, createServer, type AddressInfo } from "node:net";
import { startCluster } from "@highwater/lab-cluster";
import { realClock } from "@highwater/runtime";
import { POSTGRES_DEFAULTS, PostgresStore } from "@highwater/store";
import { callsOf, NODE } from "./src/targets/postgres-wire.ts";

const SEEDS = new URL("./seeds/postgres.json", import.meta.url);

const cluster = await startCluster({ nodes: [{ id: NODE, region: NODE }] });
const scripts = new Set<string>();
const real = new URL(await cluster.connectionString(NODE));
const server = createServer((client) => {
  const upstream = connect(Number(real.port), real.hostname);
  const parts: Buffer[] = [];
  client.on("data", (chunk) => {
    parts.push(Buffer.alloc(0));
    upstream.write(chunk);
  });
  upstream.on("data", (chunk) => {
    parts.push(Buffer.concat([parts.pop() ?? Buffer.alloc(0), chunk]));
    client.write(chunk);
  });
  const end = (): void => {
    client.destroy();
    upstream.destroy();
  };
  for (const socket of [client, upstream]) socket.on("error", end).on("close", end);
  client.on("close", () => scripts.add(JSON.stringify(parts.map((part) => part.toString("base64")))));
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
try {
  const url = new URL(real);
  url.port = String((server.address() as AddressInfo).port);
  const common = { ...POSTGRES_DEFAULTS, clock: realClock, helper: "record" };
  const direct = new PostgresStore({
    ...common,
    nodes: [{ id: NODE, region: NODE, zone: "a", url: real.href }],
  });
  await direct.prepare(NODE);
  const epoch = await direct.mint(NODE, {
    minSeq: 1,
    supersedes: [],
    command: null,
    streamed: null,
    finalMarks: {},
  });
  await direct.close();
  const store = new PostgresStore({
    ...common,
    nodes: [{ id: NODE, region: NODE, zone: "a", url: url.href }],
  });
  for (const call of callsOf(store, epoch.id)) await call().catch((cause: unknown) => console.error(cause));
  await store.close();
} finally {
  await new Promise((resolve) => server.close(resolve));
  await cluster.close();
}
await writeFile(
  SEEDS,
  `${JSON.stringify(
    [...scripts].map((text) => JSON.parse(text) as string[]),
    null,
    2,
  )}\n`,
);
