import assert from "node:assert/strict";
import { test } from "node:test";
import { type EpochId, type Offset } from "@highwater/protocol";
import { EPOCH_A, EPOCH_B, FakeClock, settle } from "../../test/support/fakes.ts";
import { type Position, Positions, type Wanted } from "./positions.ts";

const PRIMARY_EPOCH = { node: "a", epoch: EPOCH_A as EpochId };

/** The test answers the marks, queries and flushes. */
function make() {
  const marks = new Map<Offset, (end: "reached") => void>();
  const queries: ((position: Position) => void)[] = [];
  const flushes: ((reached: Offset | null) => void)[] = [];
  let helped = 0;
  const positions = new Positions({
    deps: {
      clock: new FakeClock(),
      store: { logEnd: () => new Promise((resolve) => queries.push(resolve)) },
    },
    marks: {
      reached: () => false,
      wait: ({ offset }) => new Promise((resolve) => marks.set(offset, resolve)),
    },
    flush: {
      committed: () => helped++,
      reach: () => new Promise((resolve) => flushes.push(resolve)),
    },
    interest: { renew: () => undefined },
    onFailure: () => undefined,
  });
  const ends: string[] = [];
  const want = (name: string, more: Partial<Wanted> = {}): void => {
    const onEnd: Wanted["onEnd"] = (end, position) => ends.push(`${name} ${end} ${String(position?.offset)}`);
    positions.want({ primaryEpoch: PRIMARY_EPOCH, level: "region", isCommit: true, onEnd, ...more });
  };
  return { positions, marks, queries, flushes, ends, want, helped: () => helped };
}

test("commits share the flush that begins behind them, and wait for the mark of its position", async () => {
  const { marks, queries, flushes, ends, want } = make();
  want("one");
  want("two");
  want("three");
  assert.equal(flushes.length, 1);
  flushes[0]?.(10n as Offset);
  await settle();
  assert.equal(flushes.length, 2, "the others came when the first had begun");
  flushes[1]?.(20n as Offset);
  await settle();
  assert.equal(flushes.length, 2);
  marks.get(20n as Offset)?.("reached");
  await settle();
  assert.deepEqual(ends, ["two durable 20", "three durable 20"]);
  marks.get(10n as Offset)?.("reached");
  await settle();
  assert.deepEqual(ends.at(-1), "one durable 10");
  assert.equal(queries.length, 0);
});

test("what has not committed, or only wants a position, asks the query, and flushes what is not durable", async () => {
  const { queries, flushes, ends, want, helped } = make();
  want("hold", { isCommit: false });
  want("early", { level: null });
  await settle();
  assert.deepEqual([queries.length, flushes.length, helped()], [1, 0, 0]);
  queries[0]?.({ epoch: EPOCH_A as EpochId, offset: 5n as Offset });
  await settle();
  assert.deepEqual(ends, ["early durable 5"]);
  assert.equal(helped(), 1);
});

test("a flush that fails leaves it to the query whether the epoch is over", async () => {
  const { queries, flushes, ends, want } = make();
  want("one");
  flushes[0]?.(null);
  await settle();
  queries[0]?.({ epoch: EPOCH_B as EpochId, offset: 5n as Offset });
  await settle();
  assert.deepEqual(ends, ["one ended undefined"]);
});

test("the end of an epoch ends what waits for its next flush", async () => {
  const { positions, flushes, ends, want } = make();
  want("under way");
  want("next");
  positions.epochEnded(EPOCH_A as EpochId);
  assert.deepEqual(ends, ["next ended undefined"]);
  flushes[0]?.(null);
  await settle();
  assert.deepEqual(ends.at(-1), "under way ended undefined");
});

test("an answer that fails does not keep later commits from being taken", async () => {
  const { marks, flushes, ends, want } = make();
  const fails = (): never => {
    throw new Error("the session failed");
  };
  want("one", { onPosition: fails });
  flushes[0]?.(10n as Offset);
  await settle();
  want("two", { onEnd: fails });
  want("three");
  assert.equal(flushes.length, 2);
  flushes[1]?.(20n as Offset);
  await settle();
  flushes[2]?.(30n as Offset);
  await settle();
  for (const end of marks.values()) end("reached");
  await settle();
  assert.deepEqual(ends, ["one durable 10", "three durable 30"]);
});
