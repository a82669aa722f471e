// How many transactions may be open: in all, of one key, and of one login role, whose sessions
// one-shot transactions need too.
import { HighwaterError } from "@highwater/protocol";
import { type Config } from "../config.ts";
import { type Principal } from "@highwater/service";
import { RETRY_MS } from "../retry.ts";

/** Of a role's sessions open transactions may hold so much, and one at least. */
const SHARE_OF_POOL = 0.75;

export class OpenLimits {
  readonly #config: Config;
  readonly #byKey = new Map<string, number>();
  readonly #byRole = new Map<string, number>();
  #all = 0;

  constructor(config: Config) {
    this.#config = config;
  }

  /**
   * The function that gives the place back, to be called once. Errors: `too_many_open`, which names
   * the limit.
   */
  enter({ id, role, limits }: Principal): () => void {
    const { maxOpen, maxOpenPerKey, poolSize, rolePoolSize } = this.#config;
    const roleName = role ?? "";
    const size = role === null ? poolSize : rolePoolSize;
    // Without authentication there is but one key.
    const perKey = limits.openTransactions ?? (role === null ? maxOpen : maxOpenPerKey);
    const places = Math.max(1, Math.floor(size * SHARE_OF_POOL));
    const own = this.#byKey.get(id) ?? 0;
    const ofRole = this.#byRole.get(roleName) ?? 0;
    refuseAbove("maxOpen", maxOpen, this.#all);
    refuseAbove("openTransactions", perKey, own);
    refuseAbove("openTransactionsOfRole", places, ofRole);
    // An operator who gives a key a number of its own has decided already.
    if (role !== null && limits.openTransactions === null)
      refuseAbove("openTransactionsShare", shareOf(places, ofRole > own), own);
    this.#all++;
    add(this.#byKey, id, 1);
    add(this.#byRole, roleName, 1);
    return () => {
      this.#all--;
      add(this.#byKey, id, -1);
      add(this.#byRole, roleName, -1);
    };
  }
}

/**
 * Of a role's places for one key: all but the last, so that another key can always come; half while
 * another has one.
 */
function shareOf(places: number, hasOthers: boolean): number {
  return Math.max(1, hasOthers ? Math.floor(places / 2) : places - 1);
}

function refuseAbove(name: string, value: number, open: number): void {
  if (open < value) return;
  throw new HighwaterError("too_many_open", {
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
