// Counts and logs losses, broken promises and stalled levels.
import { type BrokenPromiseData, type StallEvent } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { type Counter, type Log } from "@highwater/service";
import { type Published, type TrackerState, whyNotSynchronous } from "../core/index.ts";
import { type Subscriber } from "./reports.ts";

/**
 * A failure can lose very many at once; each of them is an event, and a verdict for clients that
 * ask.
 */
const LINES_PER_SECOND = 100;

export class VerdictLog implements Subscriber {
  lost = 0;
  broken = 0;
  delayed = 0;
  /** Levels that are stalled now. */
  readonly stalled = new Set<string>();
  /** Promises of a level that a failure has undone, by their ranges. */
  readonly #promises: Counter;
  readonly #log: Log;
  readonly #clock: Clock;
  /** Single transactions that may still be logged in this second, and those that were not. */
  #lines = LINES_PER_SECOND;
  #leftOut = 0;

  constructor(log: Log, clock: Clock, promises: Counter) {
    this.#promises = promises;
    this.#log = log;
    this.#clock = clock;
  }

  onStall(stall: StallEvent, isStalled: boolean, state: TrackerState): void {
    if (isStalled) {
      // Null unless the level waits for proof from an HA manager's standbys.
      const reason = whyNotSynchronous(state, stall.level);
      this.stalled.add(stall.level);
      this.#log.warn("level_stalled", { ...stall, ...(reason === null ? {} : { reason }) });
    } else {
      this.stalled.delete(stall.level);
      this.#log.info("level_recovered", { ...stall });
    }
  }

  onBrokenPromise(promise: BrokenPromiseData): void {
    this.#promises.add(promise.level);
    this.#log.error("promise_broken", { ...promise });
  }

  onDelayed(): void {
    this.delayed++;
  }

  onVerdict(published: Published): void {
    const isBroken = Object.values(published.verdicts).includes("broken");
    if (isBroken) this.broken++;
    else this.lost++;
    if (!this.#mayLog()) return;
    if (isBroken) this.#log.error("transaction_broken", fieldsOf(published));
    else this.#log.warn("transaction_lost", fieldsOf(published));
  }

  onPeerVerdictRefused(published: Published): void {
    if (this.#mayLog()) this.#log.error("peer_verdict_refused", fieldsOf(published));
  }

  #mayLog(): boolean {
    if (this.#lines === 0) {
      this.#leftOut++;
      return false;
    }
    if (this.#lines-- === LINES_PER_SECOND)
      this.#clock.after(1_000, () => {
        this.#sumUp();
      });
    return true;
  }

  #sumUp(): void {
    this.#lines = LINES_PER_SECOND;
    if (this.#leftOut === 0) return;
    this.#log.warn("transactions_lost", { notLogged: this.#leftOut, lost: this.lost, broken: this.broken });
    this.#leftOut = 0;
  }
}

/** Metadata are a client's, and not for the log. */
function fieldsOf({ id, attempt, verdicts, rule, settledAt, retriedIn }: Published): Record<string, unknown> {
  return { id, attempt, verdicts, rule, settledAt, retriedIn };
}
