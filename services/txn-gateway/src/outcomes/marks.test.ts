import assert from "node:assert/strict";
import { test } from "node:test";
import { EpochGraph, type EpochRecord, type Offset } from "@highwater/protocol";
import { epochRecord } from "@highwater/protocol/testing";
import fc from "fast-check";
import { EPOCH_A, EPOCH_B, FakeClock, marksOf } from "../../test/support/fakes.ts";
import { MarkBoard, type WaitEnd } from "./marks.ts";

function makeBoard(currentEpoch: () => string | null = () => null) {
  const clock = new FakeClock();
  const epochs = new EpochGraph();
  const board = new MarkBoard({ clock, currentEpoch, epochs: () => epochs });
  /** As the gateway does: its graph learns of the epochs first. */
  const begin = (...ancestry: EpochRecord[]): void => {
    epochs.add(ancestry);
    board.beginEpoch(ancestry);
  };
  return { clock, board, begin };
}

const EPOCH_C = "00000000-0000-4000-8000-00000000000c";
const EPOCH_D = "00000000-0000-4000-8000-00000000000d";

const at = (offset: number, level = "region", epoch = EPOCH_A) => ({
  epoch,
  level,
  offset: BigInt(offset) as Offset,
});

const record = (id: string, seq: number, more: Partial<EpochRecord> = {}): EpochRecord =>
  epochRecord(id, { seq, ...more });

test("one mark settles every wait at or below it, and no other", async () => {
  const { board, clock } = makeBoard();
  const ends = new Map<number, WaitEnd>();
  for (const offset of [30, 10, 20, 20, 40])
    void board.wait(at(offset), 1_000).then((end) => ends.set(offset, end));
  board.advance(marksOf(EPOCH_A, { region: "20", disk: "99" }));
  await clock.advance(0);
  assert.deepEqual([...ends.keys()].sort(), [10, 20]);
  assert.equal(board.waiting, 2);
  board.advance(marksOf(EPOCH_A, { region: "40" }));
  await clock.advance(0);
  assert.deepEqual([...ends.values()], ["reached", "reached", "reached", "reached"]);
  assert.equal(board.waiting, 0);
  assert.equal(clock.pendingTimers, 0);
});

test("a mark that is already there answers at once, one of another level or epoch does not", async () => {
  const { board } = makeBoard();
  board.advance(marksOf(EPOCH_A, { region: "20" }));
  assert.equal(await board.wait(at(20), 0), "reached");
  assert.equal(await board.wait(at(21), 0), "timeout");
  assert.equal(await board.wait(at(1, "global"), 0), "timeout");
  assert.equal(await board.wait(at(1, "region", EPOCH_B), 0), "timeout");
});

test("a wait ends with its time, and leaves the others waiting", async () => {
  const { board, clock } = makeBoard();
  const short = board.wait(at(10), 100);
  const long = board.wait(at(10), 1_000);
  await clock.advance(100);
  assert.equal(await short, "timeout");
  assert.equal(board.waiting, 1);
  board.advance(marksOf(EPOCH_A, { region: "10" }));
  assert.equal(await long, "reached");
});

test("marks never go back, also when a tracker with an older view speaks", () => {
  const { board } = makeBoard();
  board.advance(marksOf(EPOCH_A, { region: "20", disk: "30" }));
  board.advance(marksOf(EPOCH_A, { region: "10", disk: "31" }));
  assert.deepEqual(board.newest?.levels, { region: "20", disk: "31" });
});

test("a new epoch ends the waits of the old one, and keeps those of its own", async () => {
  const { board, begin } = makeBoard();
  begin(record(EPOCH_A, 1));
  const old = board.wait(at(10), 1_000);
  // Committed in an epoch that the stream has not reported yet.
  const young = board.wait(at(10, "region", EPOCH_B), 1_000);
  begin(record(EPOCH_A, 1), record(EPOCH_B, 2, { previous: EPOCH_A }));
  assert.equal(await old, "ended");
  assert.equal(board.newest?.epoch, EPOCH_B);
  board.advance(marksOf(EPOCH_A, { region: "50" }));
  assert.equal(board.newest.epoch, EPOCH_B, "an old epoch's mark is not the newest");
  assert.equal(await board.wait(at(50), 0), "reached", "but stays true within its epoch");
  board.advance(marksOf(EPOCH_B, { region: "10" }, 2));
  assert.equal(await young, "reached");
  assert.equal(await board.wait(at(51), 1_000), "ended");
});

test("an operator's choice ends an epoch that is no ancestor of the next", async () => {
  const { board, begin } = makeBoard();
  begin(record(EPOCH_A, 1));
  const old = board.wait(at(10), 1_000);
  begin(record(EPOCH_B, 7, { supersedes: [EPOCH_A] }));
  assert.equal(await old, "ended");
  begin(record(EPOCH_A, 1));
  assert.equal(board.newest?.epoch, EPOCH_B, "a tracker with an older view ends nothing");
});

test("the stream of another history ends nothing, neither with its epoch nor with its marks", async () => {
  const { board, begin } = makeBoard();
  const [common, stray] = [record(EPOCH_C, 1), record(EPOCH_B, 7, { previous: EPOCH_C })];
  begin(common, record(EPOCH_A, 2, { previous: EPOCH_C }));
  const wait = board.wait(at(10), 1_000);
  begin(common, stray);
  board.advance(marksOf(EPOCH_B, { region: "99" }, 7));
  assert.equal(board.newest?.epoch, EPOCH_A);
  board.advance(marksOf(EPOCH_A, { region: "10" }, 2));
  assert.equal(await wait, "reached");
});

test("while the gateway knows the primary no stream ends its epoch, and its own next one ends a stray", async () => {
  let currentEpoch: string | null = null;
  const { board, begin } = makeBoard(() => currentEpoch);
  // Received before the nodes had been asked.
  begin(record(EPOCH_C, 1), record(EPOCH_B, 7, { previous: EPOCH_C }));
  const own = [record(EPOCH_C, 1), record(EPOCH_A, 2, { previous: EPOCH_C })];
  currentEpoch = EPOCH_A;
  begin(...own);
  assert.equal(board.newest?.epoch, EPOCH_A);
  const wait = board.wait(at(10), 1_000);
  begin(...own, record(EPOCH_D, 3, { previous: EPOCH_A }));
  assert.equal(board.newest.epoch, EPOCH_A, "the next epoch is not current here yet");
  board.advance(marksOf(EPOCH_A, { region: "10" }, 2));
  assert.equal(await wait, "reached");
  const late = board.wait(at(11), 1_000);
  currentEpoch = null;
  begin(...own, record(EPOCH_D, 3, { previous: EPOCH_A }));
  assert.equal(await late, "ended");
});

test("stopping ends every wait as a timeout, never as a loss", async () => {
  const { board, clock } = makeBoard();
  const wait = board.wait(at(10), 1_000);
  board.stop();
  assert.equal(await wait, "timeout");
  assert.equal(await board.wait(at(10), 1_000), "timeout");
  assert.equal(clock.pendingTimers, 0);
});

test("property: a wait is reached if and only if a mark at or above its offset came in time", async () => {
  const step = fc.oneof(
    fc.record({ wait: fc.nat(20) }),
    fc.record({ mark: fc.nat(20) }),
    fc.record({ time: fc.nat(10) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      const { board, clock } = makeBoard();
      const expected: { offset: number; untilMs: number; end: WaitEnd | null }[] = [];
      const found: (WaitEnd | null)[] = [];
      let highest = -1;
      for (const move of steps) {
        if ("wait" in move) {
          const index = expected.length;
          const end = highest >= move.wait ? "reached" : null;
          expected.push({ offset: move.wait, untilMs: clock.monotonicMs() + 10, end });
          found.push(null);
          void board.wait(at(move.wait), 10).then((result) => (found[index] = result));
        } else if ("mark" in move) {
          highest = Math.max(highest, move.mark);
          board.advance(marksOf(EPOCH_A, { region: String(move.mark) }));
          for (const one of expected) if (one.end === null && one.offset <= highest) one.end = "reached";
        } else {
          await clock.advance(move.time);
          for (const one of expected)
            if (one.end === null && one.untilMs <= clock.monotonicMs()) one.end = "timeout";
        }
      }
      await clock.advance(0);
      assert.deepEqual(
        found,
        expected.map(({ end }) => end),
      );
    }),
    { numRuns: 60 },
  );
});

test("the record of the next epoch gets every mark of the one before, and the lowest of all levels", () => {
  const { board } = makeBoard();
  board.advance({ epoch: EPOCH_A, seq: 1, levels: { disk: "9", region: "7" } });
  assert.deepEqual(board.known(["disk", "region"]), {
    finalMarks: { [EPOCH_A]: { disk: "9", region: "7" } },
    everywhere: { [EPOCH_A]: "7" },
  });
  assert.deepEqual(board.known(["disk", "region", "global"]).everywhere, { [EPOCH_A]: "0" });
});
