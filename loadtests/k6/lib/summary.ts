// What stands at the end of a run: of each scenario the time to the answer beside the time until
// durable, and what became of everything.

interface Metric {
  readonly values: Readonly<Record<string, number>>;
  readonly thresholds?: Readonly<Record<string, { readonly ok: boolean }>>;
}

/** As k6 hands it over. */
export interface Data {
  readonly metrics: Readonly<Record<string, Metric>>;
}

/** Of a script's options: its scenarios in their order, each with so many seconds (`20s`). */
export type Scenarios = Readonly<Record<string, { readonly duration: string }>>;

interface Quantiles {
  readonly p50_ms: number | null;
  readonly p95_ms: number | null;
  readonly p99_ms: number | null;
}

interface Pair {
  readonly scenario: string;
  /** Of the scenario's own time; k6's rates are of the whole run's. */
  readonly committed_per_s: number;
  readonly commit: Quantiles;
  readonly durable: Quantiles;
  readonly gap: Quantiles;
  readonly safe: Quantiles;
  /** What was offered and found no virtual user free. */
  readonly dropped: number;
}

export interface Summary {
  readonly pairs: readonly Pair[];
  readonly counts: Readonly<Record<string, number>>;
  readonly failed_rate: number;
  readonly thresholds: readonly { readonly metric: string; readonly rule: string; readonly met: boolean }[];
}

const COUNTS = ["committed", "durable", "lost", "broken", "unsettled", "conflicts", "refused", "unanswered"];
/** For `summaryTrendStats` of every script. */
export const STATISTICS = ["count", "min", "med", "avg", "p(95)", "p(99)", "max"];

export function summaryOf({ metrics }: Data, scenarios: Scenarios): Summary {
  const all = Object.entries(scenarios).map(([name, { duration }]) => [name, secondsOf(duration)] as const);
  const observed = all.filter(([name]) => metrics[`committed{scenario:${name}}`] !== undefined);
  const whole = ["", all.reduce((sum, [, seconds]) => sum + seconds, 0)] as const;
  return {
    pairs: (observed.length === 0 ? [whole] : observed).map(([name, seconds]) =>
      pairOf(metrics, name, seconds),
    ),
    counts: Object.fromEntries(COUNTS.map((name) => [name, metrics[name]?.values["count"] ?? 0])),
    failed_rate: metrics["failed"]?.values["rate"] ?? 0,
    thresholds: Object.entries(metrics).flatMap(([metric, { thresholds = {} }]) =>
      Object.entries(thresholds)
        // Those that only make k6 keep the figures say nothing.
        .filter(([rule]) => rule !== "max>=0" && rule !== "count>=0")
        .map(([rule, { ok }]) => ({ metric, rule, met: ok })),
    ),
  };
}

function secondsOf(duration: string): number {
  const seconds = Number(/^([0-9]+)s$/.exec(duration)?.[1]);
  if (!(seconds > 0)) throw new Error(`a scenario lasts whole seconds, and not ${duration}`);
  return seconds;
}

function pairOf(metrics: Data["metrics"], scenario: string, seconds: number): Pair {
  const of = (name: string): Metric | undefined =>
    metrics[scenario === "" ? name : `${name}{scenario:${scenario}}`];
  return {
    scenario: scenario === "" ? "all" : scenario,
    committed_per_s: (of("committed")?.values["count"] ?? 0) / seconds,
    commit: quantilesOf(of("commit_latency")),
    durable: quantilesOf(of("durable_latency")),
    gap: quantilesOf(of("durability_gap")),
    safe: quantilesOf(of("safe_latency")),
    dropped: of("dropped_iterations")?.values["count"] ?? 0,
  };
}

function quantilesOf(metric: Metric | undefined): Quantiles {
  // Of nothing k6 says zero.
  const values = metric === undefined || metric.values["count"] === 0 ? {} : metric.values;
  return { p50_ms: values["med"] ?? null, p95_ms: values["p(95)"] ?? null, p99_ms: values["p(99)"] ?? null };
}

const ms = (value: number | null): string => (value === null ? "-" : value.toFixed(1));

export function textOf(summary: Summary): string {
  const head = [
    "",
    "commits/s",
    "ack p50",
    "p95",
    "p99 ms",
    "durable p50",
    "p95",
    "p99 ms",
    "gap p50 ms",
    "safe p50",
    "p95 ms",
    "dropped",
  ];
  const rows = summary.pairs.map(({ scenario, committed_per_s, commit, durable, gap, safe, dropped }) => [
    ...[scenario, committed_per_s.toFixed(1)],
    ...[commit.p50_ms, commit.p95_ms, commit.p99_ms, durable.p50_ms, durable.p95_ms, durable.p99_ms].map(ms),
    ...[gap.p50_ms, safe.p50_ms, safe.p95_ms].map(ms),
    String(dropped),
  ]);
  const widths = head.map((title, at) => Math.max(title.length, ...rows.map((row) => row[at]?.length ?? 0)));
  const table = [head, ...rows].map((row) =>
    row
      .map((cell, at) => (at === 0 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0)))
      .join("  "),
  );
  const counts = Object.entries(summary.counts).map(([name, count]) => `${String(count)} ${name}`);
  const thresholds = summary.thresholds.map(
    ({ metric, rule, met }) => `${met ? "met   " : "MISSED"} ${metric} ${rule}`,
  );
  return ["", ...table, "", counts.join(", "), ...thresholds, ""].join("\n");
}

/** k6 writes each value to the file of its name; the driver says where. */
export function summarize(scenarios: Scenarios): (data: Data) => Record<string, string> {
  return (data) => {
    const summary = summaryOf(data, scenarios);
    const file = __ENV["SUMMARY_FILE"];
    return {
      stdout: textOf(summary),
      ...(file !== undefined && { [file]: JSON.stringify({ ...summary, k6: data.metrics }) }),
    };
  };
}
