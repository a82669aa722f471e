// Lets one replay by hand run at a time: each holds the contents of all owners in memory. Those of
// others wait in turn. (docs/decisions/0254-one-replay-by-hand-at-a-time.md)
import { HighwaterError } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { RETRY_MS } from "../retry.ts";

/** Then a run ends as soon as another owner's waits. */
const RUN_MS = 120_000;

export class Turns {
  readonly #clock: Clock;
  /** One replay of each runs or waits. */
  readonly #owners = new Set<bigint>();
  #last: Promise<unknown> = Promise.resolve();
  /** Ends the running one, which has had its time. */
  #end: (() => void) | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `signal`: the client has gone. Errors: `overloaded`, `statement_timeout`, `cancelled`. */
  async run<T>(
    owner: bigint,
    signal: AbortSignal | undefined,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    if (this.#owners.has(owner))
      throw new HighwaterError("overloaded", {
        detail: "Another replay of this owner runs or waits in this gateway; retry later.",
        retryAfterMs: RETRY_MS.primary,
      });
    this.#owners.add(owner);
    this.#end?.();
    const running = this.#last.then(() => {
      if (signal?.aborted === true) throw gone();
      return this.#now(signal, work);
    });
    this.#last = running.catch(() => undefined).then(() => this.#owners.delete(owner));
    return running;
  }

  async #now<T>(signal: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const over = new AbortController();
    const onGone = (): void => {
      over.abort(gone());
    };
    signal?.addEventListener("abort", onGone, { once: true });
    const stop = this.#clock.after(RUN_MS, () => {
      const detail = `It took ${String(RUN_MS)} ms, and another owner's replay waits. Run it again: it goes on where it ended.`;
      this.#end = (): void => {
        over.abort(new HighwaterError("statement_timeout", { detail }));
      };
      if (this.#owners.size > 1) this.#end();
    });
    try {
      return await work(over.signal);
    } finally {
      stop();
      signal?.removeEventListener("abort", onGone);
      this.#end = null;
    }
  }
}

function gone(): HighwaterError {
  return new HighwaterError("cancelled", { detail: "The client has disconnected." });
}
