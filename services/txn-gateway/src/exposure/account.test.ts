import assert from "node:assert/strict";
import { test } from "node:test";
import { type EpochId, type Offset } from "@highwater/protocol";
import { EPOCH_A, EPOCH_B } from "../../test/support/fakes.ts";
import { Account } from "./account.ts";

const A = EPOCH_A as EpochId;
const B = EPOCH_B as EpochId;
const at = (offset: number): Offset => BigInt(offset) as Offset;

function accountIn(epoch: EpochId, start: number, mark?: number): Account {
  const account = new Account();
  account.begin({ epoch, startOffset: at(start), mark: mark === undefined ? undefined : at(mark) });
  return account;
}

function commit(account: Account, offset: number, { owner = 0n, epoch = A, nowMs = 0 } = {}): void {
  account.commit(account.reserve(owner), { epoch, offset: at(offset), nowMs });
}

test("a mark settles everything at or below it, in whatever order it was committed", () => {
  const account = accountIn(A, 0, 0);
  for (const offset of [30, 10, 20, 40]) commit(account, offset);
  assert.equal(account.advance(A, at(20)), 2);
  assert.equal(account.total.pending, 2);
  assert.equal(account.advance(A, at(15)), 0, "an older mark changes nothing");
  assert.equal(account.advance(B, at(99)), 0, "nor does that of another epoch");
  commit(account, 20);
  assert.equal(
    account.total.pending,
    2,
    "what the mark has passed before it is known to have committed was never exposed",
  );
});

test("bytes are those between the mark and the newest commit; before any mark, from the first commit on", () => {
  const account = accountIn(A, 0);
  commit(account, 1_000);
  assert.equal(account.bytesOf(account.total), 0n);
  commit(account, 1_300, { owner: 7n });
  commit(account, 1_200);
  assert.equal(account.bytesOf(account.total), 300n);
  account.advance(A, at(1_100));
  const [nobody, seven] = [account.owners.get(0n), account.owners.get(7n)];
  assert.ok(nobody !== undefined && seven !== undefined);
  assert.deepEqual(
    [account.bytesOf(account.total), account.bytesOf(nobody), account.bytesOf(seven)],
    [200n, 100n, 200n],
  );
  account.advance(A, at(1_300));
  assert.equal(account.bytesOf(account.total), 0n);
});

test("the end of an epoch settles nothing: what was pending waits for the successor's record to be durable", () => {
  const account = accountIn(A, 0, 100);
  commit(account, 150);
  commit(account, 400, { nowMs: 5 });
  account.begin({ epoch: B, startOffset: at(300), mark: undefined });
  account.advance(A, at(1_000));
  assert.equal(
    account.total.pending,
    2,
    "no mark of the old epoch counts any more: its offsets may have been reused",
  );
  assert.equal(account.bytesOf(account.total), 300n, "and no room was made");
  account.advance(B, at(299));
  assert.equal(account.total.pending, 2);
  commit(account, 320, { epoch: B });
  assert.equal(account.bytesOf(account.total), 321n);
  account.advance(B, at(300));
  assert.equal(account.total.pending, 1);
  assert.equal(account.bytesOf(account.total), 20n);
});

test("an answer that comes after its epoch's end is counted in the successor", () => {
  const account = accountIn(A, 0, 0);
  const late = account.reserve(0n);
  account.begin({ epoch: B, startOffset: at(300), mark: at(200) });
  account.commit(late, { epoch: A, offset: at(10), nowMs: 1 });
  assert.equal(account.total.pending, 1, "the mark of B is above its offset in A, which says nothing");
  account.advance(B, at(300));
  assert.equal(account.total.pending, 0);
});

test("a second failover carries what the first has carried", () => {
  const account = accountIn(A, 0, 0);
  commit(account, 50);
  account.begin({ epoch: B, startOffset: at(60), mark: undefined });
  commit(account, 70, { epoch: B });
  account.begin({ epoch: "c" as EpochId, startOffset: at(90), mark: undefined });
  account.advance(B, at(1_000));
  assert.equal(account.total.pending, 2);
  account.advance("c", at(90));
  assert.equal(account.total.pending, 0);
});

test("two hundred thousand are settled by one mark, and leave nothing behind", () => {
  const account = accountIn(A, 0, 0);
  for (let offset = 1; offset <= 200_000; offset++) commit(account, offset, { owner: BigInt(offset % 100) });
  assert.equal(account.owners.size, 100);
  assert.equal(account.advance(A, at(200_000)), 200_000);
  assert.deepEqual([account.total.pending, account.owners.size], [0, 0]);
  assert.equal(account.total.oldestAtMs, null);
});
