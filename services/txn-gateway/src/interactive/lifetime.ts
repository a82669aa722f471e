// When an open transaction expires: when no call has come for a while, or when it has been open for too long.
import { type Clock } from "@highwater/store";

export interface LifetimeLimits {
  readonly idleTimeoutMs: number;
  readonly totalTimeoutMs: number;
}

export interface LimitMet {
  readonly name: keyof LifetimeLimits;
  readonly value: number;
}

export class Lifetime {
  readonly #clock: Clock;
  readonly #limits: LifetimeLimits;
  readonly #onExpire: (limit: LimitMet) => void;
  readonly #endsAtMs: number;
  readonly #callOffEnd: () => void;
  #callOffIdle: () => void = () => undefined;
  #idleAtMs = Number.POSITIVE_INFINITY;

  constructor(clock: Clock, limits: LifetimeLimits, onExpire: (limit: LimitMet) => void) {
    const { totalTimeoutMs } = limits;
    this.#clock = clock;
    this.#limits = limits;
    this.#onExpire = onExpire;
    this.#endsAtMs = clock.monotonicMs() + totalTimeoutMs;
    this.#callOffEnd = clock.after(totalTimeoutMs, () => {
      this.stop();
      onExpire({ name: "totalTimeoutMs", value: totalTimeoutMs });
    });
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

  idle(): void {
    const { idleTimeoutMs } = this.#limits;
    this.busy();
    this.#idleAtMs = this.#clock.monotonicMs() + idleTimeoutMs;
    this.#callOffIdle = this.#clock.after(idleTimeoutMs, () => {
      this.stop();
      this.#onExpire({ name: "idleTimeoutMs", value: idleTimeoutMs });
    });
  }

  stop(): void {
    this.#callOffIdle();
    this.#callOffEnd();
  }
}
