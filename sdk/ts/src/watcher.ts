// Keeps the promise book and the world together: feeds it marks, epochs and verdicts, asks the trackers what only
// they can judge, and tells the waiters. Owns waits, timers and questions; judges nothing.
import {
  type Entry,
  isLive,
  type Moment,
  PromiseBook,
  type Settled,
  type Settlement,
  type Wait,
  type Waiter,
} from "./book.ts";
import { type EndpointPool } from "./endpoints.ts";
import { closedError, failure, HighwaterError, refusedError, stateError } from "./errors.ts";
import { type ObservedEvent } from "./observer.ts";
import { callUser, type Runtime, startTimer, whenAborted } from "./runtime.ts";
import { type Service } from "./service.ts";
import { DurabilityStream } from "./stream.ts";
import { type Tuning } from "./tuning.ts";
import { type Marks, type TokenVerdict } from "./wire.ts";

/** As long as the spread of the first questions after a failover. */
const ASK_TOGETHER_MS = 50;

export interface WatcherDeps {
  readonly runtime: Runtime;
  readonly service: Service;
  readonly trackers: EndpointPool;
  readonly tuning: Tuning;
  readonly headers: Readonly<Record<string, string>>;
  readonly requestTimeoutMs: number;
  /** An entry turned out lost or broken. Called once for it, and before its waiters are told. */
  readonly onGone: (entry: Entry, verdict: TokenVerdict) => void;
}

export interface WaitOptions {
  readonly level: string;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** Promises that are waited for. */
export interface Exposure {
  readonly count: number;
  /** Age of the oldest in milliseconds, 0 when there is none. */
  readonly oldestMs: number;
}

/** How things stand: the newest marks, and what this client waits for. */
export interface LiveState {
  readonly marks: Marks | null;
  readonly exposure: Exposure;
}
export type Subscriber = (state: LiveState) => void;

/** A request for verdicts that is under way, and the waits it is for. */
interface Question {
  readonly waits: Set<Wait>;
  readonly abort: AbortController;
}

export class Watcher {
  readonly #deps: WatcherDeps;
  readonly #book = new PromiseBook();
  readonly #stream: DurabilityStream;
  readonly #questions = new Set<Question>();
  /** What ends the waits that are under way. */
  readonly #closers = new Set<(error: Error) => void>();
  #cancelAsk: (() => void) | undefined;
  #askAtMs = Infinity;
  #cancelRecheck: (() => void) | undefined;
  readonly #subscribers = new Set<Subscriber>();
  #isPublishing = false;
  #isClosed = false;

  constructor(deps: WatcherDeps) {
    this.#deps = deps;
    this.#stream = new DurabilityStream({
      ...deps,
      onMarks: (marks) => {
        this.learnMarks(marks);
      },
      onEpochs: (epochs) => {
        // The current epoch and its ancestors, oldest first.
        const last = epochs.at(-1);
        if (last) this.#finish(this.#book.learnEpoch(last.id, last.seq, this.#moment()));
      },
    });
  }

  get marks(): Marks | null {
    return this.#book.marks;
  }

  get exposure(): Exposure {
    const { entries } = this.#book;
    const nowMs = this.#deps.runtime.monotonicMs();
    let oldestMs = 0;
    for (const { sinceMs } of entries) oldestMs = Math.max(oldestMs, nowMs - sinceMs);
    return { count: entries.size, oldestMs };
  }

  /** An answer may leave them out. */
  learnMarks(marks: Marks | null | undefined): void {
    if (marks) this.#finish(this.#book.learnMarks(marks, this.#moment()));
  }

  /** Tells how things stand, now and after every change; keeps the stream open until it is taken away. */
  subscribe(subscriber: Subscriber): () => void {
    if (this.#isClosed) throw closedError();
    // A function of its own for each call: the same one given twice is called twice, and taken away once.
    const own: Subscriber = (state) => {
      callUser(() => {
        subscriber(state);
      });
    };
    this.#subscribers.add(own);
    this.#stream.open();
    this.#publish();
    return () => {
      this.#subscribers.delete(own);
      this.#rest();
    };
  }

  /** What changes at once is told once. */
  #publish(): void {
    if (this.#isPublishing || this.#subscribers.size === 0) return;
    this.#isPublishing = true;
    queueMicrotask(() => {
      this.#isPublishing = false;
      const { marks, exposure } = this;
      for (const subscriber of this.#subscribers) subscriber({ marks, exposure });
    });
  }

  /** The entry of a token that is waited for. */
  find(token: string): Entry | undefined {
    return this.#book.find(token);
  }

  /** What is known about the entry at the level without waiting, or undefined. */
  known(entry: Entry, level: string): TokenVerdict | undefined {
    return this.#book.known(entry, level);
  }

  /** Tells the waiter once when the entry is settled at the level. Ask `known` first. Returns what takes it away. */
  watch(entry: Entry, level: string, waiter: Waiter): () => void {
    if (this.#isClosed) throw closedError();
    this.#book.watch(entry, { level, waiter }, this.#moment());
    this.#stream.open();
    this.#schedule();
    this.#publish();
    return () => {
      this.#book.unwatch(entry, level, waiter);
      if (this.#book.entries.has(entry)) return;
      this.#dropQuestions();
      this.#rest();
      this.#publish();
    };
  }

  /**
   * Resolves when every entry is durable at the level. Rejects with the error of the first that is settled
   * otherwise, with `durability_timeout`, or with the signal's reason. Leaves no timer and no listener behind.
   */
  wait(entries: readonly Entry[], options: WaitOptions): Promise<TokenVerdict[]> {
    const { level, timeoutMs, signal } = options;
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const verdicts: TokenVerdict[] = [];
      const open = new Map<Entry, () => void>();
      /** Takes in what is settled of one entry. True when it is durable. */
      const take = (entry: Entry, settlement: Settlement): boolean => {
        const error = this.#errorOf(entry, settlement);
        if (error) end(error);
        else if (!(settlement instanceof Error)) verdicts.push(settlement);
        return !error;
      };
      let ends: readonly (() => void)[] = [];
      const end = (error?: Error): void => {
        this.#closers.delete(end);
        for (const each of [...ends, ...open.values()]) each();
        if (error === undefined) resolve(verdicts);
        else reject(error);
      };
      const pending = entries.filter((entry) => {
        const known = this.known(entry, level);
        if (known) take(entry, known);
        return !known;
      });
      if (verdicts.length + pending.length < entries.length) return;
      if (pending.length === 0) {
        end();
        return;
      }
      for (const entry of pending) {
        const off = this.watch(entry, level, (settlement) => {
          open.delete(entry);
          if (take(entry, settlement) && open.size === 0) end();
        });
        open.set(entry, off);
      }
      this.#closers.add(end);
      const onTimeout = (): void => {
        const [{ id = undefined } = {}] = entries.length === 1 ? entries : [];
        this.#deps.runtime.observe({ type: "timeout", id, level });
        const message = `${id ?? `${String(open.size)} transactions`} still pending at ${level} after ${String(timeoutMs)} ms: no loss`;
        end(failure("durability_timeout", message, { transactionId: id, level }));
      };
      ends = [
        startTimer(timeoutMs, onTimeout),
        whenAborted(signal, () => {
          // A reason may be anything, and is passed on as it is.
          end(signal?.reason as Error);
        }),
      ];
    });
  }

  /** The error of what is settled otherwise than durable, with all that is known of the transaction. */
  #errorOf({ id, metadata }: Entry, settlement: Settlement): Error | undefined {
    if (settlement instanceof Error) return settlement;
    const { verdict, level, position } = settlement;
    if (verdict === "durable") return undefined;
    const { epoch } = this.#book;
    const successor = settlement.retriedIn ?? (epoch === position.epoch ? undefined : epoch);
    const details = { level, position, metadata, verdict: settlement, successor };
    return (
      stateError(id, verdict, details) ??
      failure("transaction_unknown", `nobody has heard of ${id}`, { transactionId: id, level })
    );
  }

  /** Ends every wait with `client_closed`, every question and the stream. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#subscribers.clear();
    for (const end of this.#closers) end(closedError());
    for (const question of this.#questions) question.abort.abort();
    this.#cancelTimers();
    await this.#stream.close();
  }

  #cancelTimers(): void {
    this.#cancelAsk?.();
    this.#cancelRecheck?.();
    this.#cancelAsk = this.#cancelRecheck = undefined;
    this.#askAtMs = Infinity;
  }

  #moment(): Moment {
    const { monotonicMs, random } = this.#deps.runtime;
    return { nowMs: monotonicMs(), random };
  }

  /** Tells the waiters, and sees to what is left. */
  #finish(settled: readonly Settled[]): void {
    const { nowMs } = this.#moment();
    for (const { wait, waiters, settlement, isGone } of settled) {
      const { entry, level, sinceMs } = wait;
      if (!(settlement instanceof Error)) {
        const type = settlement.verdict as ObservedEvent["type"];
        const waitedMs = nowMs - sinceMs;
        this.#deps.runtime.observe({ type, id: entry.id, level, verdict: settlement, waitedMs });
        if (isGone) this.#deps.onGone(entry, settlement);
      }
      for (const waiter of waiters) callUser(() => waiter(settlement));
    }
    if (settled.length > 0) this.#dropQuestions();
    this.#rest();
    this.#schedule();
    this.#publish();
  }

  /** With nothing left to wait for: no timers, and the stream ends after a while. */
  #rest(): void {
    if (this.#book.entries.size > 0) return;
    this.#cancelTimers();
    if (this.#subscribers.size === 0) this.#stream.release();
  }

  #schedule(): void {
    if (this.#isClosed || this.#book.entries.size === 0) return;
    const { runtime, tuning } = this.#deps;
    this.#cancelRecheck ??= startTimer(
      tuning.recheckMs,
      () => {
        this.#cancelRecheck = undefined;
        this.#book.recheck(tuning.recheckMs, this.#moment());
        this.#schedule();
      },
      true,
    );
    const next = this.#book.nextAskAtMs();
    if (next >= this.#askAtMs) return;
    this.#cancelAsk?.();
    this.#askAtMs = next;
    const ask = (): void => {
      this.#askDue();
    };
    this.#cancelAsk = startTimer(next - runtime.monotonicMs(), ask, true);
  }

  #askDue(): void {
    this.#askAtMs = Infinity;
    const { verdictBatch, verdictRequestsMax } = this.#deps.tuning;
    const room = verdictRequestsMax - this.#questions.size;
    // A question that ends makes room and comes back here.
    if (room <= 0) return;
    // Those whose time is near come along: one by one they would take all the room, each for as long as it is held.
    const due = this.#book.takeDue(this.#moment().nowMs + ASK_TOGETHER_MS, room * verdictBatch);
    for (const [level, waits] of groupBy(due, (wait) => wait.level))
      for (let at = 0; at < waits.length; at += verdictBatch)
        void this.#ask(level, waits.slice(at, at + verdictBatch));
    this.#schedule();
  }

  async #ask(level: string, waits: readonly Wait[]): Promise<void> {
    const question: Question = { waits: new Set(waits), abort: new AbortController() };
    this.#questions.add(question);
    const { service, tuning, requestTimeoutMs } = this.#deps;
    const byToken = groupBy(waits, (wait) => wait.entry.token);
    // One slow promise holds up its whole request, so hold none while others queue for a turn.
    const isCrowded = this.#book.toAsk.size > tuning.verdictBatch * tuning.verdictRequestsMax;
    const waitMs = isCrowded ? 0 : tuning.verdictWaitMs;
    let settled: Settled[] = [];
    let refusal: HighwaterError | undefined;
    try {
      const answer = await service.verdicts(
        { tokens: [...byToken.keys()], level, waitMs },
        { timeoutMs: requestTimeoutMs + waitMs, signal: question.abort.signal },
      );
      settled = answer.verdicts.flatMap((verdict) => {
        const asked = byToken.get(verdict.token) ?? [];
        byToken.delete(verdict.token);
        return asked.flatMap((wait) =>
          "error" in verdict
            ? this.#book.refuse(wait, refusedError(verdict))
            : this.#book.judge(wait, verdict, this.#moment()),
        );
      });
      this.learnMarks(answer.marks);
    } catch (error) {
      // Whatever else goes wrong is about the service or the way to it, and says nothing about these promises.
      if (error instanceof HighwaterError && error.code === "unknown_level") refusal = error;
    }
    // A token without an answer is a question not answered.
    for (const wait of [...byToken.values()].flat()) {
      if (refusal) settled.push(...this.#book.refuse(wait, refusal));
      else this.#book.askLater(wait, this.#moment());
    }
    this.#questions.delete(question);
    this.#finish(settled);
  }

  /** Ends the questions whose every wait was settled or given up in the meantime. */
  #dropQuestions(): void {
    for (const { waits, abort } of this.#questions) {
      for (const wait of waits) if (!isLive(wait)) waits.delete(wait);
      if (waits.size === 0) abort.abort();
    }
  }
}

function groupBy<T>(items: Iterable<T>, keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group) group.push(item);
    else groups.set(keyOf(item), [item]);
  }
  return groups;
}
