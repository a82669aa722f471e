// Two real CockroachDB clusters, each the other one's standby by physical cluster replication in
// turn. start-servers.sh starts them. Never run so far: no server was at hand.
import { randomBytes } from "node:crypto";
import pg from "pg";
import { eventually } from "@highwater/lab-tools/process";
import type { Row } from "../types.ts";
import type { CockroachNode, CockroachPair } from "./pair.ts";

/** A standby's time moves on every 30 seconds. */
const PATIENCE_MS = 300_000;
const NANOS_PER_MS = 1_000_000n;
const COUNTER_DIGITS = 10;

async function run(url: string, sql: string, cluster = "main"): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url, options: `-c cluster=${cluster}` });
  client.on("error", () => undefined);
  await client.connect();
  try {
    return (await client.query<Row>(sql)).rows;
  } finally {
    await client.end();
  }
}

export class CockroachServers implements CockroachPair {
  readonly name = "CockroachDB (SERVER)";
  readonly nodes: readonly CockroachNode[];

  private constructor(nodes: readonly CockroachNode[]) {
    this.nodes = nodes;
  }

  /**
   * Both URLs without a database: each pair has one of its own. If an earlier test has cut over to
   * the second cluster, the first one becomes its standby.
   */
  static async open(urls: readonly [string, string]): Promise<CockroachServers> {
    const database = `highwater_${randomBytes(6).toString("hex")}`;
    const nodes = ["one", "two"].map((id, at) => {
      const url = Object.assign(new URL(urls[at as 0 | 1]), { pathname: database }).href;
      return { id, region: id, zone: id, url };
    });
    const servers = new CockroachServers(nodes);
    if ((await servers.#state("two")) === "ready") {
      servers.#swap();
      if ((await servers.#state("one")) === "ready") await servers.follow("one", "two");
    }
    const [serving] = servers.nodes;
    await run(urls[serving?.id === "one" ? 0 : 1], `CREATE DATABASE ${database}`);
    return servers;
  }

  #swap(): void {
    (this.nodes as CockroachNode[]).reverse();
  }

  #url(node: string): string {
    const found = this.nodes.find(({ id }) => id === node);
    if (found === undefined) throw new Error(`there is no cluster ${node}`);
    return found.url;
  }

  query(node: string, sql: string): Promise<Row[]> {
    return run(this.#url(node), sql);
  }

  #system(node: string, sql: string): Promise<Row[]> {
    return run(this.#url(node), sql, "system");
  }

  async #state(node: string): Promise<unknown> {
    return (await this.#system(node, "SHOW VIRTUAL CLUSTER main"))[0]?.["data_state"];
  }

  async catchUp(standby: string, serving: string): Promise<void> {
    const [now] = await this.query(serving, "SELECT cluster_logical_timestamp()::STRING AS at");
    const at = BigInt(String(now?.["at"]).replace(".", "")) / 10n ** BigInt(COUNTER_DIGITS);
    const sql = "SHOW VIRTUAL CLUSTER main WITH REPLICATION STATUS";
    const hasAll = async (): Promise<boolean> => {
      const [row] = await this.#system(standby, sql);
      const time = row?.["replicated_time"];
      return time instanceof Date && BigInt(time.getTime()) * NANOS_PER_MS >= at;
    };
    await eventually("the standby catches up", hasAll, PATIENCE_MS);
  }

  async stopServing(node: string): Promise<void> {
    await this.#system(node, "ALTER VIRTUAL CLUSTER main STOP SERVICE");
  }

  async cutOver(node: string): Promise<void> {
    await this.#system(node, "ALTER VIRTUAL CLUSTER main COMPLETE REPLICATION TO LATEST");
    const isReady = async (): Promise<boolean> => (await this.#state(node)) === "ready";
    await eventually("the standby is cut over", isReady, PATIENCE_MS);
    await this.#system(node, "ALTER VIRTUAL CLUSTER main START SERVICE SHARED");
    const answers = (): Promise<boolean> =>
      this.query(node, "SELECT 1").then(
        () => true,
        () => false,
      );
    await eventually("its virtual cluster answers", answers, PATIENCE_MS);
  }

  async follow(node: string, source: string): Promise<void> {
    await this.stopServing(node).catch(() => undefined);
    const from = new URL(this.#url(source));
    from.pathname = "";
    from.searchParams.set("options", "-ccluster=system");
    await this.#system(node, `ALTER VIRTUAL CLUSTER main START REPLICATION OF main ON '${from.href}'`);
    const isStandby = async (): Promise<boolean> => (await this.#state(node)) === "replicating";
    await eventually("the old cluster replicates", isStandby, PATIENCE_MS);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
