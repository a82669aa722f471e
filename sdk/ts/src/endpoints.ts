// Which address to use next. Nearest first; one that failed is passed over for a while. No I/O, no clock of its own.
import { type Tuning } from "./tuning.ts";

interface Standing {
  readonly url: string;
  failures: number;
  restUntilMs: number;
}

export class EndpointPool {
  readonly #standings: Standing[];
  readonly #tuning: Tuning;

  constructor(urls: readonly string[], tuning: Tuning) {
    this.#standings = urls.map((url) => ({ url, failures: 0, restUntilMs: Number.NEGATIVE_INFINITY }));
    this.#tuning = tuning;
  }

  get size(): number {
    return this.#standings.length;
  }

  /** The nearest address that is not resting; when all of them rest, the one that comes back first. */
  pick(nowMs: number): string {
    const awake = this.#standings.find((standing) => standing.restUntilMs <= nowMs);
    const chosen = awake ?? this.#standings.reduce((a, b) => (b.restUntilMs < a.restUntilMs ? b : a));
    return chosen.url;
  }

  /** True while some address is not resting: a failed request can go there at once. */
  hasAwake(nowMs: number): boolean {
    return this.#standings.some((standing) => standing.restUntilMs <= nowMs);
  }

  succeeded(url: string): void {
    const standing = this.#standings.find((candidate) => candidate.url === url);
    if (standing === undefined) return;
    standing.failures = 0;
    standing.restUntilMs = Number.NEGATIVE_INFINITY;
  }

  failed(url: string, nowMs: number): void {
    const standing = this.#standings.find((candidate) => candidate.url === url);
    if (standing === undefined) return;
    const { cooldownBaseMs, cooldownMaxMs } = this.#tuning;
    const restMs = Math.min(cooldownMaxMs, cooldownBaseMs * 2 ** Math.min(standing.failures, 20));
    standing.failures += 1;
    standing.restUntilMs = nowMs + restMs;
  }
}
