// The table that docs/benchmarks.md opens with: where Highwater pays, and where a synchronous
// commit of PostgreSQL is the better choice.
import { markdownTable, numberText, type Recorded } from "../rounds/page.ts";

/** Nearer to 1 than this makes no difference to an application. */
const SAME = 0.1;
export const NOT_RUN = "*Not run yet in full. [Quick runs](verification.md) give rough figures.*";

interface Compared {
  readonly experiment: string;
  readonly what: string;
  readonly isMoreBetter: boolean;
}

const PEAK: Compared = { experiment: "contention", what: "throughput, peak to peak", isMoreBetter: true };
const COMMIT: Compared = { experiment: "latency", what: "p50 of a commit", isMoreBetter: false };
const AD: Compared = { experiment: "auction", what: "mean time of a page", isMoreBetter: false };
const TPCC: Compared = { experiment: "tpcc", what: "throughput", isMoreBetter: true };
const BEST = "the best of PostgreSQL, on";

/** Each with its ratio. Commits are safe, or as the application has them. */
const SITUATIONS: readonly (readonly [situation: string, ratio: string, compared: Compared])[] = [
  ["128 clients on few rows, replica at 16 ms", `peak of safe to ${BEST}, 0.95, 16 ms`, PEAK],
  ["128 clients on few rows, 1 ms", `peak of safe to ${BEST}, 0.95, 1 ms`, PEAK],
  ["128 clients, no contention, 16 ms", `peak of safe to ${BEST}, uniform, 16 ms`, PEAK],
  ["128 clients, no contention, 1 ms", `peak of safe to ${BEST}, uniform, 1 ms`, PEAK],
  ["one client, 16 ms", "p50 of safe to a synchronous commit, 16 ms", COMMIT],
  ["one client, 1 ms", "p50 of safe to a synchronous commit, 1 ms", COMMIT],
  [
    "an auction that waits for its sale alone, 16 ms",
    'mean time of a page as designed to "PostgreSQL, on", 16 ms',
    AD,
  ],
  [
    "an auction that waits for its sale alone, 1 ms",
    'mean time of a page as designed to "PostgreSQL, on", 1 ms',
    AD,
  ],
  ["TPC-C with new orders fast, 16 ms", "throughput with new orders fast to PostgreSQL, on, pipelined", TPCC],
];

/** Of results at one commit alone: rows of different code cannot be compared. */
export function decisionTable(
  found: readonly (Pick<Recorded, "commit" | "ratios"> & { readonly experiment: string })[],
): string {
  const commits = new Set(found.map(({ commit }) => commit));
  const wanted = new Set(SITUATIONS.map(([, , { experiment }]) => experiment));
  const isWhole = [...wanted].every((name) => found.some(({ experiment }) => experiment === name));
  if (!isWhole || commits.size !== 1) return NOT_RUN;
  const rows = SITUATIONS.map(([situation, ratio, { experiment, what, isMoreBetter }]) => {
    const value = found.find((each) => each.experiment === experiment)?.ratios[ratio] ?? Number.NaN;
    return [situation, what, numberText(value), choiceOf(isMoreBetter ? value : 1 / value)];
  });
  return markdownTable(["situation", "what is compared", "Highwater to PostgreSQL, on", "choose"], rows);
}

/** `gain`: how many times better Highwater is. */
function choiceOf(gain: number): string {
  if (Number.isNaN(gain)) return "not measured";
  if (gain > 1 + SAME) return "Highwater";
  return gain < 1 - SAME ? "`synchronous_commit=on`" : "no difference";
}
