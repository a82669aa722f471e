// What is written to the ledger's file is what is read back, and a tracker that starts from it stands where the old one stood.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type EpochRecord } from "@highwater/protocol";
import { decodeEntry, encodeEntry } from "../shell/ledger-file.ts";
import { configOf, Driven, epochId, off, record, txnId } from "./fixtures.test.ts";
import {
  type Entry,
  entryKey,
  type EntryState,
  judge,
  type Restored,
  restore,
  step,
  type TrackerState,
} from "./index.ts";

const SEED = 20_260_103;

const epoch = fc.integer({ min: 1, max: 5 }).map(epochId);
const offset = fc.bigInt({ min: 0n, max: 10n ** 64n - 1n }).map(off);
const plain = { noNullPrototype: true } as const;
const place = fc.record({ epoch, offset }, plain);
const retriedIn = fc.option(epoch);
const state: fc.Arbitrary<EntryState> = fc.oneof(
  fc.constant<EntryState>({ kind: "intent" }),
  fc.constant<EntryState>({ kind: "unproven" }),
  fc.constant<EntryState>({ kind: "expired" }),
  fc.constant<EntryState>({ kind: "unknown" }),
  place.map((at): EntryState => ({ kind: "pending", place: at })),
  fc.record({ kind: fc.constant("absent" as const), asOf: place, sinceMs: fc.nat(), retriedIn }, plain),
  fc.record(
    {
      kind: fc.constant("gone" as const),
      settledAt: fc.constantFrom("disk", "global"),
      retriedIn,
      reappeared: fc.boolean(),
      broken: fc.nat({ max: 15 }),
    },
    plain,
  ),
);
const entry: fc.Arbitrary<Entry> = fc
  .record({
    id: fc.integer({ min: 1, max: 50 }).map(txnId),
    attempt: epoch,
    kind: fc.constantFrom("read" as const, "write" as const),
    announced: fc.boolean(),
    origin: fc.option(place),
    state,
    reached: fc.nat({ max: 15 }),
    atMs: fc.nat(),
    metadata: fc.option(
      fc.dictionary(fc.string({ maxLength: 8 }), fc.string({ maxLength: 8 }), { noNullPrototype: true }),
    ),
  })
  .map((made) => ({ ...made, key: entryKey(made.id, made.attempt) }));

test("an entry is read back as it was written", () => {
  fc.assert(
    fc.property(entry, (written) => {
      assert.deepEqual(decodeEntry(encodeEntry(written)), written);
    }),
    { seed: SEED, numRuns: 1_000 },
  );
});

test("a question that was open is written as one that was never asked", () => {
  const it = new Driven();
  it.reign(record(1));
  it.position(1, 1, 80);
  it.reign(record(1), record(2, { node: "b", fork: 50, start: 60 }));
  const held = it.state.entries.get(entryKey(txnId(1), epochId(1)));
  assert.equal(held?.state.kind, "asked");
  assert.deepEqual(held && decodeEntry(encodeEntry(held)).state, { kind: "unproven" });
});

const LEVELS = configOf().levels.map(({ name }) => name);

function saved(it: Driven): Restored {
  const epochs = new Map<string, EpochRecord>();
  const entries = new Map<string, string>();
  for (const effect of it.effects) {
    if (effect.kind === "save_epochs") for (const one of effect.records) epochs.set(one.id, one);
    if (effect.kind === "save") entries.set(effect.entry.key, encodeEntry(effect.entry));
    if (effect.kind === "forget") entries.delete(effect.key);
  }
  const marks = [...it.state.marks].flatMap(([of, levels]) =>
    [...levels].map(([level, at]) => ({ epoch: of, level, offset: at })),
  );
  return { epochs: [...epochs.values()], marks, entries: [...entries.values()].map(decodeEntry) };
}

const kinds = (from: TrackerState): Record<string, string> =>
  Object.fromEntries(
    [...from.entries.values()].map(({ key, state: at, reached }) => [
      key,
      `${at.kind === "asked" ? "unproven" : at.kind}/${String(reached)}`,
    ]),
  );

test("the effects leave everything on disk that the ledger holds, and a restart changes no verdict", () => {
  const act = fc.constantFrom("position", "intent", "read", "flush", "second", "answer", "confirm");
  fc.assert(
    fc.property(
      fc.array(fc.record({ act, n: fc.integer({ min: 1, max: 12 }) }), { maxLength: 40 }),
      (acts) => {
        const it = new Driven();
        const first = record(1);
        const second = record(2, { node: "b", fork: 50, start: 60, limit: 70 });
        it.reign(first);
        let current = 1;
        let flushed = 20;
        for (const { act: what, n } of acts) {
          if (what === "position") it.position(n, (n % current) + 1, n * 10);
          else if (what === "intent") it.intent(n + 20, (n % current) + 1);
          else if (what === "read") it.present(n + 40, (n % current) + 1, n * 10, "read");
          else if (what === "flush") it.positions((flushed += n));
          else if (what === "confirm") it.confirm(flushed, { c: ["s", flushed - n] });
          else if (what === "answer" && it.reads.length > 0)
            it.answer(flushed + n, { [n]: { kind: "commit", epoch: epochId(1) } });
          else if (what === "second" && current === 1) {
            current = 2;
            it.reign(first, second);
          }
        }
        // Bits that the marks have given since the last save are given again by the same marks.
        const again = restore(configOf(), it.nowMs, saved(it));
        assert.deepEqual(Object.keys(kinds(again)).sort(), Object.keys(kinds(it.state)).sort());
        const { standing } = it.state;
        if (standing.kind !== "reigning") return;
        const reigns = {
          kind: "epoch_reigns",
          nowMs: it.nowMs,
          epoch: standing.epoch,
          node: standing.node,
        } as const;
        step(again, reigns);
        for (const held of it.state.entries.values()) {
          if (held.origin === null) continue;
          for (const level of LEVELS) {
            const token: Parameters<typeof judge>[1] = {
              id: held.id,
              attempt: held.attempt,
              kind: held.kind,
              place: held.origin,
            };
            const before: string = judge(it.state, token, level).verdict;
            const after: string = judge(again, token, level).verdict;
            // A proof that was not told yet is made anew; nothing else is taken back.
            assert.equal(after, before, `${held.key} at ${level}`);
          }
        }
      },
    ),
    { seed: SEED, numRuns: 500 },
  );
});

test("metadata cannot pass for an offset", () => {
  const it = new Driven();
  it.reign(record(1));
  it.position(1, 1, 80);
  const [held] = it.state.entries.values();
  assert.ok(held);
  held.metadata = { $offset: "no number" };
  assert.deepEqual(decodeEntry(encodeEntry(held)), held);
});
