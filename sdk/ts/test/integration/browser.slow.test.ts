// Goal: the published package does in a browser all that it does elsewhere: commits, waits on one shared stream, transactions of
// several steps, a loss. Method: a page in Chromium imports the built package as it is, and calls gateways and trackers of the real
// system, which asks for keys and lets pages of that one origin in; then the primary's region is lost.
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { type DevBrowser, launchBrowser, type Page, whyNoBrowser } from "@highwater/lab-tools/browser";
import { System } from "@highwater/lab-system";
import { build } from "../../scripts/build.ts";
import { Highwater, sql } from "../../src/index.ts";

const EAST = "us-east";
/** Where the page is: outside of the regions, so that it reaches all that are left. */
const LOCATION = "page";
const IMPORTS = Object.fromEntries(
  ["", "/edge"].map((entry) => [`@highwater/sdk${entry}`, `/sdk${entry || "/index"}.js`]),
);
const HTML = `<!doctype html><script type="importmap">${JSON.stringify({ imports: IMPORTS })}</script>
<script type="module" src="/page.mjs"></script>`;
const SCRIPT = new URL("./page.mjs", import.meta.url);

/** What the page has asked of the services. */
interface Sent {
  readonly method: string;
  readonly path: string;
  readonly kind: string;
  readonly hasKey: boolean;
}

let dist: string | undefined;
let site: Server;
let system: System;
let launched: DevBrowser;
let page: Page;
let settings = {};
const sent: Sent[] = [];
const openStreams = new Set<unknown>();

const originOf = (host: string): string => `http://${host}:${String((site.address() as AddressInfo).port)}`;

/** The page, the package as it is published, and where the services are. */
async function serve(directory: string): Promise<Server> {
  const answer = async (path: string): Promise<{ type: string; body: string }> => {
    const type = "text/javascript";
    if (path === "/") return { type: "text/html", body: HTML };
    if (path === "/page.mjs") return { type, body: await readFile(SCRIPT, "utf8") };
    if (path === "/settings") return { type: "application/json", body: JSON.stringify(settings) };
    const name = /^\/sdk\/([\w-]+\.js)$/.exec(path)?.[1] ?? "none";
    return { type, body: await readFile(join(directory, name), "utf8") };
  };
  const server = createServer((request, response) => {
    answer(request.url ?? "").then(
      ({ type, body }) => response.writeHead(200, { "content-type": type }).end(body),
      () => response.writeHead(404).end(),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

/** A page on which everything is ready; an error on it ends the test that waits for it. */
async function openPage(origin: string): Promise<Page> {
  const opened = await launched.browser.newPage();
  const failed = new Promise<never>((_, reject) => {
    opened.on("pageerror", reject);
  });
  await opened.goto(origin);
  await Promise.race([opened.waitForFunction("'steps' in globalThis"), failed]);
  failed.catch(() => undefined);
  return opened;
}

const step = <T>(call: string, on = page): Promise<T> => on.evaluate<T>(`steps.${call}`);

describe("a page in a browser", { skip: whyNoBrowser() }, () => {
  before(async () => {
    dist = await mkdtemp(join(tmpdir(), "highwater-sdk-"));
    await build(dist);
    site = await serve(dist);
    const origin = originOf("127.0.0.1");
    system = await System.start({
      env: {
        ...{ GATEWAY_AUTH: "keys", TRACKER_AUTH: "keys", TRACKER_PUBLISH_PATIENCE_MS: "300" },
        ...{ GATEWAY_CORS_ORIGINS: origin, TRACKER_CORS_ORIGINS: origin },
        HIGHWATER_INTERNAL_SECRET: "a secret that all services here know",
      },
    });
    const apiKey = await system.createKey({ name: "page", scopes: ["read", "write"] });
    const endpoints = await system.endpoints(LOCATION);
    settings = { endpoints, apiKey };
    await using hw = new Highwater({ endpoints, apiKey });
    await hw.transaction(sql`CREATE TABLE note (text text PRIMARY KEY)`, { ack: "durable", level: "global" });

    launched = await launchBrowser();
    page = await openPage(origin);
    page.on("request", (request) => {
      const { pathname } = new URL(request.url());
      const hasKey = "authorization" in request.headers();
      sent.push({ method: request.method(), path: pathname, kind: request.resourceType(), hasKey });
      if (pathname.endsWith("/stream")) openStreams.add(request);
    });
    const forget = (request: unknown): boolean => openStreams.delete(request);
    page.on("requestfinished", forget);
    page.on("requestfailed", forget);
  });

  after(async () => {
    await launched.close();
    await system.close();
    site.close();
    if (dist !== undefined) await rm(dist, { recursive: true, force: true });
  });

  test("commits, and waits for durability over a stream that fetch reads, with its key", async () => {
    const { row, verdict } = await step<{ row: string[]; verdict: string }>("commit('first')");
    assert.deepEqual([row, verdict], [["first", "9007199254740993"], "durable"]);
    const streams = sent.filter(({ path }) => path === "/v1/durability/stream");
    assert.ok(streams.length > 0, "it has waited");
    for (const stream of streams) assert.deepEqual([stream.kind, stream.hasKey], ["fetch", true]);
    const received = await step<string[]>("events()");
    assert.ok(received.includes("stream_open") && !received.includes("polling"), received.join());
    assert.equal(await step("hasEventSource()"), true, "which could not have sent the key");
  });

  test("the entry without interactive transactions does the same with fewer bytes", async () => {
    const { name, constraint } = await step<{ name: string; constraint: string }>("oneShot('by the edge')");
    assert.deepEqual([name, constraint], ["ConstraintError", "note_pkey"]);
  });

  test("many wait on one stream, and may share a request", async () => {
    const from = sent.length;
    const verdicts = await step<string[]>("commitMany(20)");
    assert.deepEqual(verdicts, Array<string>(40).fill("durable"));
    const since = sent.slice(from);
    assert.ok(openStreams.size <= 1, `${String(openStreams.size)} streams`);
    assert.equal(since.filter(({ path }) => path === "/v1/transactions").length, 20);
    const batches = since.filter(({ path }) => path === "/v1/transactions/batch").length;
    assert.ok(batches > 0 && batches < 20, `${String(batches)} requests for 20 transactions`);
  });

  test("an interactive transaction finds its gateway by the header, and reads what it is refused for", async () => {
    const { refused, ...rest } = await step<Record<string, unknown>>("interactive()");
    const constraint = { name: "ConstraintError", code: "constraint_violation", outcome: "not_applied" };
    assert.deepEqual(refused, { ...constraint, constraint: "note_pkey" });
    assert.deepEqual(rest, { rows: [{ n: 1 }], state: "durable" });
    const [{ n } = { n: 0 }] = await step<{ n: number }[]>("transact()");
    assert.equal(n, 43);
  });

  test("a page reads why it is refused; a page of another origin does nothing", async () => {
    const { code, outcome } = await step<{ code: string; outcome: string }>("wrongKey()");
    assert.deepEqual([code, outcome], ["unauthenticated", "not_applied"]);
    const stranger = await openPage(originOf("localhost"));
    const { code: seen } = await step<{ code: string }>("write()", stranger);
    // The browser shows a page nothing of an answer that is not for it.
    assert.ok(["connection_failed", "outcome_unknown"].includes(seen), seen);
    await stranger.close();
    const primary = system.cluster.nodes.find(({ region }) => region === EAST)?.id ?? "";
    const count = "SELECT count(*)::int AS n FROM note WHERE text IN ('never', 'from elsewhere')";
    assert.deepEqual(await system.cluster.query(primary, count), [{ n: 0 }]);
  });

  test("a failover loses what only the lost region had, and the page learns it once", async () => {
    const { cluster, regions } = system;
    for (const region of regions.filter((each) => each !== EAST)) await cluster.link(EAST, region).cut();
    const id = await step<string>("commitAtRisk()");
    await system.killRegion(EAST);
    await cluster.promote(await cluster.mostAdvancedReplica());
    await system.ready();
    const { waited, reported } = await step<{ waited: unknown; reported: string[] }>("outcome()");
    const lost = { name: "TransactionLostError", code: "transaction_lost", outcome: "not_applied" };
    assert.deepEqual([waited, reported], [{ ...lost, constraint: undefined, id }, [id]]);
    const { row, verdict } = await step<{ row: string[]; verdict: string }>("commit('after it')");
    assert.deepEqual([row[0], verdict], ["after it", "durable"]);
  });

  test("closing it leaves no stream", async () => {
    await step("close()");
    const untilMs = performance.now() + 60_000;
    while (openStreams.size > 0) {
      assert.ok(performance.now() < untilMs, "a stream is left");
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  });
});
