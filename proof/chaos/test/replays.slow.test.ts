// Goal: a short run of `make chaos REPLAY=1` loses transactions, brings some back, and finds no
// fault; and it would find one in what came back. Method: a failover in the middle of a replay, then
// the checker, also on the same history without the table of replays, and without the classes.
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { type FinalState, type HistoryRecord } from "@highwater/checker";
import { judge } from "../src/judge.ts";
import { startThreeRegions } from "../src/nemesis/three-regions.ts";
import { readable } from "../src/report.ts";
import { isClean, runChaos } from "../src/run.ts";
import { startWorkload } from "../src/workload/index.ts";

const SEED = 7;
const DURATION_MS = 20_000;
const RATE = 60;

test("a slice of chaos with replays: what was lost is in one class, and a lie would be found", async () => {
  const dir = await mkdtemp(join(tmpdir(), "highwater-chaos-replays-"));
  try {
    const lines: string[] = [];
    const result = await runChaos({
      seed: SEED,
      durationMs: DURATION_MS,
      rate: RATE,
      keep: dir,
      startRig: () => startThreeRegions(["failover_during_replay"], { replays: true }),
      startWorkload,
      say: (line) => lines.push(line),
    });
    const output = [...lines, readable(SEED, result)].join("\n");
    assert.ok(isClean(result), output);
    const { replayed = 0, conflicts = 0, unrecoverable = 0 } = result.judgement ?? {};
    assert.ok(replayed + conflicts + unrecoverable > 0, output);

    const file = join(dir, "history", "workload.jsonl");
    const records = (await readFile(file, "utf8"))
      .split("\n")
      .flatMap((line) => (line === "" ? [] : [JSON.parse(line) as HistoryRecord]));
    const judged = async (change: (record: HistoryRecord) => HistoryRecord[]): Promise<readonly string[]> => {
      const changed = records.flatMap(change).map((record) => JSON.stringify(record));
      await writeFile(file, `${changed.join("\n")}\n`);
      return Object.keys((await judge(join(dir, "history"))).violations_by_rule);
    };
    const unnamed = (record: HistoryRecord): HistoryRecord[] =>
      record.type === "final" ? [{ ...record, redone: [] } satisfies FinalState] : [record];
    // On a busy machine every lost transaction may be a conflict or unrecoverable.
    if (replayed > 0) assert.ok((await judged(unnamed)).includes("atomicity.receipt"));
    assert.ok((await judged((record) => (record.type === "end" ? [] : [record]))).includes("replay.class"));
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
});
