// What is remembered of ended transactions: for how long, and how much of it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ERRORS, type OwnedId, type StatementResult } from "@highwater/protocol";
import { FakeClock, newId } from "../../test/support/fakes.ts";
import { type End, EndedTransactions, endedError } from "./ended.ts";

const END: End = { how: "expired", detail: "x" };
const MINUTE_MS = 60_000;

function resultOf(chars: number): StatementResult {
  return { command: "SELECT", rowCount: 1, fields: [], rows: [["x".repeat(chars), null]] };
}

const newOwned = (): OwnedId => ({ id: newId(), owner: 7n });

test("for five minutes, and then no longer", async () => {
  const clock = new FakeClock();
  const ended = new EndedTransactions<string>(clock);
  const id = newOwned();
  ended.add(id, "first", END, []);
  await clock.advance(5 * MINUTE_MS - 1);
  assert.equal(ended.get(id)?.entry, "first");
  await clock.advance(1);
  assert.equal(ended.get(id), undefined);
  ended.add(newOwned(), "second", END, []);
  assert.equal(ended.size, 1);
});

test("the oldest go when there are too many, or their answers too large; an id counts once", () => {
  const ended = new EndedTransactions<number>(new FakeClock());
  const ids = Array.from({ length: 20_010 }, () => newOwned());
  for (const [at, id] of ids.entries()) ended.add(id, at, END, []);
  assert.equal(ended.size, 20_000);
  assert.deepEqual(
    [ended.get(ids[9] ?? newOwned()), ended.get(ids[10] ?? newOwned())?.entry],
    [undefined, 10],
  );

  const large = new EndedTransactions<number>(new FakeClock());
  const megabyte = [resultOf(512 * 1_024)];
  for (const [at, id] of ids.slice(0, 100).entries()) large.add(id, at, END, megabyte);
  assert.ok(large.size > 50 && large.size < 64, String(large.size));
  const last = ids[99] ?? newOwned();
  const before = large.size;
  for (let again = 0; again < 100; again++) large.add(last, 99, END, megabyte);
  assert.equal(large.size, before);
  // One that is too large by itself is not kept either: its receipt answers instead.
  large.add(newOwned(), 100, END, [resultOf(64 * 1_048_576)]);
  assert.equal(large.size, 0);
});

test("by owner and id: another owner's under the same id is another one", () => {
  const ended = new EndedTransactions<string>(new FakeClock());
  const mine = newOwned();
  const theirs = { ...mine, owner: 8n };
  ended.add(mine, "mine", END, []);
  assert.equal(ended.get(theirs), undefined);
  ended.add(theirs, "theirs", END, []);
  assert.deepEqual([ended.get(mine)?.entry, ended.get(theirs)?.entry, ended.size], ["mine", "theirs", 2]);
  assert.deepEqual([ended.isKnown(mine.id), ended.isKnown(newId())], [true, false]);
});

test("the answer to a later call says what became of the transaction", () => {
  const errorFor = (how: End["how"]) => {
    const { code, outcome, details } = endedError(newId(), { how, detail: "x" });
    return [code, outcome, ERRORS[code].retry, details.open];
  };
  assert.deepEqual(errorFor("expired"), ["transaction_expired", "not_applied", "transaction", false]);
  assert.deepEqual(errorFor("aborted"), ["transaction_aborted", "not_applied", "transaction", false]);
  assert.deepEqual(errorFor("rolled_back"), ["out_of_sequence", "not_applied", "never", false]);
  assert.deepEqual(errorFor("committed"), ["out_of_sequence", "applied", "never", false]);
  assert.deepEqual(errorFor("unknown"), ["commit_unconfirmed", "unknown", "resolve_outcome", false]);
});
