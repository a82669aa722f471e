// From the measured segments to the result: medians over the rounds, ratios, the bars and the
// table.
import type { Bar } from "../rounds/bars.ts";
import { median } from "../rounds/figures.ts";
import type { Segment } from "./segment.ts";

// proof/soak has them from here.
export { type Bar, verdictOf } from "../rounds/bars.ts";
export { median } from "../rounds/figures.ts";

export const SERIES = ["gateway", "direct_async", "direct_sync", "gateway_with_tracker"] as const;
export type Series = (typeof SERIES)[number];
export const CLIENTS = [1, 8, 64] as const;
export type ClientCount = (typeof CLIENTS)[number];
type Column = `c${ClientCount}`;

/** Processor milliseconds that a segment took; null where the system does not report them. */
interface Cpu {
  readonly gateway: number | null;
  readonly generator: number | null;
  readonly database: number | null;
}

export interface Sample {
  readonly round: number;
  /** The measured subject. */
  readonly series: string;
  readonly clients: ClientCount;
  readonly segment: Segment;
  readonly cpu: Cpu;
}

interface Cell {
  readonly p50_ms: number;
  readonly p99_ms: number;
  readonly tps: number;
  /** Share of the attempts that were refused for a conflict and repeated. */
  readonly conflicts: number;
  /** Processor microseconds per transaction. */
  readonly cpu_us: { readonly [Part in keyof Cpu]: number | null };
}

type Cells = Readonly<Record<Column, Cell>>;

/** The limit for the gateway's p50 at one client above that of `direct_async`. */
const ADDED_P50_MS_MAX = 0.6;
/**
 * The lower limit of the gateway's throughput at 64 clients, as a multiple of that of
 * `direct_async`.
 */
const THROUGHPUT_MIN = 1.2;

export interface Result extends Readonly<Record<Series, Cells>> {
  /**
   * Ratios within a round, whose segments lie close together, and then the median of all rounds: a
   * slow minute slows both sides.
   */
  readonly ratios: {
    readonly tps_to_direct_async: Readonly<Record<Column, number>>;
    readonly tps_to_direct_sync: Readonly<Record<Column, number>>;
    readonly p50_ms_above_direct_async: Readonly<Record<Column, number>>;
    readonly with_tracker_tps_to_gateway: Readonly<Record<Column, number>>;
  };
  readonly bars: readonly Bar[];
}

export function summarize(samples: readonly Sample[]): Result {
  const cellsOf = (series: Series): Cells =>
    columns((clients) =>
      cellOf(samples.filter((sample) => sample.series === series && sample.clients === clients)),
    );
  const [gateway, direct_async, direct_sync, gateway_with_tracker] = [
    cellsOf("gateway"),
    cellsOf("direct_async"),
    cellsOf("direct_sync"),
    cellsOf("gateway_with_tracker"),
  ];
  const ratios = {
    tps_to_direct_async: paired(samples, "gateway", "direct_async", (of, to) => tpsOf(of) / tpsOf(to)),
    tps_to_direct_sync: paired(samples, "gateway", "direct_sync", (of, to) => tpsOf(of) / tpsOf(to)),
    p50_ms_above_direct_async: paired(
      samples,
      "gateway",
      "direct_async",
      (of, to) => of.segment.p50Ms - to.segment.p50Ms,
    ),
    // A ratio of the medians, because the gateway with a tracker is measured later.
    with_tracker_tps_to_gateway: columns((clients) =>
      round(gateway_with_tracker[`c${clients}`].tps / gateway[`c${clients}`].tps),
    ),
  };
  const added = ratios.p50_ms_above_direct_async.c1;
  const multiple = ratios.tps_to_direct_async.c64;
  const bars = [
    {
      what: `gateway p50 at 1 client at most ${String(ADDED_P50_MS_MAX)} ms above direct_async`,
      measured: added,
      met: added <= ADDED_P50_MS_MAX,
    },
    {
      what: `gateway throughput at 64 clients at least ${String(THROUGHPUT_MIN)} times direct_async`,
      measured: multiple,
      met: multiple >= THROUGHPUT_MIN,
    },
  ];
  return { gateway, direct_async, direct_sync, gateway_with_tracker, ratios, bars };
}

function paired(
  samples: readonly Sample[],
  of: string,
  to: string,
  compare: (of: Sample, to: Sample) => number,
): Readonly<Record<Column, number>> {
  return columns((clients) => {
    const here = samples.filter((sample) => sample.clients === clients);
    const compared = here.flatMap((sample) => {
      if (sample.series !== of) return [];
      const other = here.find((each) => each.series === to && each.round === sample.round);
      return other === undefined ? [] : [compare(sample, other)];
    });
    return round(median(compared));
  });
}

export function tpsOf({ segment }: Sample): number {
  return (1_000 * segment.committed) / segment.elapsedMs;
}

function columns<T>(value: (clients: ClientCount) => T): Readonly<Record<Column, T>> {
  return { c1: value(1), c8: value(8), c64: value(64) };
}

function cellOf(samples: readonly Sample[]): Cell {
  if (samples.length === 0) throw new Error("a cell of the table was not measured");
  const middle = (value: (sample: Sample) => number): number => median(samples.map(value));
  const perTransaction = (part: keyof Cpu): number | null => {
    const known = samples.flatMap(({ cpu, segment }) =>
      cpu[part] === null ? [] : [(1_000 * cpu[part]) / segment.committed],
    );
    return known.length === 0 ? null : Math.round(median(known));
  };
  return {
    p50_ms: round(middle(({ segment }) => segment.p50Ms)),
    p99_ms: round(middle(({ segment }) => segment.p99Ms)),
    tps: Math.round(middle(tpsOf)),
    conflicts: round(
      middle(({ segment }) => segment.conflicts / (segment.conflicts + segment.committed)),
      5,
    ),
    cpu_us: {
      gateway: perTransaction("gateway"),
      generator: perTransaction("generator"),
      database: perTransaction("database"),
    },
  };
}

function round(value: number, digits = 3): number {
  return Number(value.toFixed(digits));
}

const HEAD = ["", "clients", "p50 ms", "p99 ms", "tps", "cpu µs/txn: gateway", "generator", "database"];

export function tableOf(result: Result): string {
  const rows = SERIES.flatMap((series) =>
    CLIENTS.map((clients) => {
      const { p50_ms, p99_ms, tps, cpu_us } = result[series][`c${clients}`];
      const cpu = [cpu_us.gateway, cpu_us.generator, cpu_us.database].map((us) =>
        us === null ? "-" : String(us),
      );
      return [series, String(clients), p50_ms.toFixed(3), p99_ms.toFixed(3), String(tps), ...cpu];
    }),
  );
  const widths = HEAD.map((title, at) =>
    Math.max(...[HEAD, ...rows].map((row) => row[at]?.length ?? 0), title.length),
  );
  return [HEAD, ...rows]
    .map((row) =>
      row.map((text, at) => (at === 0 ? text.padEnd(widths[at] ?? 0) : text.padStart(widths[at] ?? 0))),
    )
    .map((row) => row.join("  "))
    .join("\n");
}
