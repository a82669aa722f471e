// Limits each principal's requests per second, by a bucket that fills steadily, and its requests in
// flight. Synchronous; allocates nothing for a known principal. Forgets unused principals.
import { HighwaterError } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { type KeyLimits, type Principal } from "./principal.ts";

/** For principals without a limit of their own. Null: unlimited. */
export type AdmissionDefaults = Pick<KeyLimits, "ratePerSecond" | "burst" | "concurrency">;

export interface AdmissionOptions {
  readonly clock: Clock;
  readonly defaults: AdmissionDefaults;
}

/** The counts of one principal. The caller passes them to `leave`. */
export interface Admitted {
  inFlight: number;
  /**
   * When the bucket will be full again; each request moves it later. This is the whole state of a
   * bucket.
   */
  fullAtMs: number;
}

/**
 * Exceeds the rounding error of sums of fractions, which would sometimes refuse the last request of
 * a burst.
 */
const ROUNDING_MS = 0.001;
/** Any request in flight may end at any moment. */
const CONCURRENCY_RETRY_MS = 200;
/** With fewer principals, none is forgotten. */
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

  /** Principals with an entry. */
  get size(): number {
    return this.#principals.size;
  }

  /**
   * Counts a request that begins; `leave` must follow exactly once. Errors: `concurrency_limited`,
   * which does not count against the rate; `rate_limited`.
   */
  enter(principal: Principal): Admitted {
    const nowMs = this.#clock.monotonicMs();
    const counted = this.#of(principal, nowMs);
    const limit = principal.limits.concurrency ?? this.#defaults.concurrency;
    if (limit !== null && counted.inFlight >= limit)
      throw new HighwaterError("concurrency_limited", {
        detail: `${principal.id} has ${String(limit)} requests in flight, its limit (concurrency); wait for one to end.`,
        limit: { name: "concurrency", value: limit },
        retryAfterMs: CONCURRENCY_RETRY_MS,
      });
    this.#spend(principal, counted, nowMs);
    counted.inFlight++;
    return counted;
  }

  /** Counts a request against the rate only: it may last for hours. Errors: `rate_limited`. */
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
   * Sweeps again when the number of principals has doubled, so that the cost for each stays
   * constant.
   */
  #sweep(nowMs: number): void {
    for (const [id, counted] of this.#principals)
      if (counted.inFlight === 0 && counted.fullAtMs <= nowMs) this.#principals.delete(id);
    this.#sweepAtSize = Math.max(PRINCIPALS_KEPT_MIN, 2 * this.#principals.size);
  }
}

/** Default: one second's worth. At least 1, so that a request can pass. */
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
