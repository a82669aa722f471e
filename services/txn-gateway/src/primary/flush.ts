// Flush help: one tiny flushing commit after each group of commits, so that no commit waits for the
// server's own timers. Self-clocked: at most one is in flight, and none starts if nothing was
// committed since the last one began. Each also writes the marks that this gateway knows, for
// trackers that survive those of this region. One more at the end writes the marks that the last
// commits have reached.
import { type Offset } from "@highwater/protocol";
import { sleep } from "@highwater/runtime";
import { type Deps } from "../deps.ts";
import { type PrimaryEpoch } from "./primary.ts";

const BACKOFF_MS_MIN = 50;
const BACKOFF_MS_MAX = 2_000;
/** Long enough for the last commits to become durable in other regions. */
const LAST_MARKS_MS = 1_000;

interface Waiting {
  readonly epoch: string;
  readonly resolve: (reached: Offset | null) => void;
}

export class FlushHelp {
  readonly #deps: Pick<Deps, "clock" | "store" | "log">;
  readonly #marksOf: (epoch: string) => Readonly<Record<string, string>>;
  readonly #onFailure: () => void;
  readonly #onMet: (primaryEpoch: PrimaryEpoch, offset: Offset) => void;
  readonly #stop = new AbortController();
  #wanted: PrimaryEpoch | null = null;
  #endedEpoch: string | null = null;
  #running = false;
  /** Calls that wait for the next flush. */
  #waiting: Waiting[] = [];
  #cancelLastMarks: () => void = () => undefined;
  /** The marks that the last flush has written. */
  #writtenMarks = "";

  constructor(
    deps: Pick<Deps, "clock" | "store" | "log">,
    options: {
      /** Returns the epoch's marks that this gateway knows, and may have used in answers. */
      readonly marksOf: (epoch: string) => Readonly<Record<string, string>>;
      readonly onFailure: () => void;
      /** Up to there the database has met levels with its answers. */
      readonly onMet: (primaryEpoch: PrimaryEpoch, offset: Offset) => void;
    },
  ) {
    this.#deps = deps;
    this.#marksOf = options.marksOf;
    this.#onFailure = options.onFailure;
    this.#onMet = options.onMet;
  }

  /**
   * Takes note of a commit in the epoch, at or below the offset. Returns at once. If the answer to
   * the commit has met levels, no flush is needed.
   */
  committed(primaryEpoch: PrimaryEpoch, offset?: Offset): void {
    if (!this.#deps.store.commitsDurably) this.#want(primaryEpoch);
    else if (offset !== undefined) this.#onMet(primaryEpoch, offset);
  }

  #want(primaryEpoch: PrimaryEpoch): void {
    this.#wanted = primaryEpoch;
    this.#cancelLastMarks();
    if (!this.#running) void this.#run();
  }

  /**
   * Flushes, and returns a position on the primary's disk at or above everything committed by now.
   * Null: the flush failed, and is tried again.
   */
  reach(primaryEpoch: PrimaryEpoch): Promise<Offset | null> {
    return new Promise((resolve) => {
      this.#waiting.push({ epoch: primaryEpoch.epoch, resolve });
      this.#want(primaryEpoch);
    });
  }

  /** Stops at the end of the epoch: its log cannot be flushed any more. */
  epochEnded(epoch: string): void {
    this.#endedEpoch = epoch;
    if (this.#wanted?.epoch === epoch) this.#wanted = null;
    for (const each of this.#waiting) if (each.epoch === epoch) each.resolve(null);
    this.#waiting = this.#waiting.filter((each) => each.epoch !== epoch);
    this.#cancelLastMarks();
  }

  stop(): void {
    this.#wanted = null;
    for (const { resolve } of this.#waiting.splice(0)) resolve(null);
    this.#cancelLastMarks();
    this.#stop.abort();
  }

  /**
   * Writes the last marks, unless the last flush has written the same: that row is in the log
   * already.
   */
  #writeLastMarks({ node, epoch }: PrimaryEpoch): void {
    const { clock, store } = this.#deps;
    if (this.#endedEpoch === epoch || this.#stop.signal.aborted) return;
    this.#cancelLastMarks = clock.after(LAST_MARKS_MS, () => {
      const marks = this.#marksOf(epoch);
      if (JSON.stringify([epoch, marks]) === this.#writtenMarks) return;
      // A failure is reported elsewhere.
      store.helpFlush(node, epoch, marks).catch(() => undefined);
    });
  }

  async #run(): Promise<void> {
    const { clock, store, log } = this.#deps;
    this.#running = true;
    let retryMs = BACKOFF_MS_MIN;
    while (this.#wanted !== null && !this.#stop.signal.aborted) {
      const taken = this.#wanted;
      const { node, epoch } = taken;
      const waiting = this.#waiting.splice(0);
      const answer = (reached: Offset | null): void => {
        for (const each of waiting) each.resolve(each.epoch === epoch ? reached : null);
      };
      this.#wanted = null;
      try {
        const marks = this.#marksOf(epoch);
        answer(await store.helpFlush(node, epoch, marks));
        this.#writtenMarks = JSON.stringify([epoch, marks]);
        retryMs = BACKOFF_MS_MIN;
        if (this.#wanted === null) this.#writeLastMarks(taken);
      } catch (cause) {
        answer(null);
        if (this.#stop.signal.aborted) break;
        log.warn("flush_help_failed", { node, cause });
        this.#onFailure();
        // The commits that it was for are not flushed yet.
        if (this.#endedEpoch !== epoch) this.#wanted ??= taken;
        await sleep(clock, retryMs, this.#stop.signal);
        retryMs = Math.min(BACKOFF_MS_MAX, 2 * retryMs);
      }
    }
    this.#running = false;
  }
}
