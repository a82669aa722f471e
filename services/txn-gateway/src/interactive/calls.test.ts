// The numbers of calls: what runs, what is answered as before, and what is refused.
import assert from "node:assert/strict";
import { test } from "node:test";
import { HighwaterError, type ErrorCode } from "@highwater/protocol";
import { Calls } from "./calls.ts";

const refused = (code: ErrorCode, open: boolean) => (cause: unknown) =>
  cause instanceof HighwaterError && cause.code === code && cause.details.open === open;

test("a call runs once, and its answer or its error is given again", async () => {
  const calls = new Calls<number>();
  let runs = 0;
  const run = () => Promise.resolve(++runs);
  assert.equal(await calls.take(1, { seq: 1 }, run), 1);
  assert.equal(await calls.take(1, { seq: 1 }, run), 1);
  const failing = () => Promise.reject(new Error(`failure ${String(++runs)}`));
  await assert.rejects(calls.take(2, {}, failing), /failure 2/);
  await assert.rejects(calls.take(2, {}, failing), /failure 2/);
  assert.equal(runs, 2);
});

test("another body under the last number, a gap and a step back are refused", async () => {
  const calls = new Calls<number>();
  const run = () => Promise.resolve(0);
  await assert.rejects(calls.take(2, {}, run), refused("out_of_sequence", true));
  await calls.take(1, { sql: "a" }, run);
  await calls.take(2, { sql: "b" }, run);
  await assert.rejects(calls.take(2, { sql: "c" }, run), refused("out_of_sequence", true));
  await assert.rejects(calls.take(1, { sql: "a" }, run), refused("out_of_sequence", true));
  await assert.rejects(calls.take(4, {}, run), refused("out_of_sequence", true));
  assert.equal(calls.lastSeq, 2);
});

test("while a call runs every other is refused, and the next one would not run", async () => {
  const calls = new Calls<number>();
  let finish = (_value: number): void => undefined;
  const first = calls.take(1, {}, () => new Promise<number>((resolve) => (finish = resolve)));
  for (const seq of [1, 2])
    await assert.rejects(
      calls.take(seq, {}, () => assert.fail()),
      refused("transaction_in_progress", true),
    );
  finish(7);
  assert.equal(await first, 7);
  assert.equal(await calls.take(2, {}, () => Promise.resolve(8)), 8);
});

test("a call that throws before it runs has not used its number", async () => {
  const calls = new Calls<number>();
  const throwing = (): never => {
    throw new HighwaterError("exposure_limit");
  };
  await assert.rejects(calls.take(1, {}, throwing), HighwaterError);
  assert.equal(await calls.take(1, { other: true }, () => Promise.resolve(5)), 5);
});

test("behind its end a transaction runs nothing, and repeats its last answer", async () => {
  const calls = new Calls<number>();
  await calls.take(1, {}, () => Promise.resolve(5));
  assert.equal(await calls.take(1, {}, null), 5);
  await assert.rejects(calls.take(1, { other: true }, null), refused("out_of_sequence", false));
  await assert.rejects(calls.take(2, {}, null), refused("out_of_sequence", false));
});
