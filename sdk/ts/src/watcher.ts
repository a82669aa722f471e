// Keeps the promise book and the world together: feeds it marks, epochs and verdicts, asks the trackers what only
// they can judge, and tells the waiters. Owns waits, timers and questions; judges nothing.
import {
  type Entry,
  type Moment,
  PromiseBook,
  type Settled,
  type Settlement,
  type Wait,
  type Waiter,
} from "./book.ts";
import { type EndpointPool } from "./endpoints.ts";
import { closedError, durabilityTimeout, HighwaterError, refusedError, verdictError } from "./errors.ts";
import { abortReason, callUser, type Runtime, startTimer } from "./runtime.ts";
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
  #cancelAsk: (() => void) | null = null;
  #askAtMs = Number.POSITIVE_INFINITY;
  #cancelRecheck: (() => void) | null = null;
  readonly #subscribers = new Set<Subscriber>();
  #closed = false;

  constructor(deps: WatcherDeps) {
    this.#deps = deps;
    this.#stream = new DurabilityStream({
      ...{ runtime: deps.runtime, trackers: deps.trackers, tuning: deps.tuning, headers: deps.headers },
      onMarks: (marks) => {
        this.learnMarks(marks);
      },
      onEpochs: (epochs) => {
        this.#finish(this.#book.learnEpochs(epochs, this.#moment()));
      },
    });
  }

  get marks(): Marks | null {
    return this.#book.history.newestMarks();
  }

  get exposure(): Exposure {
    const { entries } = this.#book;
    let oldest = Number.POSITIVE_INFINITY;
    for (const entry of entries) oldest = Math.min(oldest, entry.sinceMs);
    return {
      count: entries.size,
      oldestMs: entries.size === 0 ? 0 : this.#deps.runtime.monotonicMs() - oldest,
    };
  }

  /** Entries that somebody waits for. */
  get entries(): ReadonlySet<Entry> {
    return this.#book.entries;
  }

  /** An answer may leave them out. */
  learnMarks(marks: Marks | null | undefined): void {
    if (marks != null) this.#finish(this.#book.learnMarks(marks, this.#moment()));
  }

  /** Tells how things stand, now and after every change; keeps the stream open until it is taken away. */
  subscribe(subscriber: Subscriber): () => void {
    if (this.#closed) throw closedError();
    // A function of its own for each call: the same one given twice is called twice, and taken away once.
    const own: Subscriber = (standing) => {
      subscriber(standing);
    };
    this.#subscribers.add(own);
    this.#stream.open();
    queueMicrotask(() => {
      this.#publish([own]);
    });
    return () => {
      this.#subscribers.delete(own);
      this.#rest();
    };
  }

  #publish(subscribers: Iterable<Subscriber> = this.#subscribers): void {
    for (const subscriber of subscribers) {
      if (this.#subscribers.has(subscriber))
        callUser(() => {
          subscriber({ marks: this.marks, exposure: this.exposure });
        });
    }
  }

  /** What is known about the entry at the level without waiting, or undefined. */
  known(entry: Entry, level: string): TokenVerdict | undefined {
    return this.#book.known(entry, level);
  }

  /** Tells the waiter once when the entry is settled at the level. Ask `known` first. Returns what takes it away. */
  watch(entry: Entry, level: string, waiter: Waiter): () => void {
    if (this.#closed) throw closedError();
    this.#book.watch(entry, { level, waiter }, this.#moment());
    this.#stream.open();
    this.#schedule();
    this.#publish();
    return () => {
      if (!this.#book.unwatch(entry, level, waiter)) return;
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
      if (signal?.aborted === true) {
        reject(abortReason(signal));
        return;
      }
      const verdicts: TokenVerdict[] = [];
      const unwatch = new Set<() => void>();
      let cancelTimer = (): void => undefined;
      let open = 0;
      const end = (error?: Error): void => {
        cancelTimer();
        signal?.removeEventListener("abort", onAbort);
        for (const off of unwatch) off();
        unwatch.clear();
        this.#closers.delete(end);
        if (error === undefined) resolve(verdicts);
        else reject(error);
      };
      const onAbort = (): void => {
        if (signal !== undefined) end(abortReason(signal));
      };
      for (const entry of entries) {
        const known = this.#book.known(entry, level);
        if (known?.verdict === "durable") verdicts.push(known);
        else if (known !== undefined) {
          end(verdictError(known));
          return;
        }
      }
      if (this.#closed) {
        end(verdicts.length === entries.length ? undefined : closedError());
        return;
      }
      for (const entry of entries) {
        if (entry.durable.has(level)) continue;
        open += 1;
        const off = this.watch(entry, level, (settlement) => {
          unwatch.delete(off);
          const error = settlementError(settlement);
          if (error !== undefined) {
            end(error);
            return;
          }
          if (settlement.kind === "verdict") verdicts.push(settlement.verdict);
          open -= 1;
          if (open === 0) end();
        });
        unwatch.add(off);
      }
      if (open === 0) {
        end();
        return;
      }
      this.#closers.add(end);
      signal?.addEventListener("abort", onAbort, { once: true });
      const only = entries.length === 1 ? entries[0]?.id : undefined;
      cancelTimer = startTimer(
        timeoutMs,
        () => {
          const ids = only === undefined ? {} : { transactionId: only };
          end(durabilityTimeout(level, { timeoutMs, pending: open, ...ids }));
        },
        { background: false },
      );
    });
  }

  /** Ends every wait with `client_closed`, every question and the stream. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#subscribers.clear();
    for (const end of [...this.#closers]) end(closedError());
    for (const question of this.#questions) question.abort.abort();
    this.#cancelAsk?.();
    this.#cancelRecheck?.();
    this.#cancelAsk = this.#cancelRecheck = null;
    await this.#stream.close();
  }

  #moment(): Moment {
    return { nowMs: this.#deps.runtime.monotonicMs(), random: this.#deps.runtime.random };
  }

  /** Tells the waiters, and sees to what is left. */
  #finish(settled: readonly Settled[]): void {
    for (const { entry, waiters, settlement, gone } of settled) {
      if (gone && settlement.kind === "verdict") this.#deps.onGone(entry, settlement.verdict);
      for (const waiter of waiters) callUser(() => waiter(settlement));
    }
    if (settled.length > 0) this.#dropQuestions();
    if (this.#book.entries.size === 0) this.#rest();
    else this.#schedule();
    this.#publish();
  }

  /** Nothing to wait for: no timers, and soon no stream. */
  #rest(): void {
    if (this.#book.entries.size > 0) return;
    this.#cancelAsk?.();
    this.#cancelAsk = null;
    this.#askAtMs = Number.POSITIVE_INFINITY;
    this.#cancelRecheck?.();
    this.#cancelRecheck = null;
    if (this.#subscribers.size === 0) this.#stream.release();
  }

  #schedule(): void {
    if (this.#closed || this.#book.entries.size === 0) return;
    this.#cancelRecheck ??= startTimer(this.#deps.tuning.recheckMs, () => this.#recheck(), {
      background: true,
    });
    if (this.#book.toAsk.size === 0) return;
    const next = this.#book.nextAskAtMs();
    if (next === null || next >= this.#askAtMs) return;
    this.#cancelAsk?.();
    this.#askAtMs = next;
    const delayMs = next - this.#deps.runtime.monotonicMs();
    this.#cancelAsk = startTimer(delayMs, () => this.#askDue(), { background: true });
  }

  #recheck(): void {
    this.#cancelRecheck = null;
    this.#book.recheck(this.#deps.tuning.recheckMs, this.#moment());
    this.#schedule();
  }

  #askDue(): void {
    this.#cancelAsk = null;
    this.#askAtMs = Number.POSITIVE_INFINITY;
    const { verdictBatch, verdictRequestsMax } = this.#deps.tuning;
    const room = verdictRequestsMax - this.#questions.size;
    // A question that ends makes room and comes back here.
    if (room <= 0) return;
    // Those whose time is near come along: one by one they would take all the room, each for as long as it is held.
    const dueMs = this.#deps.runtime.monotonicMs() + ASK_TOGETHER_MS;
    const due = this.#book.takeDue(dueMs, room * verdictBatch);
    for (const [level, waits] of groupBy(due, (wait) => wait.level)) {
      for (let at = 0; at < waits.length; at += verdictBatch)
        this.#ask(level, waits.slice(at, at + verdictBatch));
    }
    this.#schedule();
  }

  #ask(level: string, waits: readonly Wait[]): void {
    const question: Question = { waits: new Set(waits), abort: new AbortController() };
    this.#questions.add(question);
    void this.#put(level, question).finally(() => {
      this.#questions.delete(question);
      this.#schedule();
    });
  }

  async #put(level: string, question: Question): Promise<void> {
    const { service, tuning, requestTimeoutMs, runtime } = this.#deps;
    const byToken = groupBy(question.waits, (wait) => wait.entry.token);
    // One slow promise holds up its whole request, so hold none while others queue for a turn.
    const crowded = this.#book.toAsk.size > tuning.verdictBatch * tuning.verdictRequestsMax;
    const waitMs = crowded ? 0 : tuning.verdictWaitMs;
    try {
      const answer = await service.verdicts(
        { tokens: [...byToken.keys()], level, waitMs },
        { timeoutMs: requestTimeoutMs + waitMs, signal: question.abort.signal },
      );
      const settled: Settled[] = [];
      for (const verdict of answer.verdicts) {
        for (const wait of byToken.get(verdict.token) ?? []) {
          if ("error" in verdict) {
            settled.push(...this.#book.refuse(wait, refusedError(verdict)));
            continue;
          }
          if (verdict.verdict === "unknown" || verdict.verdict === "expired")
            runtime.log.warn?.("promise cannot be judged", { id: verdict.id, verdict: verdict.verdict });
          settled.push(...this.#book.judge(wait, verdict, this.#moment()));
        }
        byToken.delete(verdict.token);
      }
      // A token without an answer is a question not answered.
      for (const wait of [...byToken.values()].flat()) this.#book.askLater(wait, this.#moment());
      this.#finish(settled);
      this.learnMarks(answer.marks);
    } catch (error) {
      this.#notAnswered(level, question, error);
    }
  }

  #notAnswered(level: string, question: Question, error: unknown): void {
    const waits = [...question.waits];
    const code = error instanceof HighwaterError ? error.code : "";
    const badToken = code === "invalid_token" || code === "invalid_request";
    if (badToken && waits.length > 1) {
      // One bad token spoils the whole request: halve it until that one stands alone.
      const middle = waits.length >> 1;
      this.#ask(level, waits.slice(0, middle));
      this.#ask(level, waits.slice(middle));
    } else if (error instanceof HighwaterError && (badToken || code === "unknown_level")) {
      this.#finish(waits.flatMap((wait) => this.#book.refuse(wait, error)));
    } else {
      // Whatever else went wrong is about the service or the way to it, and says nothing about these promises.
      if (waits.length > 0) this.#deps.runtime.log.warn?.("verdicts not answered", { level, error });
      for (const wait of waits) this.#book.askLater(wait, this.#moment());
    }
  }

  /** Ends the questions whose every wait was settled or given up in the meantime. */
  #dropQuestions(): void {
    for (const question of this.#questions) {
      for (const wait of question.waits) if (!wait.live) question.waits.delete(wait);
      if (question.waits.size === 0) question.abort.abort();
    }
  }
}

export function settlementError(settlement: Settlement): Error | undefined {
  if (settlement.kind === "refused") return settlement.error;
  return settlement.verdict.verdict === "durable" ? undefined : verdictError(settlement.verdict);
}

function groupBy<T>(items: Iterable<T>, keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}
