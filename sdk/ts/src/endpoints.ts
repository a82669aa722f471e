// Picks the next address: the nearest first; a failed one is skipped for a while. No I/O.
import { doubled, monotonicMs } from "./runtime.ts";
import { type Tuning } from "./tuning.ts";

/** A failed endpoint is never skipped for longer. */
const COOLDOWN_MAX_MS = 60_000;

export class EndpointPool {
  readonly #urls: readonly string[];
  readonly #tuning: Tuning;
  /** Addresses that failed last: the number of failures in a row, and until when they rest. */
  readonly #resting = new Map<string, readonly [failures: number, untilMs: number]>();

  constructor(urls: readonly string[], tuning: Tuning) {
    this.#urls = [...new Set(urls)];
    this.#tuning = tuning;
  }

  get size(): number {
    return this.#urls.length;
  }

  /** Returns the nearest address that is not resting; if all rest, the one that is back first. */
  pick(): string {
    return this.#urls.reduce((a, b) => (this.#restMs(b) < this.#restMs(a) ? b : a));
  }

  /** Whether some address is not resting, so that a failed request can go there at once. */
  hasAwake(): boolean {
    return this.#restMs(this.pick()) === 0;
  }

  succeeded(url: string): void {
    this.#resting.delete(url);
  }

  failed(url: string): void {
    const { cooldownBaseMs } = this.#tuning;
    const [failures = 0] = this.#resting.get(url) ?? [];
    this.#resting.set(url, [
      failures + 1,
      monotonicMs() + doubled(cooldownBaseMs, failures, COOLDOWN_MAX_MS),
    ]);
  }

  #restMs(url: string): number {
    const [, untilMs = 0] = this.#resting.get(url) ?? [];
    return Math.max(0, untilMs - monotonicMs());
  }
}
