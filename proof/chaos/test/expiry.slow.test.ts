// Goal: receipts, ids and events that expire while nodes fail and clocks jump make no answer wrong,
// and nothing is forgotten early. Method: the three-region system with a retention of 50 s, a
// failover and wrong clocks, until the first receipts are dropped; then the checker judges the
// history. It must reject the same history under a longer retention than the product's.
import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { type FinalState, type HistoryRecord, type Scenario } from "@highwater/checker";
import { findFaketime } from "@highwater/lab-cluster";
import { judge } from "../src/judge.ts";
import { startThreeRegions } from "../src/nemesis/three-regions.ts";
import { readable } from "../src/report.ts";
import { isClean, runChaos } from "../src/run.ts";
import { startWorkload } from "../src/workload/index.ts";

const SEED = 5;
const DURATION_MS = 40_000;
const RATE = 30;
const CLOCKS = ["primary_clock", "gateway_clock", "tracker_clock"];
const KINDS = ["lose_primary", "kill_tracker", ...CLOCKS];

/** The file that contains the record, and its text. */
async function fileWith(
  history: string,
  type: HistoryRecord["type"],
): Promise<{ file: string; text: string }> {
  for (const name of await readdir(history)) {
    const file = join(history, name);
    const text = await readFile(file, "utf8");
    if (text.includes(`"type":"${type}"`)) return { file, text };
  }
  return assert.fail(`there is no ${type}`);
}

test("a slice of chaos in which everything expires: nothing is violated, and forgetting early would be found", async () => {
  const dir = await mkdtemp(join(tmpdir(), "highwater-chaos-expiry-"));
  try {
    const lines: string[] = [];
    const result = await runChaos({
      ...{ seed: SEED, durationMs: DURATION_MS, rate: RATE, keep: dir },
      startRig: () => startThreeRegions(KINDS, { forgets: true, hasClocks: true }),
      startWorkload,
      say: (line) => lines.push(line),
    });
    const output = [...lines, readable(SEED, result)].join("\n");
    assert.ok(isClean(result), output);
    assert.deepEqual(result.failedFaults, [], output);
    const isLeftOut = lines.some((line) =>
      line.includes("primary_clock is left out: there is no libfaketime"),
    );
    assert.equal(isLeftOut, findFaketime() === undefined, output);
    if (!isLeftOut)
      assert.ok(
        Object.keys(result.faults).some((kind) => CLOCKS.includes(kind)),
        output,
      );

    const history = join(dir, "history");
    const { file, text } = await fileWith(history, "final");
    const records = text.split("\n").filter((line) => line.endsWith("}"));
    const of = <T extends HistoryRecord>(type: T["type"]): T => {
      const line = records.find((each) => each.startsWith(`{"type":"${type}"`));
      return JSON.parse(line ?? "null") as T;
    };
    const { receipts } = of<FinalState>("final");
    assert.ok(receipts.length < (result.judgement?.committed ?? 0), output);
    const longer = JSON.stringify({ ...of<Scenario>("scenario"), retentionMs: 3_600_000 });
    await writeFile(
      file,
      records.map((line) => (line.startsWith('{"type":"scenario"') ? longer : line)).join("\n"),
    );
    const early = await judge(history);
    assert.ok((early.violations_by_rule["expiry.early"] ?? 0) > 0, "the checker lets everything expire");
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
});
