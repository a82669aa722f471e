// Attempts that leave the ledger by age are counted, and reported to their owners when a failover may have taken them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Disk } from "../../test/support/disk.ts";
import { count, Driven, epochId, off, record, txnId } from "../../test/support/core.ts";
import { type Effect, restore, unlisted } from "./index.ts";

const first = record(1);
/** East is lost; the west has less of the log than the region level had promised elsewhere. */
const second = record(2, { node: "c", cause: "promotion", fork: 50, start: 70, limit: 60 });

const announce = (it: Driven, n: number, offset: number, owner: bigint): readonly Effect[] =>
  it.announce({ kind: "position", id: txnId(n), epoch: epochId(1), offset: off(offset), owner });

const unlistedIn = (effects: readonly Effect[]): unknown[] =>
  effects.flatMap((effect) => {
    if (effect.kind !== "publish_unlisted") return [];
    const { epoch, currentEpoch, owner, transactions, firstId, lastId } = effect;
    return [[epoch, currentEpoch, owner, transactions, firstId, lastId]];
  });

/** Four of owner 7 and one of owner 8 that the region level has and `global` has not; two of each are above the fork. */
function departedDriven(): Driven {
  const it = new Driven({ keepDurableMs: 1_000 });
  it.follow(first);
  announce(it, 1, 30, 7n);
  announce(it, 2, 40, 7n);
  it.confirm(45, { b: ["s1", 45] });
  it.sleep(2_000);
  announce(it, 4, 80, 7n);
  announce(it, 3, 81, 7n);
  announce(it, 5, 82, 8n);
  it.positions(100, { b: ["s1", 100] });
  it.sleep(2_000);
  assert.equal(it.state.ledger.backlog.size, 0, "they have left");
  return it;
}

const UNLISTED = [
  [epochId(1), epochId(2), 7n, 4, txnId(1), txnId(4)],
  [epochId(1), epochId(2), 8n, 1, txnId(5), txnId(5)],
];

test("when a failover may have lost attempts that had left the ledger, each owner gets their number and ids", () => {
  const it = departedDriven();
  assert.equal(unlisted(it.state), 0, "nothing is in doubt while its epoch is current");
  const effects = it.follow(first, second);
  assert.deepEqual(unlistedIn(effects), UNLISTED);
  assert.equal(unlisted(it.state), 5);
});

test("owners get no report of attempts that the new history certainly has, or that every level had", () => {
  const kept = departedDriven();
  assert.deepEqual(unlistedIn(kept.follow(first, record(2, { fork: 100, start: 120 }))), []);
  const everywhere = departedDriven();
  everywhere.confirm(100, { b: ["s1", 100], c: ["s2", 100] });
  assert.equal(count(everywhere.sleep(1), "forget_departed"), 1);
  assert.deepEqual(unlistedIn(everywhere.follow(first, second)), []);
});

test("a tracker that was killed still reports attempts that had left its ledger before", () => {
  const it = departedDriven();
  const disk = new Disk(it.state);
  for (const effect of it.effects) disk.take(effect, it.state);
  const again = new Driven();
  again.state = restore(again.state.config, again.nowMs, disk.read());
  assert.deepEqual(unlistedIn(again.follow(first, second)), UNLISTED);
  // Until every level has the new history it is reported again whenever that becomes current here: its key makes it one event.
  const third = new Driven();
  for (const effect of again.effects) disk.take(effect, again.state);
  third.state = restore(third.state.config, third.nowMs, disk.read());
  assert.deepEqual(unlistedIn(third.follow(first, second)), UNLISTED);
});

test("it is forgotten when every level has the history that lacks it", () => {
  const it = departedDriven();
  it.follow(first, second);
  it.confirm(90, { a: ["s4", 90] });
  it.sleep(1);
  assert.equal(it.state.ledger.departed.length, 1, "one region has not followed yet");
  it.confirm(90, { a: ["s4", 90], b: ["s5", 90] });
  it.sleep(1);
  assert.equal(it.state.ledger.departed.length, 0);
});

test("however many leave, the counts stay right and the memory bounded", () => {
  const it = new Driven({ keepDurableMs: 1_000, maxKept: 10 });
  it.follow(first);
  it.confirm(10, { b: ["s1", 10] });
  const total = 1_050 * 220;
  for (let n = 0; n < total; n += 220) {
    it.announce(
      ...Array.from({ length: 220 }, (_, at) => ({
        ...({ kind: "position", id: txnId(n + at), epoch: epochId(1), offset: off(100 + n + at) } as const),
        owner: BigInt((n + at) % 1_000),
      })),
    );
    it.positions(1_000 + n, { b: ["s1", 1_000 + n] });
    it.sleep(2_000);
  }
  assert.ok(it.state.ledger.departed.length <= 1_000);
  const counted = it.state.ledger.departed.map(({ transactions, owners }) => [
    transactions,
    [...owners.values()].reduce((sum, each) => sum + each.transactions, 0),
  ]);
  for (const [all, byOwner] of counted) assert.equal(all, byOwner);
  assert.equal(counted.reduce((sum, [all = 0]) => sum + all, 0) + it.state.ledger.backlog.size, total);
  assert.equal(
    new Set(it.state.ledger.departed.map(({ number }) => number)).size,
    it.state.ledger.departed.length,
  );
});
