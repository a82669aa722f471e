// Calls of one owner run one after the other, where those of all owners share a connection or a
// thread: one owner's must not keep those of others waiting.
import { HighwaterError } from "@highwater/protocol";
import { NOBODY } from "@highwater/service";

/** Under way and waiting. */
const CALLS_MAX = 16;
const RETRY_MS = 1_000;

interface Turns {
  last: Promise<unknown>;
  count: number;
}

export class OwnerTurns {
  readonly #owners = new Map<bigint, Turns>();
  readonly #limit: string;
  readonly #calls: string;

  /** `limit`: its name in errors. `calls`: what it limits, in words. */
  constructor({ limit, calls }: { readonly limit: string; readonly calls: string }) {
    this.#limit = limit;
    this.#calls = calls;
  }

  /**
   * Null: a service, which acts for every owner and has no turns.
   * Errors: `concurrency_limited`; those of `call`.
   */
  async take<T>(owner: bigint | null, call: () => Promise<T>): Promise<T> {
    if (owner === null || owner === NOBODY) return call();
    const turns = this.#owners.get(owner) ?? { last: Promise.resolve(), count: 0 };
    if (turns.count >= CALLS_MAX)
      throw new HighwaterError("concurrency_limited", {
        detail: `${String(CALLS_MAX)} ${this.#calls} of this owner are under way (${this.#limit}); wait for one to end.`,
        limit: { name: this.#limit, value: CALLS_MAX },
        retryAfterMs: RETRY_MS,
      });
    this.#owners.set(owner, turns);
    turns.count++;
    const mine = turns.last.then(call);
    turns.last = mine.catch(() => undefined);
    try {
      return await mine;
    } finally {
      turns.count--;
      if (turns.count === 0) this.#owners.delete(owner);
    }
  }
}
