// Goal: no history of failures makes a tracker promise what no disk has, call lost what exists, forget what it has received, or
// take a verdict back. Method: random histories of a whole simulated system that knows the truth; the seeds are fixed, `make sim` plays others,
// and a failure prints its history, made small.
import assert from "node:assert/strict";
import { test } from "node:test";
import { describeFailure } from "./failure.ts";
import { LONG_POSITION } from "./play.ts";
import { ANYTHING, type Bounds, draw, playScript, seedOf, WITH_LONG_POSITIONS, WITH_WIRE } from "./run.ts";

const RUNS = Number(process.env["RUNS"] ?? 300);
const SERIES = 20_260_101;
const STORIES = 30;

async function playAll(series: number, bounds: Bounds): Promise<Map<string, number>> {
  const met = new Map<string, number>();
  for (let n = 0; n < RUNS; n++) {
    const script = draw(seedOf(series, n), bounds);
    const { failure, play } = await playScript(script);
    if (failure !== null) assert.fail(await describeFailure({ series, n }, script));
    for (const from of [play.met, play.checker.met])
      for (const [kind, count] of from) met.set(kind, (met.get(kind) ?? 0) + count);
  }
  return met;
}

test("SPEC I1-I6: every verdict agrees with the truth, at every step and at the end", async () => {
  await playAll(SERIES, { loses: false, tears: false });
});

test("SPEC I7: losing evidence never makes a verdict out of nothing", async () => {
  const met = await playAll(SERIES + 1, { loses: true, tears: false });
  assert.ok((met.get("report lost") ?? 0) > RUNS);
});

test("SPEC I9: a tracker that is killed and started from a stale ledger promises nothing that is not true", async () => {
  const met = await playAll(SERIES + 2, { loses: false, tears: true });
  assert.ok((met.get("torn ledger") ?? 0) > 0);
});

/** What has to be met in so many runs for the simulation to be worth anything. */
const WORTHWHILE = [
  ...[
    "durable",
    "lost",
    "broken",
    "read durable",
    "read lost",
    "published lost",
    "published broken",
    "published retried",
  ],
  ...["epoch: clean_restart", "epoch: crash_recovery", "epoch: promotion", "epoch: reinstated"],
  ...["minting interrupted", "epoch completed by another", "epoch begun by a gateway"],
  ...[
    "primary killed",
    "primary stopped",
    "replica killed",
    "backend killed",
    "tracker killed",
    "gateway killed",
  ],
  ...["best replica promoted", "worse replica promoted", "twins on one timeline", "zombie", "split brain"],
  ...["operator's command", "history given up", "switchover", "restored from an older copy"],
  ...[
    "replica of another history attached",
    "stream cut",
    "process cut off from a node",
    "clock jumped",
    "torn ledger",
  ],
  ...[
    "report late",
    "report lost",
    "report repeated",
    "reply lost",
    "unknown outcome",
    "same id again",
    "new id after a loss",
  ],
];

test("the simulation is worth playing: every kind of fault and of verdict is met", async () => {
  const met = await playAll(SERIES + 3, ANYTHING);
  for (const kind of WORTHWHILE) assert.ok((met.get(kind) ?? 0) > 0, `${kind} was never met`);
});

const ON_WIRE = [
  ...["commit on the wire", "session of the wire ended", "held answer released"],
  ...["position durable", "position unknown", "position broken"],
];

test("an answer that the PostgreSQL wire has held goes out when the disks have its commit, or early with a token", async () => {
  const met = await playAll(SERIES + 4, WITH_WIRE);
  for (const kind of ON_WIRE) assert.ok((met.get(kind) ?? 0) > 0, `${kind} was never met`);
});

test("verdicts are as right where a position is a time of 29 digits instead of a number of bytes", async () => {
  const met = await playAll(SERIES + 5, WITH_LONG_POSITIONS);
  for (const kind of ["durable", "lost", "broken", ...ON_WIRE]) assert.ok((met.get(kind) ?? 0) > 0, kind);
});

test("a long position changes nothing but itself", async () => {
  const storyOf = async (n: number, bounds: Bounds): Promise<string> => {
    const { play } = await playScript(draw(seedOf(SERIES + 6, n), bounds), undefined, true);
    return (play.lines ?? []).join("\n");
  };
  for (let n = 0; n < STORIES; n++) {
    const [short, long] = [await storyOf(n, WITH_WIRE), await storyOf(n, WITH_LONG_POSITIONS)];
    assert.notEqual(long, short);
    const shortened = long.replace(/\b1795885\d{22}\b/g, (position) =>
      String(BigInt(position) - LONG_POSITION),
    );
    assert.equal(shortened, short);
  }
});

test("a seed decides everything: the same run twice is the same run", async () => {
  const linesOf = async (): Promise<string[]> => {
    const { play } = await playScript(draw(seedOf(SERIES, 7)), undefined, true);
    return [...(play.lines ?? [])];
  };
  const once = await linesOf();
  assert.ok(once.length > 10);
  assert.deepEqual(await linesOf(), once);
});
