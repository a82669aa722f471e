// The conformance suite's harness on the stand-in for CockroachDB, or on two real clusters.
import assert from "node:assert/strict";
import { CockroachStandIn, openServers } from "@highwater/lab-cluster/cockroach";
import { eventually } from "@highwater/lab-tools/process";
import { type NodeSpec } from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import { CockroachStore } from "../src/cockroach/adapter.ts";
import { type ConformanceHarness } from "../src/conformance/harness.ts";
import { POSTGRES_DEFAULTS } from "../src/postgres/adapter.ts";
import { KV_STATEMENTS, newId, PATIENT, RETENTION_MS } from "./postgres-cluster.ts";

/** How to find statements of `KV_STATEMENTS.slow`. */
const SLOW = {
  server: "SELECT query FROM [SHOW CLUSTER QUERIES] WHERE query = 'SELECT pg_sleep(600)'",
  standIn: "SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'",
};

export function makeCockroachStore(nodes: readonly NodeSpec[], helper: string): CockroachStore {
  const settings = { ...POSTGRES_DEFAULTS, ...PATIENT, retentionMs: RETENTION_MS, askStandbysEveryMs: 1 };
  return new CockroachStore({ ...settings, nodes, clock: realClock, helper });
}

export async function makeCockroachHarness(): Promise<ConformanceHarness> {
  const pair = openServers === null ? await CockroachStandIn.start() : await openServers();
  const standIn = pair instanceof CockroachStandIn ? pair.cluster : null;
  const [primary, ...replicas] = pair.nodes.map(({ id }) => id);
  assert.ok(primary !== undefined);
  await pair.query(primary, "CREATE TABLE kv (key text PRIMARY KEY, value text NOT NULL)");
  const store = makeCockroachStore(pair.nodes, "one");
  const otherStore = makeCockroachStore(pair.nodes, "two");
  let serving = primary;
  const cannot = (): Promise<never> => Promise.reject(new Error(`not done to ${pair.name}`));
  const onLinks = async (node: string, act: "cut" | "heal"): Promise<void> => {
    const own = pair.nodes.find(({ id }) => id === node)?.region ?? "";
    for (const { region } of pair.nodes)
      if (region !== own)
        await (act === "cut"
          ? standIn?.link(own, region).cut({ mode: "reset" })
          : standIn?.link(own, region).heal());
  };
  return {
    store,
    otherStore,
    primary,
    replicas: [replicas[0] ?? "", replicas.at(-1) ?? ""],
    retentionMs: RETENTION_MS,
    statements: KV_STATEMENTS,
    newId,
    untilSlowRuns: async (node, count = 1) => {
      const find = standIn === null ? SLOW.server : SLOW.standIn;
      await eventually("slow statements run", async () => (await pair.query(node, find)).length === count);
    },
    catchUp: (replica) => pair.catchUp(replica, serving),
    kill: async (node) => {
      await pair.stopServing(node);
      await standIn?.kill(node);
    },
    stop: async (node) => {
      await pair.stopServing(node);
      await (standIn === null ? cannot() : standIn.stop(node));
    },
    promote: async (node) => {
      await pair.cutOver(node);
      serving = node;
    },
    // A real standby is behind in any case.
    cut: (node) => onLinks(node, "cut"),
    heal: (node) => onLinks(node, "heal"),
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
      await pair.close();
    },
  };
}
