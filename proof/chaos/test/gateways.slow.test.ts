// Goal: two to four gateways and three trackers serve one load, and no verdict is wrong. Method: the three-region system, whose
// first region has two gateways; the only fault takes two gateways away and starts them again, one by one. Every gateway must
// have committed something, and the checker judges the history.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { startThreeRegions } from "../src/nemesis/three-regions.ts";
import { readable } from "../src/report.ts";
import { isClean, runChaos } from "../src/run.ts";
import { type Rig } from "../src/system.ts";
import { startWorkload } from "../src/workload/index.ts";

const SEED = 7;
const DURATION_MS = 15_000;
const RATE = 60;
const KIND = "fewer_gateways";
const POLL_MS = 250;
const COMMITTED = /^highwater_gateway_transactions_total\{[^}]*outcome="committed"[^}]*\} [1-9]/m;

async function hasCommitted(gateway: string): Promise<boolean> {
  try {
    return COMMITTED.test(await (await fetch(`${gateway}/metrics`)).text());
  } catch {
    // It has been taken away for a moment.
    return false;
  }
}

test("two to four gateways and three trackers under one load", async () => {
  const lines: string[] = [];
  const busy = new Set<string>();
  let gateways: readonly string[] = [];
  /** Counts of a gateway begin again when it starts again, so they are read all the time. */
  const watched = async (): Promise<Rig> => {
    const rig = await startThreeRegions([KIND]);
    const { target } = rig.system;
    gateways = (await target.endpoints(target.regions[0] ?? "")).map(({ gateway }) => gateway);
    return {
      ...rig,
      nemesis: (options) => {
        const nemesis = rig.nemesis(options);
        const run = async (durationMs: number): Promise<void> => {
          let isOver = false;
          const faults = nemesis.run(durationMs).finally(() => (isOver = true));
          while (!isOver) {
            for (const gateway of gateways) if (await hasCommitted(gateway)) busy.add(gateway);
            await pause(POLL_MS);
          }
          await faults;
        };
        return { run, heal: () => nemesis.heal() };
      },
    };
  };
  const result = await runChaos({
    ...{ seed: SEED, durationMs: DURATION_MS, rate: RATE },
    startRig: watched,
    startWorkload,
    say: (line) => lines.push(line),
  });
  const output = [...lines, readable(SEED, result)].join("\n");
  assert.ok(isClean(result), output);
  assert.ok((result.faults[KIND] ?? 0) > 0, output);
  assert.deepEqual(result.failedFaults, [], output);
  assert.equal(new Set(gateways).size, 4);
  assert.deepEqual([...busy].sort(), [...gateways].sort(), output);
});
