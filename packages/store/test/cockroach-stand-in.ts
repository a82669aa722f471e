// The stand-in for CockroachDB: real PostgreSQL servers, SQL functions for what the adapter calls,
// and a relay for what SQL cannot imitate. It is built from CockroachDB's documentation and source,
// so it shows that the adapter does what it means to, and not that CockroachDB does. It cannot
// imitate a cut-over to a time in the past.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { type NodeSpec } from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import { type ConformanceHarness } from "../src/conformance/harness.ts";
import { CockroachStore, type CockroachStoreOptions } from "../src/cockroach/adapter.ts";
import { POSTGRES_DEFAULTS } from "../src/postgres/adapter.ts";
import { KV_STATEMENTS, newId, PATIENT, RETENTION_MS } from "./postgres-cluster.ts";

const BEAT_MS = 20;
const VERSION = "CockroachDB CCL v26.2.0 (stand-in)";
/** What CockroachDB has and PostgreSQL has not. */
const OPTIONS = /-c (?:autocommit_before_ddl|allow_unsafe_internals|results_buffer_size)=\S+ ?/g;
const REWRITES: readonly (readonly [RegExp, string])[] = [
  [
    /SHOW VIRTUAL CLUSTER main WITH REPLICATION STATUS, PRIOR REPLICATION DETAILS/,
    "SELECT * FROM standin.virtual_cluster()",
  ],
  [/SELECT version\(\)/, `SELECT '${VERSION}' AS version`],
  [/ USING HASH\)/, ")"],
];

/** One connection's bytes from its client, message by message. */
class Rewriter {
  #rest = Buffer.alloc(0);
  #hasBegun = false;
  /** Whether it goes to the system virtual cluster; null until it has said so. */
  isSystem: boolean | null = null;

  push(bytes: Buffer): Buffer {
    this.#rest = Buffer.concat([this.#rest, bytes]);
    const out: Buffer[] = [];
    for (;;) {
      const typeBytes = this.#hasBegun ? 1 : 0;
      if (this.#rest.length < typeBytes + 4) break;
      const end = typeBytes + this.#rest.readInt32BE(typeBytes);
      if (this.#rest.length < end) break;
      const message = this.#rest.subarray(0, end);
      this.#rest = this.#rest.subarray(end);
      out.push(this.#hasBegun ? rewritten(message) : this.#begin(message));
    }
    return Buffer.concat(out);
  }

  #begin(message: Buffer): Buffer {
    // A request to cancel is short and has no options.
    if (message.length === 16) return message;
    this.#hasBegun = true;
    const texts = message.subarray(8).toString().split("\0");
    const at = texts.indexOf("options") + 1;
    const options = texts[at] ?? "";
    this.isSystem = options.includes("-c cluster=system");
    // CockroachDB ends what a closed connection runs; PostgreSQL looks when it is asked to.
    texts[at] =
      `${options.replace(OPTIONS, "").replace("-c cluster=system", "-c standin.system=on")} -c client_connection_check_interval=${String(BEAT_MS)}`;
    return framed("", [message.subarray(4, 8), Buffer.from(texts.join("\0"))]);
  }
}

function rewritten(message: Buffer): Buffer {
  const type = String.fromCharCode(message[0] ?? 0);
  if (type !== "Q" && type !== "P") return message;
  const old = message.subarray(5).toString("latin1");
  let text = old;
  for (const [from, to] of REWRITES) text = text.replace(from, to);
  return text === old ? message : framed(type, [Buffer.from(text, "latin1")]);
}

function framed(type: string, parts: readonly Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  const head = Buffer.alloc(4);
  head.writeInt32BE(4 + body.length);
  return Buffer.concat([Buffer.from(type), head, body]);
}

class StandIn {
  readonly cluster: Cluster;
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();
  /** Where the virtual cluster with the data is served. */
  readonly #serving = new Set<string>();
  #beats: NodeJS.Timeout | null = null;
  specs: NodeSpec[] = [];

  constructor(cluster: Cluster) {
    this.cluster = cluster;
  }

  static async start(): Promise<StandIn> {
    const standIn = new StandIn(await startCluster({ roundTripMs: {} }));
    const { cluster } = standIn;
    const [primary] = cluster.nodes;
    assert.ok(primary !== undefined);
    await cluster.query(
      primary.id,
      await readFile(new URL("cockroach-stand-in.sql", import.meta.url), "utf8"),
    );
    for (const { id, region, zone } of cluster.nodes)
      standIn.specs.push({ id, region, zone, url: await standIn.#listen(id) });
    await standIn.serve(primary.id);
    return standIn;
  }

  /** The node's virtual cluster is the one that standbys follow from now on. */
  async serve(node: string): Promise<void> {
    this.#serving.add(node);
    const url = this.specs.find(({ id }) => id === node)?.url;
    await this.cluster.query(node, "DELETE FROM standin.origin");
    await this.cluster.query(
      node,
      "INSERT INTO standin.origin VALUES ($1, md5(current_setting('data_directory') || 'on')::uuid::text || ':3')",
      [url],
    );
    if (this.#beats !== null) clearInterval(this.#beats);
    this.#beats = setInterval(() => {
      this.cluster.query(node, "CALL standin.beat()").catch(() => undefined);
    }, BEAT_MS);
  }

  stopServing(node: string): void {
    this.#serving.delete(node);
  }

  async #listen(node: string): Promise<string> {
    const url = new URL(await this.cluster.connectionString(node));
    const target = { host: url.hostname, port: Number(url.port) };
    const server = createServer((client) => {
      this.#relay(client, connect(target), node);
    });
    this.#servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url.port = String((server.address() as AddressInfo).port);
    return url.href;
  }

  #relay(client: Socket, upstream: Socket, node: string): void {
    const rewriter = new Rewriter();
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      this.#sockets.add(one);
      one.on("error", () => undefined);
      one.on("close", () => {
        this.#sockets.delete(one);
        other.destroy();
      });
    }
    client.on("data", (bytes) => {
      const out = rewriter.push(bytes);
      // A standby's virtual cluster has no SQL until it is activated.
      if (rewriter.isSystem === false && !this.#serving.has(node)) client.destroy();
      else if (out.length > 0) upstream.write(out);
    });
    upstream.on("data", (bytes) => client.write(bytes));
  }

  async close(): Promise<void> {
    if (this.#beats !== null) clearInterval(this.#beats);
    for (const socket of this.#sockets) socket.destroy();
    for (const server of this.#servers) server.close();
    await this.cluster.close();
  }
}

export function makeCockroachStore(
  nodes: readonly NodeSpec[],
  helper: string,
  more: Partial<CockroachStoreOptions> = {},
): CockroachStore {
  const settings = { ...POSTGRES_DEFAULTS, ...PATIENT, retentionMs: RETENTION_MS, askStandbysEveryMs: 1 };
  return new CockroachStore({ ...settings, nodes, clock: realClock, helper, ...more });
}

const CANNOT = (what: string) => (): Promise<never> =>
  Promise.reject(new Error(`the stand-in cannot ${what}`));

export async function makeStandInHarness(): Promise<ConformanceHarness> {
  const standIn = await StandIn.start();
  const { cluster, specs } = standIn;
  const [primary, ...replicas] = specs.map(({ id }) => id);
  assert.ok(primary !== undefined);
  await cluster.query(primary, "CREATE TABLE kv (key text PRIMARY KEY, value text NOT NULL)");
  const store = makeCockroachStore(specs, "one");
  const otherStore = makeCockroachStore(specs, "two");
  let serving: string = primary;
  const onLinks = async (node: string, act: "cut" | "heal"): Promise<void> => {
    const regions = cluster.nodes.map(({ id, region }) => ({ id, region }));
    const own = regions.find(({ id }) => id === node)?.region ?? "";
    for (const { region } of regions)
      if (region !== own)
        await (act === "cut"
          ? cluster.link(own, region).cut({ mode: "reset" })
          : cluster.link(own, region).heal());
  };
  return {
    ...{ store, otherStore, primary, replicas: replicas as [string, string], retentionMs: RETENTION_MS },
    statements: KV_STATEMENTS,
    newId,
    untilSlowRuns: async (node, count = 1) => {
      const find = "SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
      await eventually("slow statements run", async () => (await cluster.query(node, find)).length === count);
    },
    catchUp: async (replica) => {
      const [now] = await cluster.query(serving, "SELECT last_value AS us FROM standin.hlc");
      await eventually(`${replica} catches up`, async () => {
        const find = "SELECT FROM standin.beat WHERE us >= $1";
        return (await cluster.query(replica, find, [now?.["us"]])).length === 1;
      });
    },
    kill: (node) => {
      standIn.stopServing(node);
      return cluster.kill(node);
    },
    stop: (node) => {
      standIn.stopServing(node);
      return cluster.stop(node);
    },
    promote: async (node) => {
      await cluster.promote(node, { command: false, repoint: false });
      await cluster.query(node, "SELECT standin.activate()");
      serving = node;
      await standIn.serve(node);
    },
    cut: (node) => onLinks(node, "cut"),
    heal: (node) => onLinks(node, "heal"),
    start: CANNOT("start a cluster again"),
    crash: CANNOT("crash a cluster"),
    cleanRestart: CANNOT("restart a cluster"),
    holdFlush: CANNOT("hold a flush: an acknowledged commit has its quorum"),
    writePastTheService: CANNOT("count bytes"),
    follow: CANNOT("follow another cluster"),
    setSynchronous: CANNOT("replicate synchronously between clusters"),
    authorize: CANNOT("take an operator's command"),
    snapshot: CANNOT("copy a cluster"),
    restore: CANNOT("restore a cluster"),
    close: async () => {
      await store.close();
      await otherStore.close();
      await standIn.close();
    },
  };
}
