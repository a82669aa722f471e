// Two real CockroachDB clusters, the second one the first one's standby by physical cluster
// replication. `make test-cockroach` says how to start them. Never run so far: no server was at hand.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import pg from "pg";
import { eventually } from "@highwater/lab-tools/process";
import { type ConformanceHarness } from "../src/conformance/harness.ts";
import { makeCockroachStore } from "./cockroach-stand-in.ts";
import { KV_STATEMENTS, newId, RETENTION_MS } from "./postgres-cluster.ts";

/** A standby's time moves on every 30 seconds. */
const PATIENCE_MS = 300_000;
const NODES = ["primary", "standby"] as const;

async function run(url: string, sql: string, cluster = "main"): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url, options: `-c cluster=${cluster}` });
  client.on("error", () => undefined);
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}

/** Both URLs without a database: each harness has one of its own. */
export async function makeServersHarness(
  primaryUrl: string,
  standbyUrl: string,
): Promise<ConformanceHarness> {
  const database = `highwater_${randomBytes(6).toString("hex")}`;
  await run(primaryUrl, `CREATE DATABASE ${database}`);
  const urls = [primaryUrl, standbyUrl].map(
    (url) => Object.assign(new URL(url), { pathname: database }).href,
  );
  const of = (node: string): string => urls[NODES.indexOf(node as "primary")] ?? "";
  await run(of("primary"), "CREATE TABLE kv (key text PRIMARY KEY, value text NOT NULL)");
  const specs = NODES.map((id) => ({ id, region: id, zone: id, url: of(id) }));
  const [store, otherStore] = ["one", "two"].map((helper) => makeCockroachStore(specs, helper));
  assert.ok(store !== undefined && otherStore !== undefined);
  const cannot = (): Promise<never> => Promise.reject(new Error("not done to real clusters"));
  return {
    store,
    otherStore,
    primary: "primary",
    replicas: ["standby", "standby"],
    retentionMs: RETENTION_MS,
    statements: KV_STATEMENTS,
    newId,
    untilSlowRuns: async (node, count = 1) => {
      const find = "SELECT query FROM [SHOW CLUSTER QUERIES] WHERE query = 'SELECT pg_sleep(600)'";
      await eventually("slow statements run", async () => (await run(of(node), find)).length === count);
    },
    catchUp: async (replica) => {
      const { offset } = await store.logEnd("primary");
      await eventually(
        "the standby catches up",
        async () => (await store.probe(replica)).flushed >= offset,
        PATIENCE_MS,
      );
    },
    // The standby is behind in any case.
    cut: () => Promise.resolve(),
    kill: async (node) => {
      await run(of(node), "ALTER VIRTUAL CLUSTER main STOP SERVICE", "system");
    },
    promote: async (node) => {
      await run(of(node), "ALTER VIRTUAL CLUSTER main COMPLETE REPLICATION TO LATEST", "system");
      const isReady = async (): Promise<boolean> =>
        (await run(of(node), "SHOW VIRTUAL CLUSTER main", "system"))[0]?.["data_state"] === "ready";
      await eventually("the standby is cut over", isReady, PATIENCE_MS);
      await run(of(node), "ALTER VIRTUAL CLUSTER main START SERVICE SHARED", "system");
      const answers = (): Promise<boolean> =>
        run(of(node), "SELECT 1").then(
          () => true,
          () => false,
        );
      await eventually("its virtual cluster answers", answers, PATIENCE_MS);
    },
    heal: cannot,
    stop: cannot,
    start: cannot,
    crash: cannot,
    cleanRestart: cannot,
    holdFlush: cannot,
    writePastTheService: cannot,
    follow: cannot,
    setSynchronous: cannot,
    authorize: cannot,
    snapshot: cannot,
    restore: cannot,
    close: async () => {
      await store.close();
      await otherStore.close();
    },
  };
}
