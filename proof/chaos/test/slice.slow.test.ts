// Goal: a short run of everything that `make chaos` does finds no fault, and would report one.
// Method: the three-region system with real clients of two owners, a receiver of webhooks, and half
// a dozen faults with a failover; then the checker. The checker must reject the same history with
// one report inverted, and with deliveries to the wrong owner.
import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { type Subscription } from "@highwater/checker";
import { judge } from "../src/judge.ts";
import { startThreeRegions } from "../src/nemesis/three-regions.ts";
import { machineReadable, readable } from "../src/report.ts";
import { isClean, runChaos } from "../src/run.ts";
import { startWorkload } from "../src/workload/index.ts";

const SEED = 5;
const DURATION_MS = 12_000;
const RATE = 40;
const KINDS = ["lose_primary", "one_way_link", "slow_link", "pause_tracker", "kill_gateway", "kill_tracker"];

interface Line {
  type: string;
  by?: string;
  verdict?: string;
}

/** Turns one final `durable` report into a loss. */
async function turnOneVerdict(history: string): Promise<void> {
  for (const name of await readdir(history)) {
    const file = join(history, name);
    const lines = (await readFile(file, "utf8")).split("\n");
    const at = lines.findIndex((line) => {
      if (!line.includes('"final"')) return false;
      const { type, by, verdict } = JSON.parse(line) as Line;
      return type === "report" && by === "final" && verdict === "durable";
    });
    if (at < 0) continue;
    lines[at] = (lines[at] ?? "").replace('"verdict":"durable"', '"verdict":"lost"');
    await writeFile(file, lines.join("\n"));
    return;
  }
  assert.fail("nothing was reported durable");
}

/** Exchanges the endpoints of the two owners. */
async function swapOwners(history: string): Promise<void> {
  const file = join(history, "workload.jsonl");
  const lines = (await readFile(file, "utf8")).split("\n").map((line) => {
    if (!line.includes('"type":"subscription"')) return line;
    const subscription = JSON.parse(line) as Subscription;
    return JSON.stringify({ ...subscription, owner: subscription.owner === "red" ? "blue" : "red" });
  });
  await writeFile(file, lines.join("\n"));
}

test("a slice of chaos: nothing is violated, nothing is pending, and a lie would be found", async () => {
  const dir = await mkdtemp(join(tmpdir(), "highwater-chaos-slice-"));
  try {
    const lines: string[] = [];
    const result = await runChaos({
      ...{ seed: SEED, durationMs: DURATION_MS, rate: RATE, keep: dir },
      startRig: () => startThreeRegions(KINDS, { hasKeys: true }),
      startWorkload,
      say: (line) => lines.push(line),
    });
    const output = [...lines, readable(SEED, result)].join("\n");
    assert.ok(isClean(result), output);
    const kinds = Object.keys(result.faults);
    assert.ok(kinds.includes("lose_primary"), output);
    assert.ok(kinds.length >= 3, output);
    assert.deepEqual(result.failedFaults, [], output);
    assert.ok((result.judgement?.committed ?? 0) > 100, output);
    assert.ok((result.judgement?.deliveries ?? 0) > 0, output);
    const line = JSON.parse(machineReadable(SEED, result)) as Record<string, unknown>;
    assert.deepEqual([line["seed"], line["pending"], line["violations"]], [SEED, 0, 0]);

    const history = join(dir, "history");
    await turnOneVerdict(history);
    assert.ok((await judge(history)).violations > 0, "the checker believes everything");
    await swapOwners(history);
    const swapped = await judge(history);
    assert.ok(
      (swapped.violations_by_rule["webhook.foreign"] ?? 0) > 0,
      "the checker gives everyone every verdict",
    );
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
});
