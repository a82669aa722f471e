// Feeds marks, epochs and verdicts to the pending set, asks the trackers what only they can judge,
// and calls the waiters. Owns waits, timers and questions; judges nothing.
import {
  type PendingPromise,
  isLive,
  PendingSet,
  type Settlement,
  type Wait,
  type Waiter,
} from "./pending-set.ts";
import {
  abortError,
  closedError,
  type ErrorDetails,
  failure,
  HighwaterError,
  refusedError,
  stateError,
} from "./errors.ts";
import { type Exposure, type Subscriber } from "./live.ts";
import { type ObservedEvent } from "./observer.ts";
import { type Shared } from "./shared.ts";
import { callUser, DURABLE_TIMEOUT_MS, monotonicMs, sleep, startTimer } from "./runtime.ts";
import { type Service } from "./service.ts";
import { DurabilityStream, type MarksUpdate } from "./stream.ts";
import { type Marks, type TokenVerdict } from "./wire.ts";

/**
 * Longest delay of a question. After a failover every client has questions; the delay spreads them,
 * and lets those of one client go together.
 */
const ASK_SPREAD_MS = 50;

/** Maximum number of questions at a time. */
const QUESTIONS_MAX = 4;

export interface WaitOptions {
  readonly level?: string;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** Makes the error of a wait from what is known of it. */
type Fail = (about: Partial<ErrorDetails>) => Error;

/** A request for verdicts that is under way, and its waits. */
interface Question {
  readonly waits: readonly Wait[];
  readonly abort: AbortController;
}

export class Watcher {
  readonly #shared: Shared;
  readonly #service: Service;
  /** Called once for an entry that turns out lost or broken, before its waiters. */
  readonly #onLoss: (entry: PendingPromise, verdict: TokenVerdict) => void;
  readonly pendingSet = new PendingSet();
  readonly #stream: DurabilityStream;
  readonly #questions = new Set<Question>();
  /** Functions that end the waits that are under way, with an error of what they are for. */
  readonly #closers = new Set<(fail: Fail) => void>();
  #cancelAsk: (() => void) | undefined;
  #cancelRecheck: (() => void) | undefined;
  /** One item per subscription. */
  readonly #subscribers = new Set<readonly [Subscriber]>();
  #isPublishing = false;

  constructor(
    shared: Shared,
    service: Service,
    onLoss: (entry: PendingPromise, verdict: TokenVerdict) => void,
  ) {
    this.#shared = shared;
    this.#service = service;
    this.#onLoss = onLoss;
    const onUpdate = ({ marks, epochs }: MarksUpdate): void => {
      // The current epoch and its ancestors, oldest first.
      const last = epochs?.at(-1);
      if (last) this.pendingSet.learnEpoch(last.id, last.seq);
      if (marks) this.pendingSet.learnMarks(marks);
      this.#finish();
    };
    this.#stream = new DurabilityStream(shared, onUpdate, (cause, url) => {
      this.#endWaits(() =>
        failure("no_tracker", `no tracker at ${url}: ${cause.message}`, { outcome: "applied", cause }),
      );
    });
  }

  get exposure(): Exposure {
    const { entries } = this.pendingSet;
    const nowMs = monotonicMs();
    let oldestMs = 0;
    for (const { sinceMs } of entries) oldestMs = Math.max(oldestMs, nowMs - sinceMs);
    return { count: entries.size, oldestMs };
  }

  /** Learns the marks of an answer, which may have none. */
  learnMarks(marks: Marks | null | undefined): void {
    if (!marks) return;
    this.pendingSet.learnMarks(marks);
    this.#finish();
  }

  /** Reports the state now and after every change. Keeps the stream open until unsubscribed. */
  subscribe(subscriber: Subscriber): () => void {
    this.#service.checkOpen();
    const added = [subscriber] as const;
    this.#subscribers.add(added);
    this.#stream.open();
    this.#publish();
    return () => {
      this.#subscribers.delete(added);
      this.#rest();
    };
  }

  /** Reports simultaneous changes once. */
  #publish(): void {
    if (this.#isPublishing || this.#subscribers.size === 0) return;
    this.#isPublishing = true;
    queueMicrotask(() => {
      this.#isPublishing = false;
      const { exposure, pendingSet } = this;
      const { marks } = pendingSet;
      for (const [subscriber] of this.#subscribers) callUser(() => subscriber({ marks, exposure }));
    });
  }

  /**
   * Calls the waiter once, and never synchronously, when the entry is settled at the level. Returns
   * a function that removes the waiter.
   */
  watch(entry: PendingPromise, level: string, waiter: Waiter): () => void {
    const known = this.pendingSet.known(entry, level);
    if (known) {
      let isWanted = true;
      queueMicrotask(() => isWanted && callUser(() => waiter(known)));
      return () => {
        isWanted = false;
      };
    }
    this.#service.checkOpen();
    this.pendingSet.watch(entry, level, waiter, monotonicMs());
    this.#stream.open();
    this.#schedule();
    this.#publish();
    return () => {
      if (!this.pendingSet.unwatch(entry, level, waiter)) return;
      this.#dropQuestions();
      this.#rest();
      this.#publish();
    };
  }

  /**
   * Resolves when every entry is durable at the level. Rejects with the error of the first entry
   * that is settled otherwise, with `durability_timeout`, or with `call_aborted`. Leaves no timer
   * and no listener behind.
   */
  wait(entries: readonly PendingPromise[], options: WaitOptions, ownLevel: string): Promise<TokenVerdict[]> {
    const { level = ownLevel, timeoutMs = DURABLE_TIMEOUT_MS, signal } = options;
    const id = entries.length === 1 ? entries[0]?.id : undefined;
    return new Promise((resolve, reject) => {
      const verdicts: TokenVerdict[] = [];
      let ends: (() => void)[] = [];
      const about = (): Partial<ErrorDetails> => {
        const pending = entries.find((entry) => !this.pendingSet.known(entry, level));
        return { outcome: "applied", transactionId: id, token: pending?.token, state: "pending", level };
      };
      const end = (fail?: Fail): void => {
        this.#closers.delete(end);
        for (const each of ends) each();
        if (fail) reject(fail(about()));
        else resolve(verdicts);
      };
      const onEnd = (isAborted: boolean): void => {
        if (!isAborted) this.#shared.observe({ type: "timeout", id, level, waitedMs: timeoutMs });
        const message = `pending at ${level}: wait again`;
        end((details) =>
          isAborted
            ? abortError(signal?.reason, "applied", id)
            : failure("durability_timeout", message, details),
        );
      };
      if (signal?.aborted) throw abortError(signal.reason, "applied", id);
      if (about().token) this.#service.checkOpen(about());
      ends = entries.map((entry) =>
        this.watch(entry, level, (settlement) => {
          const error = this.#errorOf(entry, settlement);
          if (error) end(() => error);
          else if (verdicts.push(settlement as TokenVerdict) === entries.length) end();
        }),
      );
      this.#closers.add(end);
      ends.push(startTimer(timeoutMs, onEnd, signal));
      if (entries.length === 0) end();
    });
  }

  /** The error of an entry that is not durable, with all that is known of the transaction. */
  #errorOf({ id }: PendingPromise, settlement: Settlement): Error | undefined {
    if (settlement instanceof Error) return settlement;
    const { verdict, level, position, retriedIn, metadata } = settlement;
    if (verdict === "durable") return undefined;
    const { epoch } = this.pendingSet;
    const successor = retriedIn ?? (epoch === position.epoch ? undefined : epoch);
    const details = { level, position, metadata, verdict: settlement, successor };
    return stateError(id, verdict, details) ?? stateError(id, "unknown", details);
  }

  /** Ends every wait with `client_closed`, every question, and the stream. */
  async close(): Promise<void> {
    this.#subscribers.clear();
    this.#endWaits(closedError);
    for (const question of this.#questions) question.abort.abort();
    this.#cancelTimers();
    await this.#stream.close();
  }

  #endWaits(fail: Fail): void {
    for (const end of this.#closers) end(fail);
  }

  #cancelTimers(): void {
    this.#cancelAsk?.();
    this.#cancelRecheck?.();
    this.#cancelAsk = this.#cancelRecheck = undefined;
  }

  /** Calls the waiters of the settled entries and arranges what is left. */
  #finish(): void {
    const nowMs = monotonicMs();
    const settled = this.pendingSet.takeSettled();
    for (const { wait, waiters, settlement, isLoss } of settled) {
      const { entry, level, sinceMs } = wait;
      if ("verdict" in settlement) {
        const type = settlement.verdict as ObservedEvent["type"];
        this.#shared.observe({ type, id: entry.id, level, verdict: settlement, waitedMs: nowMs - sinceMs });
        if (isLoss) this.#onLoss(entry, settlement);
      }
      for (const waiter of waiters) callUser(() => waiter(settlement));
    }
    if (settled.length > 0) this.#dropQuestions();
    this.#rest();
    this.#schedule();
    this.#publish();
  }

  /** If nothing is left to wait for: stops the timers, and lets the stream end after a while. */
  #rest(): void {
    if (this.pendingSet.entries.size > 0) return;
    this.#cancelTimers();
    if (this.#subscribers.size === 0) this.#stream.release();
  }

  #schedule(): void {
    if (this.#service.isClosed || this.pendingSet.entries.size === 0) return;
    const { recheckMs, verdictBatch } = this.#shared;
    const recheck = (): void => {
      this.#cancelRecheck = undefined;
      this.pendingSet.recheck(monotonicMs() - recheckMs);
      this.#schedule();
    };
    this.#cancelRecheck ??= startTimer(recheckMs, recheck, undefined, true);
    // A question that ends makes room and comes back here.
    const canAsk = (): boolean => this.pendingSet.toAsk.size > 0 && this.#questions.size < QUESTIONS_MAX;
    if (!canAsk()) return;
    const ask = (): void => {
      this.#cancelAsk = undefined;
      while (canAsk()) void this.#ask(this.pendingSet.takeToAsk(verdictBatch));
    };
    this.#cancelAsk ??= startTimer(Math.random() * ASK_SPREAD_MS, ask, undefined, true);
  }

  async #ask(waits: readonly Wait[]): Promise<void> {
    const question: Question = { waits, abort: new AbortController() };
    this.#questions.add(question);
    const { verdictWaitMs, attemptMs, askAgainMs } = this.#shared;
    const byToken = new Map(waits.map((wait) => [wait.entry.token, wait]));
    const level = waits[0]?.level ?? "";
    // One slow promise delays its whole request, so do not let it be held while others queue.
    const isCrowded = this.pendingSet.toAsk.size > 0 && this.#questions.size >= QUESTIONS_MAX;
    const waitMs = isCrowded ? 0 : verdictWaitMs;
    try {
      const { verdicts, marks } = await this.#service.verdicts(
        { tokens: [...byToken.keys()], level, waitMs },
        { timeoutMs: attemptMs + waitMs, signal: question.abort.signal },
      );
      for (const verdict of verdicts) {
        const wait = byToken.get(verdict.token);
        if (wait) this.pendingSet.judge(wait, "error" in verdict ? refusedError(verdict) : verdict);
      }
      this.learnMarks(marks);
    } catch (error) {
      // Any other error concerns the service or the connection, and says nothing about these
      // promises.
      if (error instanceof HighwaterError && error.code === "unknown_level")
        for (const wait of waits) this.pendingSet.judge(wait, error);
    }
    this.#questions.delete(question);
    this.#finish();
    // Asks again about promises that are still pending, and about tokens without an answer.
    const open = waits.filter((wait) => wait.isAsked && isLive(wait));
    if (open.length === 0) return;
    await sleep((0.5 + Math.random()) * askAgainMs, undefined, true);
    for (const wait of open) this.pendingSet.giveBack(wait);
    this.#finish();
  }

  /** Ends the questions whose waits were all settled or given up in the meantime. */
  #dropQuestions(): void {
    for (const { waits, abort } of this.#questions) if (!waits.some(isLive)) abort.abort();
  }
}
