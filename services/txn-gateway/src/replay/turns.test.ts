// Goal: replays by hand run one at a time, each owner gets its turn, and none keeps it for long
// while another one waits.
import assert from "node:assert/strict";
import { test } from "node:test";
import { HighwaterError } from "@highwater/protocol";
import { FakeClock, settle } from "@highwater/runtime/testing";
import { Turns } from "./turns.ts";

const LONG_MS = 120_000;
const [ALICE, BOB, CAROL] = [1n, 2n, 3n] as const;

const codeOf = (cause: unknown): string => (cause instanceof HighwaterError ? cause.code : String(cause));

/** Runs until it is ended, or aborted. */
function job() {
  const [begun, ends]: [AbortSignal[], (() => void)[]] = [[], []];
  const work = (signal: AbortSignal): Promise<string> =>
    new Promise((resolve, reject) => {
      begun.push(signal);
      ends.push(() => {
        resolve("done");
      });
      signal.addEventListener("abort", () => {
        reject(signal.reason as Error);
      });
    });
  return {
    work,
    hasBegun: () => begun.length > 0,
    end: () => {
      ends[0]?.();
    },
  };
}

test("one runs at a time, each owner has one, and a wait that is given up keeps no turn", async () => {
  const turns = new Turns(new FakeClock());
  const [one, other, third] = [job(), job(), job()];
  const gone = new AbortController();
  const first = turns.run(ALICE, undefined, one.work);
  const second = turns.run(BOB, gone.signal, other.work).catch(codeOf);
  const last = turns.run(CAROL, undefined, third.work);
  assert.equal(await turns.run(ALICE, undefined, job().work).catch(codeOf), "overloaded");
  assert.equal(await turns.run(BOB, undefined, job().work).catch(codeOf), "overloaded");
  await settle();
  assert.deepEqual([one.hasBegun(), other.hasBegun(), third.hasBegun()], [true, false, false]);
  gone.abort(new HighwaterError("cancelled"));
  one.end();
  assert.equal(await first, "done");
  assert.equal(await second, "cancelled");
  await settle();
  assert.deepEqual([other.hasBegun(), third.hasBegun()], [false, true]);
  third.end();
  assert.equal(await last, "done");
  const again = job();
  const next = turns.run(ALICE, undefined, again.work);
  await settle();
  again.end();
  assert.equal(await next, "done");
});

test("a long one goes on until another owner's comes, or ends when its time is over", async () => {
  const clock = new FakeClock();
  const turns = new Turns(clock);
  const [one, other] = [job(), job()];
  const first = turns.run(ALICE, undefined, one.work).catch(codeOf);
  await clock.advance(2 * LONG_MS);
  const second = turns.run(BOB, undefined, other.work).catch(codeOf);
  assert.equal(await first, "statement_timeout");
  await settle();
  assert.ok(other.hasBegun());
  const third = turns.run(CAROL, undefined, job().work);
  await clock.advance(LONG_MS - 1);
  let isOver = false;
  void second.then(() => (isOver = true));
  await settle();
  assert.equal(isOver, false, "it has its time");
  await clock.advance(1);
  assert.equal(await second, "statement_timeout");
  void third.catch(() => undefined);
});
