// The stand-in for CockroachDB: real PostgreSQL servers, SQL functions for what the adapter calls,
// and a relay for what SQL cannot imitate. It is built from CockroachDB's documentation and source,
// so it shows that the adapter does what it means to, and not that CockroachDB does. A cut-over
// takes back rows that were inserted, updated or deleted, and no change of the schema.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { eventually } from "@highwater/lab-tools/process";
import { type Cluster, type NodeOptions, startCluster } from "../index.ts";
import type { Row } from "../types.ts";
import type { CockroachNode, CockroachPair } from "./pair.ts";

const BEAT_MS = 20;
/** A position is in nanoseconds, with ten digits of a counter. */
const POSITION_DIGITS_BELOW_MICROS = 13;
/** An answer's first message, before which no server says anything else. */
const AUTHENTICATED = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0]);
const VERSION = "CockroachDB CCL v26.2.0 (stand-in)";
/** What CockroachDB has and PostgreSQL has not. */
const OPTIONS =
  /-c (?:autocommit_before_ddl|allow_unsafe_internals|results_buffer_size|default_transaction_use_follower_reads)=\S+ ?/g;
const REWRITES: readonly (readonly [RegExp, string])[] = [
  [
    /SHOW VIRTUAL CLUSTER main WITH REPLICATION STATUS, PRIOR REPLICATION DETAILS/,
    "SELECT * FROM standin.virtual_cluster()",
  ],
  [/SHOW CLUSTER SETTING kv\.raft_log\.[\w.]+/, "SELECT is_unsafe FROM standin.setting"],
  [/SELECT version\(\)/, `SELECT '${VERSION}' AS version`],
  [/ USING HASH\)/, ")"],
];

/** The time has microseconds, and digits below them that commits do not have here. */
const AS_OF = /BEGIN AS OF SYSTEM TIME (\d+)\d{3}\.\d{10}/;
/** What the adapter asks at the beginning of a transaction in the past. */
const SNAPSHOT = /SELECT \(SELECT id FROM highwater\.epoch[^$]*(\$1::UUID) LIMIT 1\) AS fork/;

/** One connection's bytes from its client, message by message. */
class Rewriter {
  #rest = Buffer.alloc(0);
  #hasBegun = false;
  /** Whether it goes to the system virtual cluster; null until it has said so. */
  isSystem: boolean | null = null;
  /** When its last transaction in the past is, in microseconds. */
  #asOf = "";

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
      out.push(this.#hasBegun ? this.#rewritten(message) : this.#begin(message));
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

  #rewritten(message: Buffer): Buffer {
    const type = String.fromCharCode(message[0] ?? 0);
    if (type !== "Q" && type !== "P") return message;
    const old = message.subarray(5).toString("latin1");
    let text = old;
    for (const [from, to] of REWRITES) text = text.replace(from, to);
    text = text.replace(AS_OF, (_, micros: string) => {
      this.#asOf = micros;
      return "BEGIN ISOLATION LEVEL REPEATABLE READ";
    });
    text = text.replace(
      SNAPSHOT,
      (_, ended: string) => `SELECT * FROM standin.snapshot_at(${this.#asOf}, ${ended})`,
    );
    return text === old ? message : framed(type, [Buffer.from(text, "latin1")]);
  }
}

function framed(type: string, parts: readonly Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  const head = Buffer.alloc(4);
  head.writeInt32BE(4 + body.length);
  return Buffer.concat([Buffer.from(type), head, body]);
}

export interface StandInOptions {
  /** The first one is the primary. Default: one in each of three regions. */
  readonly nodes?: readonly NodeOptions[];
  /** How often standbys get another `replicated_time`. */
  readonly beatMs?: number;
}

export class CockroachStandIn implements CockroachPair {
  readonly name = "CockroachDB (STAND-IN)";
  readonly cluster: Cluster;
  readonly #beatMs: number;
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();
  /** Where the virtual cluster with the data is served. */
  readonly #serving = new Set<string>();
  #beats: NodeJS.Timeout | null = null;
  readonly nodes: CockroachNode[] = [];

  private constructor(cluster: Cluster, beatMs: number) {
    this.cluster = cluster;
    this.#beatMs = beatMs;
  }

  static async start({ nodes, beatMs = BEAT_MS }: StandInOptions = {}): Promise<CockroachStandIn> {
    const standIn = new CockroachStandIn(
      await startCluster({ roundTripMs: {}, ...(nodes !== undefined && { nodes }) }),
      beatMs,
    );
    const { cluster } = standIn;
    const [primary] = cluster.nodes;
    assert.ok(primary !== undefined);
    await cluster.query(primary.id, await readFile(new URL("stand-in.sql", import.meta.url), "utf8"));
    for (const { id, region, zone } of cluster.nodes)
      standIn.nodes.push({ id, region, zone, url: await standIn.#listen(id) });
    await standIn.#serve(primary.id);
    return standIn;
  }

  query(node: string, sql: string, values: readonly unknown[] = []): Promise<Row[]> {
    return this.cluster.query(node, sql, values);
  }

  async catchUp(standby: string, serving: string): Promise<void> {
    const [now] = await this.query(serving, "SELECT last_value AS us FROM standin.hlc");
    await eventually(`${standby} catches up`, async () => {
      const rows = await this.query(standby, "SELECT FROM standin.beat WHERE us >= $1", [now?.["us"]]);
      return rows.length === 1;
    });
  }

  stopServing(node: string): Promise<void> {
    this.#serving.delete(node);
    return Promise.resolve();
  }

  /** As COMPLETE REPLICATION TO LATEST, or to a position; says how many changes it took back. */
  async cutOver(node: string, to?: string): Promise<number> {
    await this.cluster.promote(node, { command: false, repoint: false });
    const past = to === undefined ? null : to.slice(0, -POSITION_DIGITS_BELOW_MICROS);
    const [row] = await this.query(node, "SELECT standin.cut_over($1::bigint) AS reverted", [past]);
    await this.#serve(node);
    return Number(row?.["reverted"]);
  }

  async follow(node: string, source: string): Promise<void> {
    await this.stopServing(node);
    await this.cluster.rejoin(node, { upstream: source });
    await this.cluster.waitForStreaming([node]);
  }

  /** The node's virtual cluster is the one that standbys follow from now on. */
  async #serve(node: string): Promise<void> {
    this.#serving.add(node);
    const url = this.nodes.find(({ id }) => id === node)?.url;
    await this.cluster.query(node, "DELETE FROM standin.origin");
    await this.cluster.query(
      node,
      "INSERT INTO standin.origin VALUES ($1, md5(current_setting('data_directory') || 'on')::uuid::text || ':3')",
      [url],
    );
    if (this.#beats !== null) clearInterval(this.#beats);
    this.#beats = setInterval(() => {
      this.cluster.query(node, "CALL standin.beat()").catch(() => undefined);
    }, this.#beatMs);
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
    upstream.once("data", (first) => {
      client.write(first.subarray(0, AUTHENTICATED.length));
      // By this a client knows what it speaks to.
      if (first.subarray(0, AUTHENTICATED.length).equals(AUTHENTICATED))
        client.write(framed("S", [Buffer.from(`crdb_version\0${VERSION}\0`)]));
      client.write(first.subarray(AUTHENTICATED.length));
      upstream.on("data", (bytes) => client.write(bytes));
    });
  }

  async close(): Promise<void> {
    if (this.#beats !== null) clearInterval(this.#beats);
    for (const socket of this.#sockets) socket.destroy();
    for (const server of this.#servers) server.close();
    await this.cluster.close();
  }
}
