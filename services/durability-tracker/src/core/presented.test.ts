// Goal: what tokens alone can make the ledger keep is bounded for each owner, and callers that may only read add nothing.
// Method: tokens of an ended epoch, beyond its end, for ids that were never announced: each asks for a look-up and a tombstone.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Driven, epochId, record, txnId } from "../../test/support/core.ts";

const [first, second] = [record(1), record(2, { fork: 50, start: 90 })];
const LIMIT = 3;

function afterCrash(): Driven {
  const it = new Driven({ tokensPerOwner: LIMIT });
  it.follow(first);
  it.follow(first, second);
  return it;
}

/** Every open look-up finds that its ids are settled by a tombstone now, and everything is durable. */
function settleAll(it: Driven): void {
  while (it.reads.length > 0) it.answer(95);
  it.positions(200);
  it.sleep(10_000);
}

const idsAsked = (it: Driven): string[] => it.reads.flatMap(({ of }) => of.map(({ id }) => id));

test("a token of a caller that may only read makes no entry and no look-up, and stays pending", () => {
  const it = afterCrash();
  it.present(1, 1, 80, "write", { mayEnter: false });
  it.sleep(10_000);
  assert.equal(it.state.ledger.entries.size, 0);
  assert.deepEqual(it.reads, []);
  assert.equal(it.verdict(1, 1, 80, "disk"), "pending");
  // Somebody who may write asks the same, and the answer is for both.
  it.present(1, 1, 80);
  it.sleep(1);
  assert.deepEqual(idsAsked(it), [txnId(1)]);
  settleAll(it);
  assert.equal(it.verdict(1, 1, 80, "disk"), "lost");
});

test("of what was announced every caller's token says where it committed", () => {
  const it = Driven.following(first);
  it.intent(1, 1);
  it.follow(first, second);
  it.present(1, 1, 80, "write", { mayEnter: false });
  assert.deepEqual(it.state.ledger.entries.get(`${txnId(1)}/${epochId(1)}`)?.origin?.offset, 80n);
});

test("an owner's tokens fill its own share of the ledger and no other's", () => {
  const it = afterCrash();
  for (let n = 1; n <= 100; n++) it.present(n, 1, 80, "write", { owner: 7n });
  assert.equal(it.state.ledger.entries.size, LIMIT);
  it.present(200, 1, 80, "write", { owner: 8n });
  assert.equal(it.state.ledger.entries.size, LIMIT + 1);
  it.sleep(1);
  assert.deepEqual(idsAsked(it), [1, 2, 3, 200].map(txnId));
  assert.equal(it.verdict(50, 1, 80, "disk", "write", 7n), "pending");
  settleAll(it);
  assert.equal(it.verdict(1, 1, 80, "disk", "write", 7n), "lost");
  assert.deepEqual(
    it.published.map(({ owner }) => owner),
    [7n, 7n, 7n, 8n],
    "a loss that only a token has shown belongs to the token's owner",
  );
});

test("what is announced after all, or leaves the ledger, makes room again", () => {
  const it = afterCrash();
  for (let n = 1; n <= LIMIT; n++) it.present(n, 1, 80, "write", { owner: 7n });
  it.announce({ kind: "position", id: txnId(1), epoch: epochId(1), offset: 80n as never, owner: 7n });
  it.present(50, 1, 80, "write", { owner: 7n });
  assert.equal(it.state.ledger.entries.size, LIMIT + 1);
  it.present(51, 1, 80, "write", { owner: 7n });
  assert.equal(it.state.ledger.entries.size, LIMIT + 1);
  it.sleep(1);
  settleAll(it);
  // Verdicts are forgotten with their receipts.
  it.sleep(2 * 86_400_000);
  it.sleep(1);
  assert.deepEqual([...it.state.ledger.presented], []);
});
