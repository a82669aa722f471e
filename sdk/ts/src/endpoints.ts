// Which address to use next. Nearest first; one that failed is passed over for a while. No I/O, no clock of its own.
import { type Tuning } from "./tuning.ts";

export class EndpointPool {
  readonly #urls: readonly string[];
  readonly #tuning: Tuning;
  /** Of those that failed last: how often in a row, and until when they rest. */
  readonly #resting = new Map<string, { failures: number; untilMs: number }>();

  constructor(urls: readonly string[], tuning: Tuning) {
    this.#urls = [...new Set(urls)];
    this.#tuning = tuning;
  }

  get size(): number {
    return this.#urls.length;
  }

  /** The nearest address that is not resting; when all of them rest, the one that comes back first. */
  pick(nowMs: number): string {
    const restMs = (url: string): number => Math.max(0, (this.#resting.get(url)?.untilMs ?? 0) - nowMs);
    return this.#urls.reduce((a, b) => (restMs(b) < restMs(a) ? b : a));
  }

  /** True while some address is not resting: a failed request can go there at once. */
  hasAwake(nowMs: number): boolean {
    return (this.#resting.get(this.pick(nowMs))?.untilMs ?? 0) <= nowMs;
  }

  succeeded(url: string): void {
    this.#resting.delete(url);
  }

  failed(url: string, nowMs: number): void {
    const { cooldownBaseMs, cooldownMaxMs } = this.#tuning;
    const failures = this.#resting.get(url)?.failures ?? 0;
    const restMs = Math.min(cooldownMaxMs, cooldownBaseMs * 2 ** Math.min(failures, 20));
    this.#resting.set(url, { failures: failures + 1, untilMs: nowMs + restMs });
  }
}
