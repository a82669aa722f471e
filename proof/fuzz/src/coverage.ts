// Tracks which of the product's code has run, as V8 counts it: an input that reaches new code is
// worth changing further.
import { type Profiler, Session } from "node:inspector";

/** And the planted bugs, for the loop's own test. */
const PRODUCT = /^file:.*\/(?:(?:packages|services|sdk)\/(?!.*\.test\.ts$)|fuzz\/src\/targets\/planted\.ts$)/;

/** By file: offsets in its text. */
export type Fresh = Map<string, readonly number[]>;

export class Coverage {
  readonly #session = new Session();
  /** By file: the characters that have ever run. */
  readonly #seen = new Map<string, Set<number>>();
  /** Paths through a function without anything new. */
  readonly #known = new Set<string>();
  #count = 0;

  constructor() {
    this.#session.connect();
    this.#session.post("Profiler.enable");
    this.#session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
  }

  /** How many characters of source have run so far. */
  get count(): number {
    return this.#count;
  }

  /** The characters that ran for the first time since the last look. `learn` marks them as seen. */
  look(): Fresh {
    let found: Profiler.ScriptCoverage[] = [];
    this.#session.post("Profiler.takePreciseCoverage", (_error, { result }) => {
      found = result;
    });
    const fresh: Fresh = new Map();
    for (const { url, functions } of found) {
      const spots = PRODUCT.test(url) ? this.#freshOf(url, functions) : [];
      if (spots.length > 0) fresh.set(url, spots);
    }
    return fresh;
  }

  learn(fresh: Fresh): void {
    for (const [url, spots] of fresh) {
      const seen = this.#seen.get(url) ?? new Set();
      this.#seen.set(url, seen);
      this.#count -= seen.size;
      for (const spot of spots) seen.add(spot);
      this.#count += seen.size;
    }
  }

  #freshOf(url: string, functions: readonly Profiler.FunctionCoverage[]): number[] {
    const seen = this.#seen.get(url);
    const fresh: number[] = [];
    for (const { ranges } of functions) {
      const [whole] = ranges;
      if (whole === undefined || whole.count === 0) continue;
      const way = `${url} ${ranges.map((one) => `${String(one.startOffset)}${one.count > 0 ? "+" : "-"}${String(one.endOffset)}`).join()}`;
      if (this.#known.has(way)) continue;
      const before = fresh.length;
      const ran = new Uint8Array(whole.endOffset - whole.startOffset);
      // Outer ranges come first; inner ones are more exact.
      for (const { startOffset, endOffset, count } of ranges)
        ran.fill(count > 0 ? 1 : 0, startOffset - whole.startOffset, endOffset - whole.startOffset);
      for (const [at, did] of ran.entries())
        if (did === 1 && seen?.has(whole.startOffset + at) !== true) fresh.push(whole.startOffset + at);
      if (fresh.length === before) this.#known.add(way);
    }
    return fresh;
  }

  close(): void {
    this.#session.disconnect();
  }
}
