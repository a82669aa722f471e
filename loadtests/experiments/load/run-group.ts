// Lets the clients of one group work until the window closes, in an open or a closed loop, as
// pgbench does with and without -R.
import { setTimeout as sleep } from "node:timers/promises";
import type { Random } from "./random.ts";
import type { Window } from "./window.ts";
import type { Attempt, Job, Worker } from "./job.ts";

export interface Loop {
  readonly workers: readonly Worker[];
  readonly window: Window;
  readonly untilMs: number;
  readonly retries: number;
  /** Undefined: a closed loop. */
  readonly perSecond: number | undefined;
  readonly random: Random;
}

/** Resolves with the number of committed transactions. */
export async function runLoop(loop: Loop): Promise<number> {
  const arrivals =
    loop.perSecond === undefined ? null : new Arrivals(loop.perSecond, loop.random, performance.now());
  const committed = await Promise.all(loop.workers.map((worker) => work(worker, loop, arrivals)));
  return committed.reduce((sum, each) => sum + each, 0);
}

async function work(worker: Worker, loop: Loop, arrivals: Arrivals | null): Promise<number> {
  let committed = 0;
  for (;;) {
    const beginMs = arrivals === null ? performance.now() : await arrivals.next(loop.untilMs);
    if (beginMs >= loop.untilMs) return committed;
    if ((await finish(worker.next(), beginMs, loop)) === "committed") committed++;
  }
}

/** Tries the job until it is done, or has conflicted too often; its time includes the conflicts. */
async function finish(job: Job, beganMs: number, { window, retries }: Loop): Promise<Attempt> {
  for (let attempts = 1; ; attempts++) {
    const ended = await job.attempt();
    const nowMs = performance.now();
    if (ended !== "conflict") {
      window.done(job.kind, nowMs, nowMs - beganMs);
      return ended;
    }
    window.aborted(job.kind, nowMs);
    if (attempts > retries) {
      window.gaveUp(job.kind, nowMs);
      return ended;
    }
  }
}

/**
 * The times at which transactions are due, with exponential distances: one queue for all clients of
 * a group.
 */
export class Arrivals {
  readonly #meanMs: number;
  readonly #random: Random;
  #nextMs: number;

  constructor(perSecond: number, random: Random, nowMs: number) {
    this.#meanMs = 1_000 / perSecond;
    this.#random = random;
    this.#nextMs = nowMs;
  }

  due(): number {
    const dueMs = this.#nextMs;
    this.#nextMs = dueMs - Math.log(1 - this.#random()) * this.#meanMs;
    return dueMs;
  }

  /**
   * The time from which the next transaction counts. It is the time when the transaction was due if
   * no client was free, and otherwise the time when it is sent: a timer that is late by up to a
   * millisecond must not count as latency. Transactions that are still due at the end are not sent.
   */
  async next(untilMs: number): Promise<number> {
    const dueMs = this.due();
    const earlyMs = Math.min(dueMs, untilMs) - performance.now();
    if (earlyMs > 0) await sleep(earlyMs);
    const nowMs = performance.now();
    if (nowMs >= untilMs) return nowMs;
    return earlyMs > 0 ? nowMs : dueMs;
  }
}
