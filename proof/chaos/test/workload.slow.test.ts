// Goal: the workload records everything, and the product's answers in a clean failover are
// consistent. Method: the whole product in three regions, with the loss of the primary's region in
// the middle of the workload, and everything settled at the end.
import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import type { ClientReply, HistoryRecord, Invocation, Resolution, VerdictReport } from "@highwater/checker";
import { System } from "@highwater/lab-system";
import { nowMs } from "../src/clock.ts";
import { FaultFile } from "../src/fault-log.ts";
import { judge } from "../src/judge.ts";
import { type FaultLog, type Target, USUAL_RETENTION_MS, type Workload } from "../src/parts.ts";
import { startWorkload } from "../src/workload/index.ts";

const [HOME, LEVELS] = ["us-east", ["disk", "region", "global"]];
const LIMIT_MS = 180_000;
/** Longer than a request takes, so that some commits reach no other region. */
const CUT_OFF_MS = 300;

function targetOf(system: System): Target {
  return {
    regions: system.regions,
    retentionMs: USUAL_RETENTION_MS,
    trackers: Object.fromEntries(system.regions.map((region) => [region, system.tracker(region).url])),
    endpoints: (from) => system.endpoints(from),
    query: (node, sql) => system.cluster.query(node, sql),
  };
}

async function untilCommitted(workload: Workload, more: number): Promise<void> {
  const wanted = workload.progress.committed + more;
  const deadlineMs = performance.now() + LIMIT_MS;
  while (workload.progress.committed < wanted) {
    assert.ok(performance.now() < deadlineMs, `too few commits: ${JSON.stringify(workload.progress)}`);
    await pause(50);
  }
}

/** The lost region's clients go on with the others. Both replicas answer, so all is kept. */
async function failOver(system: System, log: FaultLog): Promise<string> {
  const { cluster } = system;
  const startedAtMs = nowMs();
  await cluster.isolate(HOME);
  await pause(CUT_OFF_MS);
  await system.killRegion(HOME);
  const to = await cluster.mostAdvancedReplica();
  log.failure({ atMs: nowMs(), kind: "promotion", node: to, kept: ["region", "global"] });
  await cluster.promote(to, { reason: "the region is lost" });
  await cluster.healAll();
  await system.reviveRegion(HOME);
  await system.ready();
  log.fault({ atMs: startedAtMs, untilMs: nowMs(), kind: "lose_region", target: HOME, error: null });
  return to;
}

async function readHistory(dir: string): Promise<HistoryRecord[]> {
  const files = (await readdir(dir)).filter((name) => name.endsWith(".jsonl"));
  const texts = await Promise.all(files.map((name) => readFile(join(dir, name), "utf8")));
  return texts.flatMap((text) =>
    text
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as HistoryRecord),
  );
}

function byTxn<T extends { readonly txn: string }>(records: readonly T[]): Map<string, T[]> {
  return Map.groupBy(records, ({ txn }) => txn);
}

test("the workload records everything, and settles it after a failover", async () => {
  const dir = await mkdtemp(join(tmpdir(), "highwater-workload-"));
  try {
    await using system = await System.start();
    const log = new FaultFile(dir, "nemesis");
    const workload = await startWorkload({
      target: targetOf(system),
      seed: 1,
      dir,
      levels: LEVELS,
      rate: 10,
    });
    try {
      await untilCommitted(workload, 100);
      const primary = await failOver(system, log);
      await untilCommitted(workload, 100);
      await workload.stop();
      const final = await workload.settle(primary);
      assert.equal(final.node, primary);
    } finally {
      await workload.close();
      log.close();
    }
    assertComplete(await readHistory(dir), system.regions);
    const { violations, examples } = await judge(dir);
    assert.equal(violations, 0, JSON.stringify(examples, null, 2));
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
});

function assertComplete(history: readonly HistoryRecord[], trackers: readonly string[]): void {
  const invocations = history.filter((record): record is Invocation => record.type === "invocation");
  const answers = byTxn(history.filter((record): record is ClientReply => record.type === "answer"));
  const resolutions = byTxn(history.filter((record): record is Resolution => record.type === "resolution"));
  const output = byTxn(history.filter((record): record is VerdictReport => record.type === "report"));
  assert.equal(history.filter(({ type }) => type === "scenario").length, 1);
  assert.equal(history.filter(({ type }) => type === "final").length, 1);
  assert.equal(new Set(invocations.map(({ txn }) => txn)).size, invocations.length, "an id is invoked once");
  for (const { txn, level, client, receipt } of invocations) {
    const [answer, ...more] = answers.get(txn) ?? [];
    assert.ok(answer !== undefined && more.length === 0, `${txn} has one answer`);
    const resolved = resolutions.get(txn) ?? [];
    assert.equal(
      resolved.length,
      answer.outcome === "unknown" && receipt !== false ? 1 : 0,
      `${txn} is resolved once if it has to be`,
    );
    assert.notEqual(resolved[0]?.outcome, "unresolved", txn);
    // Trackers do not know a transaction without a receipt: its answer is the only report.
    if (answer.outcome !== "committed" || receipt === false) continue;
    const reports = output.get(txn) ?? [];
    for (const tracker of trackers) {
      for (const asked of LEVELS) {
        const final = reports.filter(
          (report) => report.by === "final" && report.tracker === tracker && report.level === asked,
        );
        assert.equal(final.length, 1, `${txn} has a final report of ${tracker} at ${asked}`);
        assert.notEqual(final[0]?.verdict, "pending", `${txn} by ${tracker} at ${asked}`);
      }
    }
    // A commit on the wire whose answer has no token is looked up by its id, if few others are.
    if (client.includes("/wire/") && answer.tokenOf === undefined) continue;
    if (isOfDead(client, invocations)) continue;
    const promised = reports.filter((report) => report.by === "promise" && report.level === level);
    assert.ok(promised.length > 0, `the promise of ${txn} is reported`);
    assert.ok(!promised.some(({ verdict }) => verdict === "pending"), `the promise of ${txn} has a verdict`);
  }
  assert.ok(history.some((record) => record.type === "report" && record.by === "event"));
  assert.ok(history.some((record) => record.type === "report" && record.by === "asked"));
}

/** No client reads the promises of a killed process. Its successor is named `NAME.1`. */
function isOfDead(client: string, invocations: readonly Invocation[]): boolean {
  const [process = ""] = client.split("/");
  const [name = "", crashes = "0"] = process.split(".");
  const successor = `${name}.${String(Number(crashes) + 1)}/`;
  return invocations.some((other) => other.client.startsWith(successor));
}
