import assert from "node:assert/strict";
import { test } from "node:test";
import { settle } from "../test/support/fakes.ts";
import { Batcher } from "./batcher.ts";

function makeBatcher(maxKeys = 100) {
  const batches: { keys: readonly number[]; done: () => void; fail: () => void }[] = [];
  const batcher = new Batcher<number, string>(
    (keys) =>
      new Promise((resolve, reject) => {
        batches.push({
          keys,
          done: () => {
            resolve((key) => `value ${String(key)}`);
          },
          fail: () => {
            reject(new Error("no answer"));
          },
        });
      }),
    maxKeys,
  );
  return { batches, batcher };
}

test("what is asked in one tick, or while a batch is in flight, shares a batch", async () => {
  const { batches, batcher } = makeBatcher();
  const first = [batcher.ask(1), batcher.ask(2)];
  await settle();
  const second = [batcher.ask(3), batcher.ask(4), batcher.ask(3)];
  await settle();
  assert.deepEqual(
    batches.map(({ keys }) => keys),
    [[1, 2]],
  );
  batches[0]?.done();
  assert.deepEqual(await Promise.all(first), ["value 1", "value 2"]);
  await settle();
  assert.deepEqual(batches[1]?.keys, [3, 4]);
  batches[1].done();
  assert.deepEqual(await Promise.all(second), ["value 3", "value 4", "value 3"]);
});

test("a batch that fails fails for its own keys only", async () => {
  const { batches, batcher } = makeBatcher();
  const failed = batcher.ask(1);
  await settle();
  const later = batcher.ask(2);
  batches[0]?.fail();
  await assert.rejects(failed, /no answer/);
  await settle();
  batches[1]?.done();
  assert.equal(await later, "value 2");
});

test("a batch is bounded", async () => {
  const { batches, batcher } = makeBatcher(2);
  const all = [1, 2, 3, 4, 5].map((key) => batcher.ask(key));
  for (let index = 0; index < 3; index++) {
    await settle();
    batches[index]?.done();
  }
  assert.equal((await Promise.all(all)).length, 5);
  assert.deepEqual(
    batches.map(({ keys }) => keys.length),
    [2, 2, 1],
  );
});
