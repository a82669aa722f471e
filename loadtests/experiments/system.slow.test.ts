// The experiments on a real system, in miniature: both sides commit what they say, safe waits for the link and fast does not, TPC-C stays
// consistent on both, and the checks find what is wrong.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { whyNoPgBouncer } from "@highwater/lab-tools/postgres";
import type { Figures } from "../rounds/turns.ts";
import { Bench } from "./bench.ts";
import type { Way } from "./load/target.ts";
import type { Group } from "./load/worker.ts";
import { keyValueTable } from "./load/workload.ts";
import { ExperimentSystem } from "./system.ts";
import { checkConsistency } from "./tpcc.ts";
import { CONDITIONS, loadedCondition } from "./tpcc/consistency.ts";
import { loadDatabase } from "./tpcc/load.ts";
import { TABLES } from "./tpcc/schema.ts";

const TABLE = "test_rows";
/** Longer than a busy machine delays what does not wait for it. */
const LINK_MS = 300;
const WAITS: Partial<Record<Way, boolean>> = {
  ...{ fast: false, sdk_fast: false, direct_off: false, direct_local: false },
  ...{ safe: true, sdk_safe: true, direct_on: true, pooled_on: true },
  ...(whyNoPgBouncer() === false && { pgbouncer_on: true }),
};
const TURNS_MAX = 40;
const SCALE = { warehouses: 2, items: 100, customersPerDistrict: 20 };

let system: ExperimentSystem;
let bench: Bench;

before(async () => {
  system = await ExperimentSystem.start({
    gatewayEnv: { GATEWAY_POOL_SIZE: "16", GATEWAY_MAX_OPEN_PER_KEY: "16" },
  });
  bench = new Bench(system);
});

after(async () => {
  bench.close();
  await system.close();
});

/** Until something of the kind has ended inside a window: on a busy machine that takes more than one. */
async function measure(group: Group, kind: string, linkMs = 0): Promise<Figures> {
  const { name } = group;
  const measurement = { conditions: { name }, row: name, linkMs, groups: [group], whole: kind };
  for (let turn = 0; turn < TURNS_MAX; turn++) {
    const { figures } = await bench.measure(measurement, { warmUpS: 0.2, windowS: 0.8 });
    if ((figures["per_second"] ?? 0) > 0) return figures;
  }
  throw new Error(`${name}: no ${kind} has ended in ${String(TURNS_MAX)} windows`);
}

test("each way commits, those that wait for the link do and fast ones do not, and the table has all of it", async () => {
  await system.createTables(keyValueTable(TABLE, 50), [TABLE]);
  const workload = { kind: "update", table: TABLE, rows: 50 } as const;
  for (const [way, waits] of Object.entries(WAITS) as [Way, boolean][]) {
    const group: Group = {
      ...{ name: way, way, workload, isolation: "serializable", clients: 2, retries: 50, connections: 2 },
    };
    const p50 = (await measure(group, "update", LINK_MS))["p50_ms"] ?? Number.NaN;
    // The link is a certainty, whatever else the machine does: nothing that waits for it is faster.
    assert.equal(p50 >= LINK_MS, waits, `${way}: ${String(p50)} ms`);
  }
  await bench.check();
  await system.query(`UPDATE ${TABLE} SET value = value + 1 WHERE key = 1`);
  await assert.rejects(bench.check(), /have committed, and/);
});

test("TPC-C is consistent behind its load and behind runs on both sides, and a condition that does not hold is found", async () => {
  await loadDatabase(await system.adminUrl(), SCALE, 5);
  await system.createTables([], TABLES);
  await checkConsistency(system, [...CONDITIONS, loadedCondition(14)]);
  for (const [way, newOrderFast, pipelined] of [
    ["safe", true, false],
    ["direct_off", false, false],
    ["direct_off", false, true],
  ] as const) {
    const workload = { kind: "tpcc", scale: SCALE, newOrderFast, pipelined } as const;
    const name = `${way}${pipelined ? ", pipelined" : ""}`;
    const group: Group = { name, way, workload, isolation: "serializable", clients: 4, retries: 50 };
    await measure(group, "new_order");
    await checkConsistency(system, CONDITIONS);
  }
  const [orders] = await system.query("SELECT count(*)::int AS more FROM orders WHERE o_id > 20");
  assert.ok(Number(orders?.["more"]) > 0);
  for (const [statement, clause] of [
    ["UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1", 1],
    ["DELETE FROM order_line WHERE (ol_w_id, ol_d_id, ol_o_id, ol_number) = (2, 1, 3, 1)", 4],
  ] as const) {
    await system.query("CREATE TABLE kept AS TABLE warehouse");
    await system.query(statement);
    await assert.rejects(
      checkConsistency(system, CONDITIONS),
      new RegExp(`3\\.3\\.2\\.${String(clause)} is violated`),
    );
    await system.query("UPDATE warehouse SET w_ytd = kept.w_ytd FROM kept WHERE kept.w_id = warehouse.w_id");
    await system.query("DROP TABLE kept");
  }
});
