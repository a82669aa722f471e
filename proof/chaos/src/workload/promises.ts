// The promises of every transaction that this process knows to be committed. Waits for each,
// records every verdict, and calls back for losses.
import { type Level, type VerdictReport, type TxnId } from "@highwater/checker";
import { type DurabilityPromise, HighwaterError, type Session } from "@highwater/sdk";
import { type Journal } from "./journal.ts";
import { attemptOf } from "./tokens.ts";

/** One wait of the SDK. It is repeated until there is a verdict, or the run ends the wait. */
const WAIT_MS = 30_000;
const SESSION_WAIT_MS = 10_000;

interface ReportedVerdict {
  readonly verdict: VerdictReport["verdict"];
  readonly rule: string;
  /** The level of the verdict, if the verdict names one. */
  readonly level?: Level;
}

const PENDING: ReportedVerdict = { verdict: "pending", rule: "no verdict in time" };

export class Promises {
  readonly #journal: Journal;
  readonly #open = new Set<Promise<void>>();
  readonly #over = new AbortController();

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  get open(): number {
    return this.#open.size;
  }

  /** Records the promise's verdict at each of the levels. Calls `onLost` when it is lost. */
  watch(
    promise: DurabilityPromise,
    options: { txn: TxnId; levels: readonly Level[]; onLost?: () => void },
  ): void {
    const { txn, levels, onLost = () => undefined } = options;
    const [own] = levels;
    const attempt = attemptOf(promise.token);
    // The listener and the wait have to give the same verdict for a promise, so both are recorded.
    const listening = promise.onLost(
      (verdict) => {
        this.#report({ txn, attempt }, verdict.level, verdict);
        // A late copy of the request has committed in the new history. Running the body again would
        // do it twice.
        if (verdict.verdict === "lost" && verdict.retriedIn === undefined) onLost();
      },
      own === undefined ? {} : { level: own },
    );
    for (const level of levels) {
      const waiting = this.#wait(promise, txn, level).finally(() => {
        this.#open.delete(waiting);
        if (level === own) listening();
      });
      this.#open.add(waiting);
    }
  }

  /** Waits for a whole session: when the wait resolves, each of its transactions is durable. */
  async watchSession(session: Session, level: Level, txns: readonly TxnId[]): Promise<void> {
    try {
      await session.durable({ level, timeoutMs: SESSION_WAIT_MS });
    } catch (error) {
      if (error instanceof HighwaterError) return;
      throw error;
    }
    for (const txn of txns)
      this.#report({ txn, attempt: null }, level, { verdict: "durable", rule: "session" });
  }

  /**
   * Resolves when every promise has its verdict. After the limit the rest is recorded as pending.
   */
  async settle(limitMs: number): Promise<void> {
    const timer = setTimeout(() => {
      this.#over.abort();
    }, limitMs);
    await Promise.all(this.#open);
    clearTimeout(timer);
  }

  async #wait(promise: DurabilityPromise, txn: TxnId, level: Level): Promise<void> {
    const { signal } = this.#over;
    const attempt = attemptOf(promise.token);
    for (;;) {
      try {
        const verdict = await promise.durable({ level, timeoutMs: WAIT_MS, signal });
        this.#report({ txn, attempt }, level, verdict);
        return;
      } catch (error) {
        if (!(error instanceof HighwaterError) && !signal.aborted) throw error;
        const reported = error instanceof HighwaterError ? verdictOf(error) : undefined;
        if (reported === undefined && !signal.aborted) continue;
        // A promise that is broken at one level ends the wait at every level; at the others it is
        // lost.
        const about = reported?.verdict === "broken" ? (reported.level ?? level) : level;
        if (reported !== undefined) this.#report({ txn, attempt }, about, reported);
        const own: ReportedVerdict =
          reported === undefined ? PENDING : { verdict: "lost", rule: reported.rule };
        if (reported === undefined || about !== level) this.#report({ txn, attempt }, level, own);
        return;
      }
    }
  }

  #report(
    of: Pick<VerdictReport, "txn" | "attempt">,
    level: Level,
    { verdict, rule }: ReportedVerdict,
  ): void {
    this.#journal.report({ ...of, level, verdict, by: "promise", tracker: null, rule });
  }
}

/** The verdict in an error of `durable()`; undefined if it has none. */
function verdictOf(error: HighwaterError): ReportedVerdict | undefined {
  const { code } = error;
  const verdict = "verdict" in error ? error.verdict : undefined;
  if (verdict !== undefined) return verdict;
  switch (code) {
    case "transaction_unknown":
      return { verdict: "unknown", rule: code };
    case "id_expired":
      return { verdict: "expired", rule: code };
    case "durability_timeout":
      return undefined;
    default:
      return { verdict: "refused", rule: code };
  }
}
