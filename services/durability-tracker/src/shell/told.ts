// Counts and logs what nobody must overlook.
import { type BrokenPromiseData, type StallEvent } from "@highwater/protocol";
import { type Log } from "@highwater/service";
import { type Published } from "../core/index.ts";

export class Told {
  lost = 0;
  broken = 0;
  readonly #log: Log;

  constructor(log: Log) {
    this.#log = log;
  }

  /** Promises of a level that a failure has undone, by their ranges. */
  promises = 0;
  delayed = 0;
  /** Levels that are stalled now. */
  readonly stalled = new Set<string>();

  stall(stall: StallEvent, isStalled: boolean): void {
    if (isStalled) {
      this.stalled.add(stall.level);
      this.#log.warn("level_stalled", { ...stall });
    } else {
      this.stalled.delete(stall.level);
      this.#log.info("level_recovered", { ...stall });
    }
  }

  brokenPromise(promise: BrokenPromiseData): void {
    this.promises++;
    this.#log.error("promise_broken", { ...promise });
  }

  verdict(published: Published): void {
    if (Object.values(published.verdicts).includes("broken")) {
      this.broken++;
      this.#log.error("transaction_broken", fieldsOf(published));
    } else {
      this.lost++;
      this.#log.warn("transaction_lost", fieldsOf(published));
    }
  }
}

/** Metadata are a client's, and not for the log. */
function fieldsOf({ id, attempt, verdicts, rule, settledAt, retriedIn }: Published): Record<string, unknown> {
  return { id, attempt, verdicts, rule, settledAt, retriedIn };
}
