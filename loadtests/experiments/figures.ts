// From what ended in a window to the figures of a turn, and the peaks of ways.
import { bestOf, type Cell } from "../rounds/figures.ts";
import type { Figures } from "../rounds/turns.ts";
import type { GroupStats, KindStats } from "./load/window.ts";

/**
 * Of the whole kind, or of all together; and with the name in front, of each part that is not the
 * row itself: the groups where there are several, else the kinds.
 */
export function figuresOf(
  groups: Readonly<Record<string, GroupStats>>,
  { row, whole }: { readonly row: string; readonly whole: string | undefined },
): Figures {
  const names = Object.keys(groups);
  const parts = Object.entries(groups).flatMap(([group, { kinds }]) =>
    Object.entries(kinds).map(([kind, stats]) => {
      const isNamedByGroup = names.length > 1 || Object.keys(kinds).length === 1;
      return { name: isNamedByGroup ? group : kind, kind, stats };
    }),
  );
  const counted = parts.filter(({ kind }) => whole === undefined || kind === whole);
  const named = parts
    .filter(({ name }) => name !== row)
    .flatMap(({ name, stats }) =>
      Object.entries(figuresOfKind(stats)).map(([figure, value]) => [`${name} ${figure}`, value] as const),
    );
  return { ...togetherOf(counted.map(({ stats }) => stats)), ...Object.fromEntries(named) };
}

/** Quantiles of several kinds are not those of their union, so only a single one has them. */
function togetherOf(parts: readonly KindStats[]): Figures {
  const [first] = parts;
  if (first !== undefined && parts.length === 1) return figuresOfKind(first);
  const sum = (value: (part: KindStats) => number): number =>
    parts.reduce((all, part) => all + value(part), 0);
  const done = sum((part) => part.done);
  const mean = sum((part) => part.done * (part.meanMs ?? 0)) / done;
  return figuresOfKind({
    done,
    aborts: sum(({ aborts }) => aborts),
    givenUp: sum(({ givenUp }) => givenUp),
    perSecond: sum(({ perSecond }) => perSecond),
    meanMs: done === 0 ? null : mean,
    p50Ms: null,
    p95Ms: null,
    p99Ms: null,
  });
}

function figuresOfKind(stats: KindStats): Figures {
  const { done, aborts, givenUp, perSecond, meanMs, p50Ms, p95Ms, p99Ms } = stats;
  // Where nothing was done there is no latency.
  const latencies = Object.entries({ mean_ms: meanMs, p50_ms: p50Ms, p95_ms: p95Ms, p99_ms: p99Ms }).flatMap(
    ([name, ms]) => (ms === null ? [] : [[name, ms] as const]),
  );
  return {
    per_second: perSecond,
    ...Object.fromEntries(latencies),
    failed_tries: aborts / Math.max(1, done + aborts),
    given_up: givenUp / Math.max(1, done + givenUp),
  };
}

/** The row of a way under the load at which it did most. */
export interface Peak {
  readonly workload: string;
  readonly way: string;
  readonly row: string;
  readonly per_second: number;
}

/** Of some of the rows of a workload. */
export function peakOf(
  cells: readonly Cell[],
  workload: string,
  { way, rows }: { readonly way: string; readonly rows: readonly string[] },
): Peak {
  const row = bestOf(cells, workload, rows);
  const cell = cells.find((each) => each.workload === workload && each.row === row);
  return { workload, way, row, per_second: cell?.figures["per_second"]?.median ?? Number.NaN };
}
