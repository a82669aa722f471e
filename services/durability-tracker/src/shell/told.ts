// Counts and logs the verdicts that nobody must overlook.
import { type Log } from "@highwater/service";
import { type Published } from "../core/index.ts";

export class Told {
  lost = 0;
  broken = 0;
  readonly #log: Log;

  constructor(log: Log) {
    this.#log = log;
  }

  verdict(published: Published): void {
    if (Object.values(published.verdicts).includes("broken")) {
      this.broken++;
      this.#log.error("promise_broken", fieldsOf(published));
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
