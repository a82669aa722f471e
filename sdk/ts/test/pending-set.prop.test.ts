// Goal: in any order of events, and whenever a wait begins, the pending set never says `durable` of a lost transaction nor `lost` of one that is there, never says `lost` unasked. In the end it leaves nothing open.
// Method: a made-up history of three epochs that the book cannot see, its events shuffled and repeated, and a tracker
// that answers from the history, at times only `pending`.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type PendingPromise, makeEntry, PendingSet, type Settled } from "../src/pending-set.ts";
import { newTransactionId } from "../src/index.ts";
import { type TokenVerdict } from "../src/wire.ts";
import { E1, E2, E3, marks, verdictOf } from "./support.ts";

const EPOCHS = [E1, E2, E3] as const;
const END = 1_000;

interface Truth {
  /** Where the next epoch's history leaves this one's, by epoch. */
  readonly forks: readonly number[];
  /** Above the fork, and there all the same: found by its receipt. */
  readonly found: boolean;
}

const history = fc.record({
  forks: fc.array(fc.integer({ min: 10, max: 90 }), { minLength: 2, maxLength: 2 }),
  transactions: fc.array(
    fc.record({
      epoch: fc.nat(2),
      offset: fc.integer({ min: 1, max: 100 }),
      found: fc.boolean(),
      when: fc.nat(40),
    }),
    { minLength: 1, maxLength: 12 },
  ),
  marks: fc.array(fc.record({ epoch: fc.nat(2), share: fc.double({ min: 0, max: 1, noNaN: true }) }), {
    maxLength: 10,
  }),
  /** The order of events, repetitions included. */
  order: fc.array(fc.nat(), { minLength: 20, maxLength: 40 }),
  reticence: fc.array(fc.boolean(), { maxLength: 30 }),
});

function survives(truth: Truth, at: { epoch: number; offset: number }): boolean {
  // A read or an upper bound at 100 of the last epoch is there; an earlier one is if its own successor has it.
  return at.epoch === EPOCHS.length - 1 || at.offset <= (truth.forks[at.epoch] ?? 0) || truth.found;
}

test("property: order, repetition and silence change no outcome", () => {
  fc.assert(
    fc.property(history, ({ forks, transactions, marks: shares, order, reticence }) => {
      const pendingSet = new PendingSet();
      const events: (() => void)[] = [
        ...EPOCHS.map((each, index) => () => pendingSet.learnEpoch(each, index + 1)),
        // No promise is violated: marks of an epoch end at or below the successor's fork.
        ...shares.map((each) => () => {
          const bound = forks[each.epoch] ?? END;
          return pendingSet.learnMarks(
            marks(EPOCHS[each.epoch] ?? E1, { region: Math.floor(bound * each.share) }),
          );
        }),
        () => pendingSet.learnMarks(marks(E3, { region: END })),
      ];
      const entries = transactions.map(({ epoch: at, offset, found, when }, n) => ({
        ...{ at: { epoch: at, offset }, found, when, shown: [] as TokenVerdict[] },
        entry: makeEntry(String(n), {
          ...{
            id: newTransactionId(),
            position: { epoch: EPOCHS[at] ?? E1, offset: String(offset) },
            nowMs: 0,
          },
        }),
      }));
      const byEntry = new Map<PendingPromise, (typeof entries)[number]>(
        entries.map((each) => [each.entry, each]),
      );
      const note = (settled: readonly Settled[], unasked: boolean): void => {
        for (const { wait, settlement } of settled) {
          const each = byEntry.get(wait.entry);
          assert.ok(each !== undefined && !(settlement instanceof Error));
          each.shown.push(settlement);
          if (unasked) assert.equal(settlement.verdict, "durable");
        }
      };
      const begin = (step: number): void => {
        for (const { entry, when, shown } of entries) {
          if (when !== step) continue;
          const known = pendingSet.known(entry, "region");
          if (known === undefined) pendingSet.watch(entry, "region", () => undefined, 0);
          else shown.push(known);
        }
      };
      const play = [...order, ...events.keys()];
      for (const [step, choice] of play.entries()) {
        begin(step);
        events[choice % events.length]?.();
        note(pendingSet.takeSettled(), true);
      }
      for (let step = play.length; step <= 41; step++) begin(step);
      for (let round = 0; pendingSet.entries.size > 0; round++) {
        assert.ok(round < 100, "something hangs");
        for (const wait of pendingSet.takeToAsk(Infinity)) {
          const each = byEntry.get(wait.entry);
          assert.ok(each !== undefined);
          const there = survives({ forks, found: each.found }, each.at);
          const place = { epoch: E3, offset: 7 };
          const silent = reticence[round] === true;
          const verdict = silent ? "pending" : there ? "durable" : "lost";
          const where = there ? place : { epoch: EPOCHS[each.at.epoch] ?? E1, offset: each.at.offset };
          pendingSet.judge(wait, verdictOf(wait.entry, verdict, where));
          note(pendingSet.takeSettled(), false);
          pendingSet.giveBack(wait);
        }
      }
      for (const { at, found, shown } of entries) {
        const expected = survives({ forks, found }, at) ? "durable" : "lost";
        assert.deepEqual(
          shown.map(({ verdict }) => verdict),
          [expected],
        );
      }
    }),
    { numRuns: 2_000 },
  );
});
