// Divides the sessions of a login role among its users. While others use the role too, the slow
// work of one principal takes at most three quarters of them, and waits outside of the shared
// queue. A principal alone may have them all.
import { HighwaterError } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { cancelledFor } from "./write-pool.ts";

export interface SharesOptions {
  /** Sessions, transactions that may wait for one of them, and for how long. */
  readonly size: number;
  readonly queue: number;
  readonly waitMs: number;
  readonly clock: Clock;
}

interface Held {
  readonly go: () => void;
  readonly reject: (cause: HighwaterError) => void;
}

const SHARE_OF_SESSIONS = 0.75;
const SHARE_OF_QUEUE = 0.5;
/** A principal that has not used the role for this long does not count as another user. */
const RECENT_MS = 60_000;

export class Shares {
  readonly #options: SharesOptions;
  readonly #sessions: number;
  readonly #shareMax: number;
  readonly #running = new Map<string, number>();
  readonly #held = new Map<string, Set<Held>>();
  /** When each principal was last seen, longest ago first. */
  readonly #seenMs = new Map<string, number>();

  constructor(options: SharesOptions) {
    this.#options = options;
    this.#sessions = Math.max(1, Math.floor(options.size * SHARE_OF_SESSIONS));
    this.#shareMax = Math.max(1, Math.floor(options.queue * SHARE_OF_QUEUE));
  }

  /** Takes note that a principal uses the role for quick work. */
  note(principal: string): void {
    this.#seenMs.delete(principal);
    this.#seenMs.set(principal, this.#options.clock.monotonicMs());
  }

  /**
   * Runs the work in its turn. Errors besides its own: `overloaded`, and the signal's reason.
   * Nothing ran then.
   */
  run<T>(principal: string, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    this.note(principal);
    if (!this.#isFull(principal)) return this.#runNow(principal, work);
    const held = this.#held.get(principal) ?? new Set();
    if (held.size >= this.#shareMax) return Promise.reject(this.#overloaded());
    if (signal?.aborted === true) return Promise.reject(cancelledFor(signal.reason));
    this.#held.set(principal, held);
    return new Promise<T>((resolve, reject) => {
      const leave = (): void => {
        held.delete(one);
        if (held.size === 0 && this.#held.get(principal) === held) this.#held.delete(principal);
        stopWaiting();
        signal?.removeEventListener("abort", onAbort);
      };
      const refuse = (cause: HighwaterError): void => {
        leave();
        reject(cause);
      };
      const go = (): void => {
        leave();
        resolve(this.#runNow(principal, work));
      };
      const onAbort = (): void => {
        refuse(cancelledFor(signal?.reason));
      };
      const one: Held = { go, reject: refuse };
      const stopWaiting = this.#options.clock.after(this.#options.waitMs, () => {
        refuse(this.#overloaded());
      });
      signal?.addEventListener("abort", onAbort, { once: true });
      held.add(one);
    });
  }

  /** Rejects all waiting calls, which have sent nothing. */
  reset(cause: HighwaterError): void {
    for (const held of this.#held.values()) for (const { reject } of held) reject(cause);
  }

  async #runNow<T>(principal: string, work: () => Promise<T>): Promise<T> {
    this.#running.set(principal, (this.#running.get(principal) ?? 0) + 1);
    try {
      return await work();
    } finally {
      const left = (this.#running.get(principal) ?? 1) - 1;
      if (left > 0) this.#running.set(principal, left);
      else this.#running.delete(principal);
      for (const { go } of this.#held.get(principal) ?? []) {
        if (this.#isFull(principal)) break;
        go();
      }
    }
  }

  #isFull(principal: string): boolean {
    return (this.#running.get(principal) ?? 0) >= this.#sessions && this.#hasOthers();
  }

  #hasOthers(): boolean {
    const sinceMs = this.#options.clock.monotonicMs() - RECENT_MS;
    for (const [principal, seenMs] of this.#seenMs) {
      if (seenMs >= sinceMs) break;
      this.#seenMs.delete(principal);
    }
    return this.#seenMs.size > 1;
  }

  #overloaded(): HighwaterError {
    return new HighwaterError("overloaded", {
      detail: `The key already uses its share of the role's database sessions for slow transactions (sessionShare, ${String(this.#sessions)}), and other keys use the role too; retry later.`,
      limit: { name: "sessionShare", value: this.#sessions },
      retryAfterMs: 1_000,
    });
  }
}
