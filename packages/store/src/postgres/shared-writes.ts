// One-shot transactions that share sessions. While sessions are free, each transaction gets its
// own. When more are waiting than that, those that have been quick lately share a session and a
// write, each with its own Sync. Owns the queue, and the transactions behind a failed one;
// execute.ts decides how a transaction ends.
import { type EpochId, HighwaterError } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { type Execution, type StoreObserver, type TransactionSpec } from "../port.ts";
import {
  concludeOn,
  type ExecutionContext,
  MAX_REPLANS,
  outcomeOf,
  type Planned,
  planOf,
  READ_POSITION,
  replannedTooOften,
  withShared,
} from "./execute.ts";
import { Pace } from "./pace.ts";
import { type PipelineOutcome } from "./pipeline.ts";
import { type Canceller, enter, rollBack, runTogether, type Session } from "./session.ts";
import { CANCELLED } from "./sqlstate.ts";
import { cancelledFor, noSessionFree, principalOf, queueFull, type WritePool } from "./write-pool.ts";

export interface SharedWritesOptions {
  readonly pool: WritePool;
  /** Sessions of the pool, how many transactions may wait for one, and for how long. */
  readonly size: number;
  readonly queue: number;
  readonly waitMs: number;
  readonly clock: Clock;
  /** Returns the observer at the moment of a write. */
  readonly observer: () => StoreObserver | null;
  readonly parts: Pick<ExecutionContext, "canceller" | "readPositions">;
}

interface Waiting {
  readonly spec: TransactionSpec;
  readonly signal: AbortSignal | undefined;
  readonly sinceMs: number;
  readonly resolve: (execution: Execution) => void;
  readonly reject: (cause: unknown) => void;
  replans: number;
}

/** Transactions per write. More would gain little, and the last one waits for all of them. */
const TOGETHER_MAX = 16;
/**
 * Transactions that share one read of the position, which costs the server a third of a small
 * transaction. The first of them is answered when the last has ended.
 */
const ONE_POSITION = 4;
/**
 * Sessions for quick transactions. With several transactions in each write, two keep a database as
 * busy as one process can. With more, the same transactions contend with each other, and each write
 * carries fewer.
 */
const QUICK_SESSIONS = 2;
const HELD_UP_MS = 10;
/**
 * Errors of a transaction behind a failed one: nothing runs in a failed transaction, and a
 * statement that it should have prepared is missing.
 */
const BEHIND_A_FAILURE: ReadonlySet<string | undefined> = new Set(["25P02", "26000"]);
const BY_REQUEST = /user request/;

export class SharedWrites {
  readonly #options: SharedWritesOptions;
  readonly #pace = new Pace();
  #queue: Waiting[] = [];
  /** Loops that serve the queue, or wait for a session to do so. */
  #servers = 0;
  /** The shortest time from a write to its first answer so far. */
  #wayMs = Number.POSITIVE_INFINITY;
  #acquiring = 0;
  /** Loops whose transactions are answered. Their sessions are free in a moment. */
  #resetting = 0;
  #isTiming = false;

  constructor(options: SharedWritesOptions) {
    this.#options = options;
  }

  /**
   * Runs a transaction on a shared session. Errors: those of a session of its own; `overloaded`
   * when none becomes free in time, and then nothing was sent.
   */
  execute(spec: TransactionSpec, signal: AbortSignal | undefined): Promise<Execution> {
    const { queue, size, clock } = this.#options;
    // A transaction that a free session takes in a moment does not count as waiting.
    const free = size - (this.#servers - this.#acquiring - this.#resetting);
    if (this.#queue.length >= queue + free) return Promise.reject(queueFull(queue));
    if (signal?.aborted === true) return Promise.reject(cancelledFor(signal.reason));
    return new Promise((resolve, reject) => {
      const waiting: Waiting = { spec, signal, sinceMs: clock.monotonicMs(), resolve, reject, replans: 0 };
      signal?.addEventListener(
        "abort",
        () => {
          if (this.#leave(waiting)) reject(cancelledFor(signal.reason));
        },
        { once: true },
      );
      this.#queue.push(waiting);
      this.#callServers();
    });
  }

  /** True if such statements have been quick lately, so that they do not delay others for long. */
  isQuick(statements: TransactionSpec["statements"]): boolean {
    return this.#pace.isQuick(statements);
  }

  /** Transactions that wait for a session. */
  get waiting(): number {
    return this.#queue.length;
  }

  /** Rejects the waiting requests with this error. They have sent nothing. */
  reset(cause: HighwaterError): void {
    for (const waiting of this.#queue.splice(0)) waiting.reject(cause);
  }

  #leave(waiting: Waiting): boolean {
    const at = this.#queue.indexOf(waiting);
    if (at >= 0) this.#queue.splice(at, 1);
    return at >= 0;
  }

  #callServers(): void {
    while (this.#servers < this.#options.size && this.#acquiring < this.#queue.length && this.#wantsServer())
      void this.#serve();
    if (this.#queue.length > 0 && !this.#isTiming) this.#time();
  }

  /**
   * True when another session should serve the queue. Quick transactions wait for one of a few busy
   * sessions, but only briefly if those are held up.
   */
  #wantsServer(): boolean {
    const [first] = this.#queue;
    if (first === undefined || this.#servers < QUICK_SESSIONS || !this.#mayShare(first)) return true;
    return this.#options.clock.monotonicMs() - first.sinceMs >= HELD_UP_MS;
  }

  /**
   * One timer for all requests. It ends waits that last too long, and opens a session for quick
   * requests that are held up.
   */
  #time(): void {
    const { clock, waitMs } = this.#options;
    this.#isTiming = true;
    clock.after(HELD_UP_MS, () => {
      const nowMs = clock.monotonicMs();
      while ((this.#queue[0]?.sinceMs ?? nowMs) <= nowMs - waitMs)
        this.#queue.shift()?.reject(noSessionFree(waitMs));
      this.#isTiming = false;
      this.#callServers();
    });
  }

  async #serve(): Promise<void> {
    const { pool } = this.#options;
    const epoch = this.#queue[0]?.spec.epoch;
    if (epoch === undefined) return;
    this.#servers++;
    this.#acquiring++;
    let lease: Awaited<ReturnType<WritePool["acquire"]>>;
    try {
      lease = await pool.acquire(epoch);
    } catch (cause) {
      this.#servers--;
      this.#acquiring--;
      this.#refuse(epoch, cause);
      return;
    }
    this.#acquiring--;
    let keep = true;
    try {
      while (keep && !lease.session.isLost && this.#queue[0]?.spec.epoch === epoch) {
        keep = await this.#serveBatch(lease.session);
        // Another transaction needs the session: an interactive one, or one that leaves traces.
        if (pool.isWaitedFor || pool.mustVet(lease.session)) break;
      }
    } finally {
      lease.release({ keep, isReset: true });
      this.#servers--;
      this.#callServers();
    }
  }

  /** No session could be opened. If other loops serve the queue, they go on alone. */
  #refuse(epoch: EpochId, cause: unknown): void {
    const isOver = cause instanceof HighwaterError && cause.code === "epoch_changed";
    if (!isOver && this.#servers > this.#acquiring) return;
    const refused = this.#queue.filter(({ spec }) => spec.epoch === epoch);
    this.#queue = this.#queue.filter(({ spec }) => spec.epoch !== epoch);
    for (const waiting of refused) waiting.reject(cause);
    this.#callServers();
  }

  /** True when the session may be used again. */
  async #serveBatch(session: Session): Promise<boolean> {
    const batch = this.#take();
    const { parts, clock } = this.#options;
    const sharesPosition = batch.length > 1 && batch.some(({ spec }) => !spec.readOnly);
    const planned = batch.map(({ spec, signal }) => planOf(spec, signal, sharesPosition));
    let lastMs = clock.monotonicMs();
    const observer = this.#options.observer();
    if (observer !== null) for (const { sinceMs } of batch) observer.onWaited(lastMs - sinceMs);
    enter(session, principalOf(batch[0]?.spec));
    for (const { spec } of batch) spec.onBeforeSend?.();
    const { answers, isReset } = sendTogether(session, parts.canceller, { planned, sharesPosition });
    // No rejection may stay unhandled while an earlier answer is processed.
    const answered = answers.map(({ own, whole }, at) => ({
      ended: own.then(
        ({ error }) => ({ atMs: clock.monotonicMs(), isClean: error === null }),
        () => ({ atMs: clock.monotonicMs(), isClean: false }),
      ),
      outcome: outcomeOf(session, planned[at] as Planned, whole, parts.canceller).catch(asError),
    }));
    const served = new Served(session, this.#options);
    for (const [at, { ended, outcome }] of answered.entries()) {
      const waiting = batch[at] as Waiting;
      const { atMs, isClean } = await ended;
      if (isClean && at === 0) this.#wayMs = Math.min(this.#wayMs, atMs - lastMs);
      // Only the first one's time includes the round trip, which its statements do not cause.
      const tookMs = atMs - lastMs - (at === 0 ? this.#wayMs : 0);
      this.#pace.note(waiting.spec.statements, isClean ? tookMs : null);
      lastMs = atMs;
      await served.take(waiting, planned[at] as Planned, await outcome);
    }
    // A client that was answered may send its next transaction before the reset ends, and must find
    // room.
    this.#resetting++;
    const isUsable = await served.end(isReset).finally(() => {
      this.#resetting--;
    });
    // They go first, because those in the queue came later.
    this.#queue.unshift(...served.unserved);
    return isUsable;
  }

  /**
   * Takes one while sessions are free: a transaction behind another also waits for that one's
   * locks.
   */
  #take(): Waiting[] {
    const serving = this.#servers - this.#acquiring;
    const free = Math.max(0, Math.min(QUICK_SESSIONS, this.#options.size) - serving);
    const share = Math.min(TOGETHER_MAX, Math.ceil(this.#queue.length / (1 + free)));
    const [first, ...others] = this.#queue.slice(0, share);
    if (first === undefined) return [];
    const batch = [first];
    if (this.#mayShare(first))
      for (const other of others) {
        const isAlike =
          other.spec.epoch === first.spec.epoch && principalOf(other.spec) === principalOf(first.spec);
        if (!isAlike || !this.#mayShare(other)) break;
        batch.push(other);
      }
    this.#queue.splice(0, batch.length);
    return batch;
  }

  #mayShare({ spec, replans }: Waiting): boolean {
    return replans === 0 && spec.deferrable !== true && this.#pace.isQuick(spec.statements);
  }
}

interface Answer {
  /** The server's answer to the transaction itself. */
  readonly own: Promise<PipelineOutcome>;
  /** That answer, and the position after it. */
  readonly whole: Promise<PipelineOutcome>;
}

/**
 * Sends all in one write. With `sharesPosition`, a read of the position follows every
 * `ONE_POSITION` of them, and the last.
 */
function sendTogether(
  session: Session,
  canceller: Canceller,
  { planned, sharesPosition }: { readonly planned: readonly Planned[]; readonly sharesPosition: boolean },
): { readonly answers: readonly Answer[]; readonly isReset: Promise<boolean> } {
  const runs = planned.flatMap(({ run }, at) => {
    const isLast = at + 1 === planned.length || (at + 1) % ONE_POSITION === 0;
    return sharesPosition && isLast ? [run, READ_POSITION] : [run];
  });
  const { outcomes, isReset } = runTogether(session, canceller, runs);
  // A read that no transaction waits for may fail as well.
  for (const outcome of outcomes) outcome.catch(() => undefined);
  const answers = planned.map((one) => {
    const at = runs.indexOf(one.run);
    const own = outcomes[at] as Promise<PipelineOutcome>;
    const read = outcomes[runs.indexOf(READ_POSITION, at)];
    return { own, whole: read === undefined ? own : own.then((outcome) => withShared(one, outcome, read)) };
  });
  return { answers, isReset };
}

/** Processes the answers of one write, one after the other. */
class Served {
  readonly unserved: Waiting[] = [];
  readonly #session: Session;
  readonly #options: Pick<SharedWritesOptions, "pool" | "parts">;
  readonly #refusals: (() => void)[] = [];
  #hasFailed = false;
  #isBroken = false;
  #needsRollback = false;

  constructor(session: Session, options: Pick<SharedWritesOptions, "pool" | "parts">) {
    this.#session = session;
    this.#options = options;
  }

  async take(waiting: Waiting, planned: Planned, outcome: PipelineOutcome | Error): Promise<void> {
    if (outcome instanceof Error) {
      this.#isBroken = true;
      waiting.reject(outcome);
      return;
    }
    if (outcome.status !== "I") this.#needsRollback = true;
    if (this.#isUntouched(waiting, planned, outcome)) {
      this.unserved.push(waiting);
      return;
    }
    this.#hasFailed ||= outcome.error !== null;
    try {
      const done = await concludeOn(this.#session, planned, outcome, this.#options.parts);
      if (done.kind !== "stale") waiting.resolve(done);
      else if (++waiting.replans < MAX_REPLANS) this.unserved.push(waiting);
      else waiting.reject(replannedTooOften(waiting.spec));
    } catch (cause) {
      const isKnown = cause instanceof HighwaterError && cause.outcome === "not_applied";
      this.#isBroken ||= !isKnown || cause.code === "primary_unavailable";
      if (isKnown && cause.code === "epoch_changed") this.#options.pool.ended(waiting.spec.epoch);
      // It is answered when its locks are free.
      this.#refusals.push(() => {
        waiting.reject(cause);
      });
    }
  }

  /**
   * True if nothing of the transaction ran because of another one, which failed before it, or whose
   * cancellation hit it.
   */
  #isUntouched(
    { signal }: Waiting,
    { spec, head, tail }: Planned,
    { error, results, isCut }: PipelineOutcome,
  ): boolean {
    // After its COMMIT, only the read of the position was hit.
    const commitAt = head.steps.length + spec.statements.length + tail.commit;
    if (error === null || results.length > commitAt) return false;
    if (this.#hasFailed && results.length === 0 && BEHIND_A_FAILURE.has(error.code)) return true;
    const isStray =
      this.#session.wasCancelled &&
      !isCut &&
      signal?.aborted !== true &&
      error.code === CANCELLED &&
      BY_REQUEST.test(error.message);
    this.#hasFailed ||= isStray;
    return isStray;
  }

  /** True when the session may be used again. */
  async end(isReset: Promise<boolean>): Promise<boolean> {
    const { canceller } = this.#options.parts;
    // After a failed transaction the reset has failed as well.
    const mustRollBack = this.#needsRollback && !this.#isBroken;
    if (mustRollBack) this.#isBroken = !(await rollBack(this.#session, canceller));
    for (const refuse of this.#refusals) refuse();
    if (this.#isBroken || this.#session.isLost || this.#session.wasCancelled) return false;
    return mustRollBack || isReset;
  }
}

function asError(cause: unknown): Error {
  return cause instanceof Error ? cause : new Error(String(cause));
}
