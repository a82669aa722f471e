// The conformance harness of the PostgreSQL adapter: a real cluster of three servers for every call.
import assert from "node:assert/strict";
import { type Cluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { type ConformanceHarness } from "../src/conformance/harness.ts";
import {
  KV_STATEMENTS,
  makeStore,
  newId,
  nodeSpecs,
  RETENTION_MS,
  startTestCluster,
} from "./postgres-cluster.ts";

export async function makePostgresHarness(): Promise<ConformanceHarness> {
  const cluster = await startTestCluster();
  const nodes = await nodeSpecs(cluster);
  const [primary, ...replicas] = nodes.map(({ id }) => id);
  assert.ok(primary !== undefined);
  await cluster.query(primary, "CREATE TABLE kv (key text PRIMARY KEY, value text NOT NULL)");
  const store = makeStore(nodes, "one");
  const otherStore = makeStore(nodes, "two");
  return {
    store,
    otherStore,
    primary,
    replicas: replicas as [string, string],
    retentionMs: RETENTION_MS,
    statements: KV_STATEMENTS,
    newId,
    untilSlowRuns: async (node, count = 1) => {
      await eventually("slow statements run", async () => (await slowOn(cluster, node)) === count);
    },
    catchUp: async (replica) => {
      await eventually(`${replica} catches up`, () => hasCaughtUp(cluster, replica));
    },
    holdFlush: (node) => holdFlush(cluster, node),
    writePastTheService: async (node, bytes) => {
      await cluster.query(node, "SELECT pg_logical_emit_message(true, 'noise', repeat('x', $1))", [bytes]);
    },
    crash: async (node) => {
      await cluster.kill(node);
      await cluster.start(node);
    },
    kill: (node) => cluster.kill(node),
    stop: (node) => cluster.stop(node),
    start: (node) => cluster.start(node),
    cleanRestart: (node) => cluster.restart(node),
    promote: (node) => cluster.promote(node, { command: false, repoint: false }),
    follow: (node, upstream) => cluster.follow(node, upstream),
    setSynchronous: (node, chosen) => setSynchronous(cluster, node, chosen),
    cut: (node) => onLinks(cluster, node, (link) => link.cut({ mode: "reset" })),
    heal: (node) => onLinks(cluster, node, (link) => link.heal()),
    authorize: (node, overrules = []) => cluster.authorize(node, "authorized", { overrules }),
    snapshot: (node) => cluster.snapshot(node),
    restore: async (node, snapshot, as) => {
      const how = as === "primary" ? ({ as } as const) : ({ as: "replica", upstream: as.replicaOf } as const);
      await cluster.restore(node, snapshot as string, how);
      await cluster.start(node);
    },
    close: async () => {
      await store.close();
      await otherStore.close();
      await cluster.close();
    },
  };
}

async function slowOn(cluster: Cluster, node: string): Promise<number> {
  return (await cluster.query(node, "SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'")).length;
}

async function hasCaughtUp(cluster: Cluster, replica: string): Promise<boolean> {
  const upstream = (await cluster.status()).find(({ id }) => id === replica)?.upstream;
  assert.ok(upstream !== undefined, `${replica} follows no node`);
  const rows = await cluster.query(
    upstream,
    `SELECT FROM pg_stat_replication WHERE application_name = $1 AND state = 'streaming'
       AND replay_lsn >= pg_current_wal_flush_lsn()`,
    [replica],
  );
  return rows.length > 0;
}

/** The walwriter is all that flushes by itself here; a killed server takes it along, stopped or not. */
async function holdFlush(cluster: Cluster, node: string): Promise<void> {
  const [row] = await cluster.query(
    node,
    "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'",
  );
  assert.ok(typeof row?.["pid"] === "number");
  process.kill(row["pid"], "SIGSTOP");
}

async function setSynchronous(cluster: Cluster, node: string, chosen: readonly string[]): Promise<void> {
  const names = chosen.map((name) => `"${name}"`).join(", ");
  const value = chosen.length === 0 ? "" : `FIRST ${String(chosen.length)} (${names})`;
  await cluster.query(node, `ALTER SYSTEM SET synchronous_standby_names = '${value}'`);
  await cluster.query(node, "SELECT pg_reload_conf()");
  await eventually("the server waits for these", async () => {
    const rows = await cluster.query(
      node,
      "SELECT application_name AS name FROM pg_stat_replication WHERE sync_state = 'sync'",
    );
    return (
      rows
        .map(({ name }) => String(name))
        .sort()
        .join() === [...chosen].sort().join()
    );
  });
}

async function onLinks(
  cluster: Cluster,
  node: string,
  act: (link: ReturnType<Cluster["link"]>) => Promise<void>,
): Promise<void> {
  const region = cluster.nodes.find(({ id }) => id === node)?.region;
  const others = new Set(cluster.nodes.map((other) => other.region).filter((other) => other !== region));
  for (const other of others) await act(cluster.link(region ?? "", other));
}
