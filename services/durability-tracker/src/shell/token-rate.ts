// How many tokens of one key this tracker judges in a second. To check and judge a token takes
// about 10 microseconds of the one thread that also publishes marks.
import { HighwaterError } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { NOBODY, type Principal } from "@highwater/service";

/** After a pause a key may ask for so many seconds' worth at once, as after a failover. */
const BURST_SECONDS = 10;
/** Below that nothing is looked for to forget. */
const KEYS_KEPT_MIN = 1_000;

export class TokenRate {
  readonly #clock: Clock;
  readonly #perSecond: number;
  /** By key, when it has its whole burst again. */
  readonly #fullAtMs = new Map<string, number>();
  #sweepAtSize = KEYS_KEPT_MIN;

  constructor(clock: Clock, perSecond: number) {
    this.#clock = clock;
    this.#perSecond = perSecond;
  }

  /** Errors: `rate_limited`. A gateway asks for all its callers. */
  spend({ id, owner, isService }: Principal, tokens: number): void {
    if (isService === true || owner === NOBODY) return;
    const nowMs = this.#clock.monotonicMs();
    const fullAtMs = Math.max(this.#fullAtMs.get(id) ?? nowMs, nowMs) + (tokens * 1_000) / this.#perSecond;
    const overMs = fullAtMs - nowMs - BURST_SECONDS * 1_000;
    if (overMs > 0)
      throw new HighwaterError("rate_limited", {
        detail: `${id} asked for the verdicts of more than ${String(this.#perSecond)} tokens per second, its limit (tokensPerSecondPerKey); retry later.`,
        limit: { name: "tokensPerSecondPerKey", value: this.#perSecond },
        retryAfterMs: Math.ceil(overMs),
      });
    if (this.#fullAtMs.size >= this.#sweepAtSize) this.#sweep(nowMs);
    this.#fullAtMs.set(id, fullAtMs);
  }

  #sweep(nowMs: number): void {
    for (const [id, fullAtMs] of this.#fullAtMs) if (fullAtMs <= nowMs) this.#fullAtMs.delete(id);
    this.#sweepAtSize = Math.max(KEYS_KEPT_MIN, 2 * this.#fullAtMs.size);
  }
}
