// Goal: positions are looked at when something can have changed, and seldom enough to leave the
// server its processor. Method: a model of a log and of a replica behind a link.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Offset } from "@highwater/protocol";
import { Pace } from "./pace.ts";

const QUERY_MS = 0.4;

interface Look {
  readonly atMs: number;
  readonly pauseMs: number;
}

/**
 * Looks so often, each time behind a query, at a log that moves once in `everyMs`, and at a replica
 * that has it `linkMs` later. Null: there is no replica.
 */
function look(
  pace: Pace,
  everyMs: number,
  { linkMs = null, untilMs = 400 }: { linkMs?: number | null; untilMs?: number } = {},
): Look[] {
  const looks: Look[] = [];
  const logAt = (ms: number): Offset => BigInt(Math.max(0, Math.floor(ms / everyMs))) as Offset;
  for (let nowMs = 0; nowMs < untilMs;) {
    nowMs += QUERY_MS;
    const replica = { node: "west", session: "1", synchronous: false };
    const replicas = linkMs === null ? [] : [{ ...replica, flushed: logAt(nowMs - linkMs) }];
    pace.looked({ flushed: logAt(nowMs), replicas }, nowMs);
    const pauseMs = pace.pauseMs(nowMs);
    looks.push({ atMs: nowMs, pauseMs });
    nowMs += pauseMs;
  }
  return looks;
}

/** How long after the acknowledgements of the second half the look was that found each. */
function delays(looks: readonly Look[], everyMs: number, linkMs: number): number[] {
  const lastMs = looks.at(-1)?.atMs ?? 0;
  const found: number[] = [];
  for (let dueMs = linkMs + everyMs; dueMs < lastMs; dueMs += everyMs) {
    const first = looks.find(({ atMs }) => atMs >= dueMs);
    if (first !== undefined && dueMs > lastMs / 2) found.push(first.atMs - dueMs);
  }
  return found;
}

test("a log that moves all the time is looked at less often, and one of few commits as closely as asked", () => {
  const pace = new Pace(1);
  assert.ok(look(pace, 20).every(({ pauseMs }) => pauseMs === 1));
  assert.equal(look(pace, 0.5).at(-1)?.pauseMs, 4);
  assert.equal(look(pace, 2).at(-1)?.pauseMs, 4, "once slow, it is still under load at this rate");
  assert.equal(look(pace, 20).at(-1)?.pauseMs, 1);
});

for (const linkMs of [4.2, 16.3, 71])
  test(`an acknowledgement over a link of ${String(linkMs)} ms is seen by the next query`, () => {
    const everyMs = 2 * linkMs + 13.37;
    const looks = look(new Pace(1), everyMs, { linkMs, untilMs: 60 * everyMs });
    const found = delays(looks, everyMs, linkMs);
    assert.ok(found.length > 20);
    const late = found.filter((delayMs) => delayMs > QUERY_MS + 1e-6);
    assert.ok(
      late.length <= found.length / 10,
      `${String(late.length)} of ${String(found.length)}: ${late.join()}`,
    );
    const withoutPause = looks.filter(({ pauseMs }) => pauseMs === 0).length / looks.length;
    assert.ok(withoutPause < 6 / linkMs, `${String(withoutPause)} of the looks follow without a pause`);
  });

test("an acknowledgement that does not come is waited for at the usual pace", () => {
  const pace = new Pace(1);
  look(pace, 40, { linkMs: 16 });
  const replica = { node: "west", session: "1", synchronous: false, flushed: 0n as Offset };
  const at = (nowMs: number): number => {
    pace.looked({ flushed: 1_000_000n as Offset, replicas: [replica] }, nowMs);
    return pace.pauseMs(nowMs);
  };
  at(1_000);
  assert.equal(at(1_016), 0);
  assert.equal(at(1_030), 1);
  pace.looked({ flushed: 1_000_000n as Offset, replicas: [] }, 1_031);
  assert.equal(pace.pauseMs(1_031), 1, "the replica has left");
});

test("a pace that is set is never quickened", () => {
  assert.equal(look(new Pace(25), 0.5).at(-1)?.pauseMs, 25);
  assert.ok(look(new Pace(25), 60, { linkMs: 16, untilMs: 4_000 }).every(({ pauseMs }) => pauseMs === 25));
});
