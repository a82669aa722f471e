import assert from "node:assert/strict";
import { test } from "node:test";
import { type Offset } from "@highwater/protocol";
import { Pace } from "./pace.ts";

/** Looks so often, each time behind so many milliseconds of a log that moves once in `everyMs`. */
function look(pace: Pace, everyMs: number, { looks = 200, queryMs = 0.5 } = {}): number[] {
  const pauses: number[] = [];
  let nowMs = 0;
  for (let count = 0; count < looks; count++) {
    nowMs += queryMs + pace.pauseMs;
    pace.looked(BigInt(Math.floor(nowMs / everyMs)) as Offset);
    pauses.push(pace.pauseMs);
  }
  return pauses;
}

test("a log that moves all the time is looked at less often, and one of few commits as closely as asked", () => {
  const pace = new Pace(1);
  assert.ok(look(pace, 20).every((pauseMs) => pauseMs === 1));
  assert.equal(look(pace, 0.5).at(-1), 4);
  assert.equal(look(pace, 2).at(-1), 4, "once slow, it is still under load at this rate");
  assert.equal(look(pace, 20).at(-1), 1);
});

test("a pace that is set is never quickened", () => {
  const pace = new Pace(25);
  assert.equal(look(pace, 0.5).at(-1), 25);
});
