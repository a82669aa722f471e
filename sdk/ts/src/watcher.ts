// Keeps the promise book and the world together: feeds it marks, epochs and verdicts, asks the trackers what only
// they can judge, and tells the waiters. Owns waits, timers and questions; judges nothing.
import { type Entry, isLive, PromiseBook, type Settlement, type Wait, type Waiter } from "./book.ts";
import { type EndpointPool } from "./endpoints.ts";
import { closedError, failure, HighwaterError, refusedError, stateError } from "./errors.ts";
import { type Exposure, type Subscriber } from "./live.ts";
import { type ObservedEvent } from "./observer.ts";
import { callUser, type Runtime, sleep, startTimer, whenAborted } from "./runtime.ts";
import { type Service } from "./service.ts";
import { DurabilityStream } from "./stream.ts";
import { type Tuning } from "./tuning.ts";
import { type Marks, type TokenVerdict } from "./wire.ts";

/** Questions wait so long at most: after a failover every client has some, and those of one client go together. */
const ASK_SPREAD_MS = 50;

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

/** A request for verdicts that is under way, and the waits it is for. */
interface Question {
  readonly waits: Set<Wait>;
  readonly abort: AbortController;
}

export class Watcher {
  readonly #deps: WatcherDeps;
  readonly book = new PromiseBook();
  readonly #stream: DurabilityStream;
  readonly #questions = new Set<Question>();
  /** What ends the waits that are under way. */
  readonly #closers = new Set<(error: Error) => void>();
  #cancelAsk: (() => void) | undefined;
  #cancelRecheck: (() => void) | undefined;
  readonly #subscribers = new Map<symbol, Subscriber>();
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
        if (last) this.book.learnEpoch(last.id, last.seq);
        this.#finish();
      },
    });
  }

  get exposure(): Exposure {
    const { entries } = this.book;
    const nowMs = this.#deps.runtime.monotonicMs();
    let oldestMs = 0;
    for (const { sinceMs } of entries) oldestMs = Math.max(oldestMs, nowMs - sinceMs);
    return { count: entries.size, oldestMs };
  }

  /** An answer may leave them out. */
  learnMarks(marks: Marks | null | undefined): void {
    if (!marks) return;
    this.book.learnMarks(marks);
    this.#finish();
  }

  /** Tells how things stand, now and after every change; keeps the stream open until it is taken away. */
  subscribe(subscriber: Subscriber): () => void {
    if (this.#isClosed) throw closedError();
    const key = Symbol();
    this.#subscribers.set(key, subscriber);
    this.#stream.open();
    this.#publish();
    return () => {
      this.#subscribers.delete(key);
      this.#rest();
    };
  }

  /** What changes at once is told once. */
  #publish(): void {
    if (this.#isPublishing || this.#subscribers.size === 0) return;
    this.#isPublishing = true;
    queueMicrotask(() => {
      this.#isPublishing = false;
      const { exposure, book } = this;
      const { marks } = book;
      for (const subscriber of this.#subscribers.values())
        callUser(() => {
          subscriber({ marks, exposure });
        });
    });
  }

  /** Tells the waiter once when the entry is settled at the level. Ask `known` first. Returns what takes it away. */
  watch(entry: Entry, level: string, waiter: Waiter): () => void {
    if (this.#isClosed) throw closedError();
    this.book.watch(entry, level, waiter, this.#deps.runtime.monotonicMs());
    this.#stream.open();
    this.#schedule();
    this.#publish();
    return () => {
      this.book.unwatch(entry, level, waiter);
      if (this.book.entries.has(entry)) return;
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
        const known = this.book.known(entry, level);
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
        this.#deps.runtime.observe({ type: "timeout", id, level, waitedMs: timeoutMs });
        const message = `${id ?? `${String(open.size)} transactions`} still pending at ${level} after ${String(timeoutMs)} ms`;
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
    const { epoch } = this.book;
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
  }

  /** Tells the waiters of what was settled, and sees to what is left. */
  #finish(): void {
    const { runtime, onGone } = this.#deps;
    const nowMs = runtime.monotonicMs();
    const settled = this.book.takeSettled();
    for (const { wait, waiters, settlement, isGone } of settled) {
      const { entry, level, sinceMs } = wait;
      if ("verdict" in settlement) {
        const type = settlement.verdict as ObservedEvent["type"];
        runtime.observe({ type, id: entry.id, level, verdict: settlement, waitedMs: nowMs - sinceMs });
        if (isGone) onGone(entry, settlement);
      }
      for (const waiter of waiters)
        callUser(() => {
          waiter(settlement);
        });
    }
    if (settled.length > 0) this.#dropQuestions();
    this.#rest();
    this.#schedule();
    this.#publish();
  }

  /** With nothing left to wait for: no timers, and the stream ends after a while. */
  #rest(): void {
    if (this.book.entries.size > 0) return;
    this.#cancelTimers();
    if (this.#subscribers.size === 0) this.#stream.release();
  }

  #schedule(): void {
    if (this.#isClosed || this.book.entries.size === 0) return;
    const { runtime, tuning } = this.#deps;
    const recheck = (): void => {
      this.#cancelRecheck = undefined;
      this.book.recheck(runtime.monotonicMs() - tuning.recheckMs);
      this.#schedule();
    };
    this.#cancelRecheck ??= startTimer(tuning.recheckMs, recheck, true);
    // A question that ends makes room and comes back here.
    if (this.book.toAsk.size === 0 || this.#questions.size >= tuning.verdictRequestsMax) return;
    const ask = (): void => {
      this.#cancelAsk = undefined;
      while (this.book.toAsk.size > 0 && this.#questions.size < tuning.verdictRequestsMax)
        void this.#ask(this.book.takeToAsk(tuning.verdictBatch));
    };
    this.#cancelAsk ??= startTimer(runtime.random() * ASK_SPREAD_MS, ask, true);
  }

  async #ask(waits: readonly Wait[]): Promise<void> {
    const question: Question = { waits: new Set(waits), abort: new AbortController() };
    this.#questions.add(question);
    const { service, tuning, requestTimeoutMs, runtime } = this.#deps;
    const byToken = new Map(waits.map((wait) => [wait.entry.token, wait]));
    const level = waits[0]?.level ?? "";
    // One slow promise holds up its whole request, so hold none while others queue for a turn.
    const isCrowded = this.book.toAsk.size > 0 && this.#questions.size >= tuning.verdictRequestsMax;
    const waitMs = isCrowded ? 0 : tuning.verdictWaitMs;
    try {
      const answer = await service.verdicts(
        { tokens: [...byToken.keys()], level, waitMs },
        { timeoutMs: requestTimeoutMs + waitMs, signal: question.abort.signal },
      );
      for (const verdict of answer.verdicts) {
        const wait = byToken.get(verdict.token);
        if (wait) this.book.judge(wait, "error" in verdict ? refusedError(verdict) : verdict);
      }
      this.learnMarks(answer.marks);
    } catch (error) {
      // Whatever else goes wrong is about the service or the way to it, and says nothing about these promises.
      if (error instanceof HighwaterError && error.code === "unknown_level")
        for (const wait of waits) this.book.judge(wait, error);
    }
    this.#questions.delete(question);
    this.#finish();
    // What is pending still is asked about again, and so is a token without an answer.
    const open = waits.filter((wait) => wait.isAsked && isLive(wait));
    if (open.length === 0) return;
    await sleep((0.5 + runtime.random()) * tuning.askAgainMs, undefined, true);
    for (const wait of open) this.book.giveBack(wait);
    this.#finish();
  }

  /** Ends the questions whose every wait was settled or given up in the meantime. */
  #dropQuestions(): void {
    for (const { waits, abort } of this.#questions) {
      for (const wait of waits) if (!isLive(wait)) waits.delete(wait);
      if (waits.size === 0) abort.abort();
    }
  }
}
