// What is written to the ledger's file is what is read back, and a tracker that starts from it stands where the old one stood.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { decodeEntry, decodeWaiting, encodeEntry, encodeWaiting, sortable } from "../shell/ledger-codec.ts";
import { Disk } from "../../test/support/disk.ts";
import { configOf, Driven, epochId, off, record, txnId } from "../../test/support/core.ts";
import {
  type LedgerEntry,
  entryKey,
  exposure,
  type EntryState,
  judge,
  type Restored,
  type SavedEntry,
  type SavedWaiting,
  restore,
  type TrackerState,
  type Waiting,
} from "./index.ts";

const SEED = 20_260_103;

const epoch = fc.integer({ min: 1, max: 5 }).map(epochId);
const offset = fc.bigInt({ min: 0n, max: 10n ** 64n - 1n }).map(off);
const plain = { noNullPrototype: true } as const;
const position = fc.record({ epoch, offset }, plain);
const retriedIn = fc.option(epoch);
const state: fc.Arbitrary<EntryState> = fc.oneof(
  fc.constant<EntryState>({ kind: "intent" }),
  fc.constant<EntryState>({ kind: "unproven" }),
  fc.constant<EntryState>({ kind: "expired" }),
  fc.constant<EntryState>({ kind: "unknown" }),
  position.map((at): EntryState => ({ kind: "pending", position: at })),
  fc.record({ kind: fc.constant("absent" as const), asOf: position, sinceMs: fc.nat(), retriedIn }, plain),
  fc.record(
    {
      kind: fc.constant("lost" as const),
      asOf: fc.constant(null),
      settledAt: fc.constantFrom("disk", "global"),
      retriedIn,
      reappeared: fc.boolean(),
      broken: fc.nat({ max: 15 }),
      isPublished: fc.boolean(),
    },
    plain,
  ),
);
const entry: fc.Arbitrary<SavedEntry> = fc
  .record({
    id: fc.integer({ min: 1, max: 50 }).map(txnId),
    attempt: epoch,
    kind: fc.constantFrom("read" as const, "write" as const),
    announced: fc.boolean(),
    origin: fc.option(position),
    state,
    reached: fc.nat({ max: 15 }),
    atMs: fc.nat(),
    announcers: fc.array(fc.string({ maxLength: 8 }), { maxLength: 3 }),
    endsWithinMs: fc.nat(),
    hasOtherTokens: fc.boolean(),
    owner: fc.bigInt({ min: 0n, max: 2n ** 128n - 1n }),
    source: fc.option(fc.record({ gateway: fc.string(), region: fc.string() }, plain)),
    atRisk: fc.option(fc.constantFrom("12.50 EUR", "0.000000001 BTC")),
    metadata: fc.option(
      fc.dictionary(fc.string({ maxLength: 8 }), fc.string({ maxLength: 8 }), { noNullPrototype: true }),
    ),
  })
  .map((made) => ({ ...made, key: entryKey(made, made.attempt) }));

test("an entry is read back as it was written", () => {
  fc.assert(
    fc.property(entry, (written) => {
      assert.deepEqual(decodeEntry(encodeEntry(live(written))), written);
    }),
    { seed: SEED, numRuns: 1_000 },
  );
});

/** The entry as the core has it. */
function live({ owner, source, ...rest }: SavedEntry): LedgerEntry {
  return {
    ...rest,
    owner: { owner, count: 0 },
    source: source === null ? null : { ...source, count: 0, announcedAtMs: 0 },
    isExposed: false,
  };
}

test("one of the backlog is read back as it was written, and the keys sort as the offsets do", () => {
  fc.assert(
    fc.property(entry, offset, offset, ({ id, metadata, atRisk, owner, source }, one, other) => {
      const saved: SavedWaiting = { id, offset: one, metadata, atRisk, owner, source };
      const item: Waiting = { ...live({ ...blank, id, owner, source }), offset: one, metadata, atRisk };
      const { key, body } = encodeWaiting(item);
      assert.deepEqual(decodeWaiting(key, body), saved);
      const after = encodeWaiting({ ...item, offset: other }).key;
      if (one !== other) assert.equal(key < after, one < other);
      assert.equal(key < `${sortable(other)}0`, one <= other);
    }),
    { seed: SEED, numRuns: 1_000 },
  );
});

const blank: SavedEntry = {
  atRisk: null,
  key: "",
  id: txnId(1),
  attempt: epochId(1),
  kind: "write",
  announced: true,
  origin: null,
  state: { kind: "intent" },
  reached: 0,
  atMs: 0,
  announcers: [],
  endsWithinMs: 0,
  hasOtherTokens: false,
  owner: 0n,
  source: null,
  metadata: null,
};

test("a question that was open is written as one that was never asked", () => {
  const it = Driven.following(record(1));
  it.position(1, 1, 80);
  it.follow(record(1), record(2, { node: "b", fork: 50, start: 60 }));
  const held = it.state.ledger.entries.get(entryKey({ id: txnId(1), owner: 0n }, epochId(1)));
  assert.equal(held?.state.kind, "asked");
  assert.deepEqual(held && decodeEntry(encodeEntry(held)).state, { kind: "unproven" });
});

const LEVELS = configOf().levels.map(({ name }) => name);

function saved(it: Driven): Restored {
  const disk = new Disk(it.state);
  for (const effect of it.effects) disk.take(effect, it.state);
  for (const [of, levels] of it.state.topology.marks)
    for (const [level, at] of levels) disk.marks.set(`${of}/${level}`, { epoch: of, level, offset: at });
  return disk.read();
}

/** Every attempt that is held, in whichever form. */
const keysOf = (from: TrackerState): string[] =>
  [
    ...from.ledger.entries.keys(),
    ...[...from.ledger.backlog].map(({ id, owner }) =>
      entryKey({ id, owner: owner.owner }, from.ledger.backlog.epoch ?? epochId(0)),
    ),
  ].sort();

test("the effects leave everything on disk that the ledger holds, and a restart changes no verdict", () => {
  const act = fc.constantFrom("position", "intent", "read", "flush", "second", "answer", "confirm");
  fc.assert(
    fc.property(
      fc.array(fc.record({ act, n: fc.integer({ min: 1, max: 12 }) }), { maxLength: 40 }),
      (acts) => {
        const it = new Driven();
        const first = record(1);
        const second = record(2, { node: "b", fork: 50, start: 60, limit: 70 });
        it.follow(first);
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
            it.follow(first, second);
          }
        }
        // Bits that the marks have given since the last save are given again by the same marks.
        const again = restore(it.state.config, it.nowMs, saved(it));
        assert.deepEqual(keysOf(again), keysOf(it.state));
        assert.deepEqual(exposure(again).byOwner, exposure(it.state).byOwner);
        assert.deepEqual(exposure(again).values, exposure(it.state).values);
        const { standing } = it.state.topology;
        if (standing.kind !== "following") return;
        const followed = {
          kind: "epoch_followed",
          nowMs: it.nowMs,
          epoch: standing.epoch,
          node: standing.node,
        } as const;
        again.apply(followed);
        for (const held of it.state.ledger.entries.values()) {
          if (held.origin === null) continue;
          for (const level of LEVELS) {
            const token: Parameters<typeof judge>[1] = {
              id: held.id,
              owner: held.owner.owner,
              attempt: held.attempt,
              kind: held.kind,
              position: held.origin,
            };
            const before: string = judge(it.state, token, level).verdict;
            const after: string = judge(again, token, level).verdict;
            // A proof that was not published yet is made anew; nothing else is taken back.
            assert.equal(after, before, `${held.key} at ${level}`);
          }
        }
      },
    ),
    { seed: SEED, numRuns: 500 },
  );
});

test("metadata cannot pass for an offset", () => {
  const it = Driven.following(record(1));
  it.intent(1, 1);
  const [held] = it.state.ledger.entries.values();
  assert.ok(held);
  const metadata = { $offset: "no number" };
  assert.deepEqual(decodeEntry(encodeEntry({ ...held, metadata })).metadata, metadata);
});
