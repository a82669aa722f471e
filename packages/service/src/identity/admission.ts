// Limits of each principal: requests per second, as a bucket of tokens that fills up steadily, and
// requests in flight. Synchronous, and without an allocation for a principal that is known. Unused
// principals are forgotten.
import { HighwaterError } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { type KeyLimits, type Principal } from "./principal.ts";

/** For principals whose own limit is null. Null here: unlimited. */
export type AdmissionDefaults = Pick<KeyLimits, "ratePerSecond" | "burst" | "concurrency">;

export interface AdmissionOptions {
  readonly clock: Clock;
  readonly defaults: AdmissionDefaults;
}

/** What is counted for one principal. Handed back to `leave`. */
export interface Admitted {
  inFlight: number;
  /**
   * When the bucket is full again; each token that is taken puts it off. This is all there is to
   * know of a bucket.
   */
  fullAtMs: number;
}

/**
 * Sums of fractions are off by less; without it the last request of a burst would sometimes be
 * refused.
 */
const ROUNDING_MS = 0.001;
/** Of the requests in flight one may end at any moment. */
const CONCURRENCY_RETRY_MS = 200;
/** Below that nothing is looked for to forget. */
const PRINCIPALS_KEPT_MIN = 1_000;

export class Admission {
  readonly #clock: Clock;
  readonly #defaults: AdmissionDefaults;
  readonly #principals = new Map<string, Admitted>();
  #sweepAtSize = PRINCIPALS_KEPT_MIN;

  constructor({ clock, defaults }: AdmissionOptions) {
    this.#clock = clock;
    this.#defaults = defaults;
  }

  /** Principals that have an entry. */
  get size(): number {
    return this.#principals.size;
  }

  /**
   * Counts a request that begins; `leave` must follow exactly once.
   * Errors: `concurrency_limited`, which costs nothing; `rate_limited`.
   */
  enter(principal: Principal): Admitted {
    const nowMs = this.#clock.monotonicMs();
    const counted = this.#of(principal, nowMs);
    const limit = principal.limits.concurrency ?? this.#defaults.concurrency;
    if (limit !== null && counted.inFlight >= limit)
      throw new HighwaterError("concurrency_limited", {
        detail: `${principal.id} has ${String(limit)} requests in flight, its limit concurrency; wait for one to end.`,
        limit: { name: "concurrency", value: limit },
        retryAfterMs: CONCURRENCY_RETRY_MS,
      });
    this.#spend(principal, counted, nowMs);
    counted.inFlight++;
    return counted;
  }

  /**
   * Counts a request that may stay for hours and shall not count as being in flight. Errors:
   * `rate_limited`.
   */
  touch(principal: Principal): void {
    const nowMs = this.#clock.monotonicMs();
    this.#spend(principal, this.#of(principal, nowMs), nowMs);
  }

  leave(counted: Admitted): void {
    if (counted.inFlight <= 0) throw new Error("a request left that had not entered");
    counted.inFlight--;
  }

  #spend(principal: Principal, counted: Admitted, nowMs: number): void {
    const rate = principal.limits.ratePerSecond ?? this.#defaults.ratePerSecond;
    if (rate === null) return;
    const burst = burstOf(principal, this.#defaults, rate);
    const tokenMs = 1_000 / rate;
    const fullAtMs = Math.max(counted.fullAtMs, nowMs) + tokenMs;
    const overMs = fullAtMs - nowMs - burst * tokenMs;
    if (overMs > ROUNDING_MS) throw rateLimited(principal, { rate, burst, retryAfterMs: Math.ceil(overMs) });
    counted.fullAtMs = fullAtMs;
  }

  #of(principal: Principal, nowMs: number): Admitted {
    const known = this.#principals.get(principal.id);
    if (known !== undefined) return known;
    if (this.#principals.size >= this.#sweepAtSize) this.#sweep(nowMs);
    const counted = { inFlight: 0, fullAtMs: nowMs };
    this.#principals.set(principal.id, counted);
    return counted;
  }

  /**
   * The next sweep comes when as many have been added as were left, so that it costs each of them a
   * constant.
   */
  #sweep(nowMs: number): void {
    for (const [id, counted] of this.#principals)
      if (counted.inFlight === 0 && counted.fullAtMs <= nowMs) this.#principals.delete(id);
    this.#sweepAtSize = Math.max(PRINCIPALS_KEPT_MIN, 2 * this.#principals.size);
  }
}

/** One second's worth unless it is said, and never so little that no request could ever pass. */
function burstOf(principal: Principal, defaults: AdmissionDefaults, rate: number): number {
  // The default burst belongs to the default rate.
  const fallback = principal.limits.ratePerSecond === null ? defaults.burst : null;
  return Math.max(1, principal.limits.burst ?? fallback ?? rate);
}

function rateLimited(
  principal: Principal,
  { rate, burst, retryAfterMs }: { rate: number; burst: number; retryAfterMs: number },
): HighwaterError {
  return new HighwaterError("rate_limited", {
    detail: `${principal.id} exceeded its ratePerSecond of ${String(rate)} (burst ${String(burst)}); retry later.`,
    limit: { name: "ratePerSecond", value: rate },
    retryAfterMs,
  });
}
