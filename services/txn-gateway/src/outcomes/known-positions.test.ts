// Goal: the positions of the newest 50,000 transactions are known, and memory for them has a bound.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type EpochId, type Offset } from "@highwater/protocol";
import { KnownPositions } from "./known-positions.ts";
import { type Settled } from "./settled.ts";

const PROMISED = 50_000;
const attempt = "01980000-0000-7000-8000-000000000001" as EpochId;
const found = { kind: "committed", attempt, epoch: attempt, isFirst: true, digest: 1n } as const;

const late = 9_999_999n as Offset;

test("the newest 50,000 positions are known, and none older than twice as many", () => {
  const positions = new KnownPositions();
  const answer = (at: number): Settled => positions.lowest({ tag: String(at) }, { ...found, offset: late });
  const known = (at: number): Settled => ({ ...found, offset: BigInt(at) as Offset, isFirst: false });
  const looks = new Set([1, PROMISED - 1, PROMISED, 2 * PROMISED, 3 * PROMISED + 1]);
  for (let at = 0; at <= 4 * PROMISED; at++) {
    positions.note({ tag: String(at) }, { attempt, epoch: attempt, offset: BigInt(at) as Offset });
    if (!looks.has(at)) continue;
    const oldest = Math.max(0, at - PROMISED + 1);
    assert.deepEqual([answer(at), answer(oldest)], [known(at), known(oldest)]);
  }
  assert.deepEqual(answer(2 * PROMISED), { ...found, offset: late });
});

test("a position in a later epoch takes the place of the earlier one", () => {
  const positions = new KnownPositions();
  const key = { tag: "one" };
  const epoch = "01980000-0000-7000-8000-000000000002" as EpochId;
  positions.note(key, { attempt, epoch: attempt, offset: 5n as Offset });
  const later: Settled = { ...found, epoch, offset: 3n as Offset };
  assert.deepEqual(positions.lowest(key, later), later);
  assert.deepEqual(positions.lowest(key, { ...later, offset: 8n as Offset }), { ...later, isFirst: false });
});

test("a tombstone keeps its first position in the epoch, until a commit takes its place", () => {
  const positions = new KnownPositions();
  const at = (offset: bigint): Pick<Extract<Settled, { kind: "committed" }>, "epoch" | "offset"> => ({
    epoch: attempt,
    offset: offset as Offset,
  });
  for (const kind of ["aborted", "lost"] as const) {
    const key = { tag: kind };
    assert.deepEqual(positions.lowest(key, { kind, ...at(5n) }), { kind, ...at(5n) });
    assert.deepEqual(positions.lowest(key, { kind, ...at(8n) }), { kind, ...at(5n) });
  }
  const again: Settled = { ...found, ...at(9n) };
  assert.deepEqual(positions.lowest({ tag: "lost" }, again), again);
});
