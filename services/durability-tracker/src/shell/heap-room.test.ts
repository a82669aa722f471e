// Goal: the heap grows faster while very many proofs are open, and as usual before and after. Method: the core with that many attempts; a clock that is moved by hand.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Driven, record } from "../../test/support/core.ts";
import { HeapRoom } from "./heap-room.ts";

const USUAL = "--heap-growing-percent=25";
const FASTER = "--heap-growing-percent=100";
const MANY = 10_000;

/** A tracker that has just followed an epoch without the attempts. */
function losing(count: number): Driven {
  const it = Driven.following(record(1));
  for (let n = 1; n <= count; n++) it.position(n, 1, 100);
  it.follow(record(1), record(2, { fork: 50, start: 60 }));
  return it;
}

function watch(it: Driven, options: readonly string[]): { flags: string[]; pass: () => void } {
  const flags: string[] = [];
  const due: (() => void)[] = [];
  const after = (_: number, act: () => void): (() => void) => {
    due.push(act);
    return () => undefined;
  };
  const clock = { monotonicMs: () => it.nowMs, wallMs: () => it.nowMs, after };
  new HeapRoom(clock, options, (flag) => flags.push(flag)).onEpochs(it.state);
  const pass = (): void => {
    for (const act of due.splice(0)) act();
  };
  return { flags, pass };
}

test("the heap grows faster until the last loss is reported", () => {
  const it = losing(MANY);
  const { flags, pass } = watch(it, ["--max-semi-space-size=16", USUAL]);
  pass();
  assert.deepEqual(flags, [FASTER]);
  while (it.reads.length > 0) it.answer(70);
  pass();
  assert.deepEqual(flags, [FASTER], "the losses wait for a mark");
  it.positions(80);
  pass();
  assert.deepEqual(flags, [FASTER, USUAL]);
});

test("the heap grows as usual where little is to be proven, and where nothing was asked for", () => {
  assert.deepEqual(watch(losing(10), [USUAL]).flags, []);
  assert.deepEqual(watch(losing(MANY), ["--max-semi-space-size=16"]).flags, []);
});
