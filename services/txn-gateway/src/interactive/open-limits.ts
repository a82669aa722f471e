// How many transactions may be open: in all, of one key, and of one login role, whose sessions
// one-shot transactions need too. One for which there is no place waits its turn for a while: a
// pool of connections in an application does the same.
import { HighwaterError } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { type Config } from "../config.ts";
import { type Principal } from "@highwater/service";
import { RETRY_MS } from "../retry.ts";

/** Of a role's sessions open transactions may hold so much, and one at least. */
const SHARE_OF_POOL = 0.75;
/** Shorter than what clients give to one attempt. */
const WAIT_MS = 5_000;
/** Each of them holds a request in memory. */
const WAITING_MAX = 1_000;

interface Limit {
  readonly name: string;
  readonly value: number;
}

interface Waiting {
  readonly who: Principal;
  readonly admit: () => void;
  readonly refuse: (cause: HighwaterError) => void;
}

export class OpenLimits {
  readonly #config: Config;
  readonly #clock: Clock;
  readonly #byKey = new Map<string, number>();
  readonly #byRole = new Map<string, number>();
  /** The longest first. None of them could enter now. */
  readonly #waiting = new Set<Waiting>();
  #all = 0;

  constructor(config: Config, clock: Clock) {
    this.#config = config;
    this.#clock = clock;
  }

  /**
   * Waits for a place. Resolves with the function that gives it back, to be called once. Errors:
   * `too_many_open`, which names the limit, if none becomes free in time or too many wait already;
   * `cancelled` if the client goes away.
   */
  async enter(who: Principal, client?: AbortSignal): Promise<() => void> {
    const met = this.#limitMet(who);
    if (met === null) return this.#take(who);
    if (met.value === 0 || this.#waiting.size >= WAITING_MAX) throw tooMany(met);
    return new Promise((resolve, reject) => {
      const end = (): void => {
        this.#waiting.delete(waiting);
        cancelWait();
        client?.removeEventListener("abort", onGone);
      };
      const waiting: Waiting = {
        who,
        admit: () => {
          end();
          resolve(this.#take(who));
        },
        refuse: (cause) => {
          end();
          reject(cause);
        },
      };
      const onGone = (): void => {
        waiting.refuse(new HighwaterError("cancelled", { detail: "The client disconnected." }));
      };
      const cancelWait = this.#clock.after(WAIT_MS, () => {
        waiting.refuse(tooMany(this.#limitMet(who) ?? met));
      });
      this.#waiting.add(waiting);
      client?.addEventListener("abort", onGone, { once: true });
      if (client?.aborted === true) onGone();
    });
  }

  /** Refuses those that wait: after a shutdown has begun, no transaction may take a place. */
  drain(): void {
    const detail = "The service is shutting down.";
    for (const { refuse } of [...this.#waiting])
      refuse(new HighwaterError("overloaded", { detail, retryAfterMs: RETRY_MS.shutdown }));
  }

  #take({ id, role }: Principal): () => void {
    const roleName = role ?? "";
    this.#all++;
    add(this.#byKey, id, 1);
    add(this.#byRole, roleName, 1);
    return () => {
      this.#all--;
      add(this.#byKey, id, -1);
      add(this.#byRole, roleName, -1);
      for (const { who, admit } of [...this.#waiting]) if (this.#limitMet(who) === null) admit();
    };
  }

  /** The first limit that one more of this principal would exceed. */
  #limitMet({ id, role, limits }: Principal): Limit | null {
    const { maxOpen, maxOpenPerKey, poolSize, rolePoolSize } = this.#config;
    const size = role === null ? poolSize : rolePoolSize;
    // Without authentication there is but one key.
    const perKey = limits.openTransactions ?? (role === null ? maxOpen : maxOpenPerKey);
    const places = Math.max(1, Math.floor(size * SHARE_OF_POOL));
    const own = this.#byKey.get(id) ?? 0;
    const ofRole = this.#byRole.get(role ?? "") ?? 0;
    const met = (name: string, value: number, open: number): Limit | null =>
      open < value ? null : { name, value };
    return (
      met("maxOpen", maxOpen, this.#all) ??
      met("openTransactions", perKey, own) ??
      met("openTransactionsOfRole", places, ofRole) ??
      // An operator who gives a key a number of its own has decided already.
      (role !== null && limits.openTransactions === null
        ? met("openTransactionsShare", shareOf(places, ofRole > own), own)
        : null)
    );
  }
}

/**
 * Of a role's places for one key: all but the last, so that another key can always come; half while
 * another has one.
 */
function shareOf(places: number, hasOthers: boolean): number {
  return Math.max(1, hasOthers ? Math.floor(places / 2) : places - 1);
}

function tooMany({ name, value }: Limit): HighwaterError {
  return new HighwaterError("too_many_open", {
    detail: `All ${String(value)} interactive transactions are in use (${name}); commit or roll back one first.`,
    limit: { name, value },
    retryAfterMs: RETRY_MS.room,
  });
}

function add(counts: Map<string, number>, key: string, change: number): void {
  const count = (counts.get(key) ?? 0) + change;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}
