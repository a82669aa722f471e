// When an open transaction expires: when no call has come for a while, or when it has been open for
// too long.
import { type Clock } from "@highwater/runtime";

export interface LifetimeLimits {
  readonly idleTimeoutMs: number;
  readonly totalTimeoutMs: number;
}

export interface LimitMet {
  readonly name: keyof LifetimeLimits;
  readonly value: number;
}

type CallOff = () => void;
const NOTHING: CallOff = () => undefined;

export class Lifetime {
  readonly limits: LifetimeLimits;
  readonly #clock: Clock;
  readonly #onExpire: (limit: LimitMet) => void;
  readonly #endsAtMs: number;
  /** Null while it is on hold. */
  #callOffEnd: CallOff | null = null;
  #callOffIdle = NOTHING;
  #idleAtMs = Number.POSITIVE_INFINITY;
  #isStopped = false;

  constructor(clock: Clock, limits: LifetimeLimits, onExpire: (limit: LimitMet) => void) {
    this.#clock = clock;
    this.limits = limits;
    this.#onExpire = onExpire;
    this.#endsAtMs = clock.monotonicMs() + limits.totalTimeoutMs;
    this.idle();
  }

  /** By the clock on the wall: for the client's eyes. */
  get expiresAtMs(): number {
    const leftMs = Math.min(this.#endsAtMs, this.#idleAtMs) - this.#clock.monotonicMs();
    return this.#clock.wallMs() + Math.max(0, leftMs);
  }

  /** A call begins: it is not idle while that runs. */
  busy(): void {
    this.#callOffIdle();
    this.#idleAtMs = Number.POSITIVE_INFINITY;
  }

  /** A commit begins, which nothing here may end: neither limit counts until it is idle again. */
  hold(): void {
    this.busy();
    this.#callOffEnd?.();
    this.#callOffEnd = null;
  }

  idle(): void {
    if (this.#isStopped) return;
    this.busy();
    const nowMs = this.#clock.monotonicMs();
    this.#callOffEnd ??= this.#expireIn(this.#endsAtMs - nowMs, "totalTimeoutMs");
    this.#idleAtMs = nowMs + this.limits.idleTimeoutMs;
    this.#callOffIdle = this.#expireIn(this.limits.idleTimeoutMs, "idleTimeoutMs");
  }

  stop(): void {
    this.#isStopped = true;
    this.#callOffIdle();
    this.#callOffEnd?.();
  }

  #expireIn(delayMs: number, name: LimitMet["name"]): CallOff {
    return this.#clock.after(Math.max(0, delayMs), () => {
      this.stop();
      this.#onExpire({ name, value: this.limits[name] });
    });
  }
}
