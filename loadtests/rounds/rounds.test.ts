// Which turns count, and what becomes of those that do not; and whose processor time is foreign.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { platform } from "node:os";
import { test } from "node:test";
import { cpuOfChildren } from "./cpu.ts";
import { bestOf, cellsOf, compared, median, quantile, spreadText } from "./figures.ts";
import { type Machine, machineBetween, readMachine } from "./machine.ts";
import { type Subject, takeTurns } from "./turns.ts";

const skip = platform() === "linux" ? false : "only Linux tells";
const QUIET: Machine = { seconds: 2, cores: { server: 0.5 }, foreign_cores: 0.1, steal: 0.05 };
const silent = { say: () => undefined };

/** Measures one after the other of `rates`, each on a machine of its own kind. */
function subject(row: string, rates: readonly [rate: number, machine?: Partial<Machine>][]): Subject {
  const left = [...rates];
  return {
    workload: "updates",
    row,
    measure: () => {
      const [rate, machine] = left.shift() ?? assert.fail(`${row} was measured too often`);
      return Promise.resolve({ figures: { per_second: rate }, machine: { ...QUIET, ...machine } });
    },
  };
}

test("a turn under foreign load or steal is repeated, and the refused turn stays in the results", async () => {
  const turns = await takeTurns(
    [subject("a", [[7, { foreign_cores: 0.11 }], [8, { steal: 0.06 }], [100], [120], [110]])],
    { rounds: 3, ...silent },
  );
  assert.deepEqual(
    turns.map(({ round, refused, figures }) => [round, refused, figures["per_second"]]),
    [
      [1, true, 7],
      [1, true, 8],
      [1, false, 100],
      [2, false, 120],
      [3, false, 110],
    ],
  );
  const [cell] = cellsOf(turns);
  assert.deepEqual(cell, {
    workload: "updates",
    row: "a",
    rounds: 3,
    disturbed: 0,
    refused: 2,
    figures: { per_second: { median: 110, min: 100, max: 120 } },
    cpu_us: { server: { median: 5e5 / 110, min: 5e5 / 120, max: 5e5 / 100 } },
  });
});

test("behind the last refusal a turn counts, and is marked as disturbed", async () => {
  const busy = { foreign_cores: 1 };
  const turns = await takeTurns(
    [
      subject("a", [
        [1, busy],
        [2, busy],
        [3, busy],
        [4, busy],
      ]),
    ],
    { rounds: 1, refusalsMax: 3, ...silent },
  );
  assert.deepEqual(
    turns.map(({ refused, disturbed }) => [refused, disturbed]),
    [
      [true, true],
      [true, true],
      [true, true],
      [false, true],
    ],
  );
  const [cell] = cellsOf(turns);
  assert.deepEqual([cell?.rounds, cell?.disturbed, cell?.refused], [1, 1, 3]);
  const mayTakeAgain = (): boolean => false;
  const late = await takeTurns([subject("a", [[1, busy]])], { rounds: 1, mayTakeAgain, ...silent });
  assert.deepEqual(
    late.map(({ refused, disturbed }) => [refused, disturbed]),
    [[false, true]],
    "where there is no time to take it again, the first one counts",
  );
});

test("rounds run forth and back, and ratios are of turns of one round", async () => {
  const said: string[] = [];
  // Everything becomes ten times slower from round to round, and always by the same ratio.
  const turns = await takeTurns(
    [subject("a", [[600], [60], [6]]), subject("b", [[300], [30], [3]]), subject("c", [[400], [40], [4]])],
    { rounds: 3, say: (what) => said.push(/updates, (.)/.exec(what)?.[1] ?? "") },
  );
  assert.equal(said.join(""), "abccbaabc");
  const cells = cellsOf(turns);
  const pair = { workload: "updates", of: "a", to: "b", figure: "per_second" };
  assert.equal(compared(turns, pair), 2);
  assert.equal(
    compared(turns, pair, (of, to) => of - to),
    30,
  );
  assert.equal(bestOf(cells, "updates", ["b", "c"]), "c");
  assert.equal(bestOf(cells, "reads", ["b", "c"]), "b", "what was not measured is no reason to fail");
  assert.ok(Number.isNaN(compared(turns, { ...pair, to: "d" })));
});

test("median and quantiles", () => {
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1, 2, 3]), 2.5);
  const sorted = Array.from({ length: 100 }, (_, at) => at);
  assert.equal(quantile(sorted, 0.5), 50);
  assert.equal(quantile(sorted, 0.99), 99);
  assert.ok(Number.isNaN(quantile([], 0.5)));
});

test("a spread shows where it has one", () => {
  assert.equal(spreadText({ median: 1234.5, min: 1000, max: 1500 }), "1235 (1000 to 1500)");
  assert.equal(spreadText({ median: 0.12345, min: 0.12345, max: 0.12345 }), "0.123");
});

test(
  "processor time of the benchmark's own processes is not foreign, and that of others is",
  { skip },
  async () => {
    const idle = spawn(process.execPath, ["-e", "setTimeout(() => {}, 60000)"], { stdio: "ignore" });
    try {
      await once(idle, "spawn");
      const parts = { children: () => cpuOfChildren(process.pid) };
      // For a benchmark that were the idle child, this process would be somebody else.
      const roots = [process.pid, idle.pid ?? 0];
      const before = roots.map((root) => readMachine(parts, root));
      const own = process.cpuUsage().user;
      while (process.cpuUsage().user - own < 500_000);
      const after = roots.map((root) => readMachine(parts, root));
      const [ours, others] = before.map((reading, at) =>
        machineBetween(reading, after[at] ?? assert.fail()),
      ) as [Machine, Machine];
      const foreignMs = ({ foreign_cores, seconds }: Machine): number => 1_000 * foreign_cores * seconds;
      // The rest of the machine is in both.
      assert.ok(foreignMs(others) - foreignMs(ours) > 300, JSON.stringify({ ours, others }));
      assert.ok(ours.steal >= 0 && ours.steal <= 1);
      assert.ok(Number.isFinite(ours.cores["children"]));
    } finally {
      idle.kill("SIGKILL");
    }
  },
);
