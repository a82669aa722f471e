// From samples to what is written down: medians over the rounds, ratios within a round, and the
// bars.
import { type Bar, median } from "../gateway/results.ts";
import type { Cores, Labels, Sample } from "./bench.ts";

/** A point of a figure: medians over the rounds. */
export interface Point {
  readonly labels: Labels;
  readonly subject: string;
  readonly group: string;
  readonly kind: string;
  readonly rounds: number;
  readonly per_second: number;
  readonly mean_ms: number | null;
  readonly p50_ms: number | null;
  readonly p95_ms: number | null;
  readonly p99_ms: number | null;
  /** Attempts that conflicted, to every transaction that came to an end: committed or given up. */
  readonly aborts_per_transaction: number;
  /** Share of the transactions that were given up. */
  readonly given_up: number;
  readonly cores: Cores;
}

export interface Result {
  readonly experiment: string;
  readonly mode: "quick" | "full";
  /** Clients, seconds, rounds and so on. */
  readonly settings: Readonly<Record<string, unknown>>;
  readonly points: readonly Point[];
  /** What the papers' figures are compared by; each the median of the ratios of the rounds. */
  readonly ratios: Readonly<Record<string, number>>;
  readonly bars: readonly Bar[];
}

export function pointsOf(samples: readonly Sample[]): Point[] {
  return [...grouped(samples).values()].map(pointOf);
}

function grouped(samples: readonly Sample[]): Map<string, Sample[]> {
  const groups = new Map<string, Sample[]>();
  for (const sample of samples) {
    const { labels, subject, group, kind } = sample;
    const key = JSON.stringify([labels, subject, group, kind]);
    groups.set(key, [...(groups.get(key) ?? []), sample]);
  }
  return groups;
}

function pointOf(samples: readonly Sample[]): Point {
  const [first] = samples;
  if (first === undefined) throw new Error("a point of a figure was not measured");
  const { labels, subject, group, kind } = first;
  return {
    labels,
    subject,
    group,
    kind,
    rounds: samples.length,
    per_second: median(samples.map(({ perSecond }) => perSecond)),
    mean_ms: middle(samples, ({ meanMs }) => meanMs),
    p50_ms: middle(samples, ({ p50Ms }) => p50Ms),
    p95_ms: middle(samples, ({ p95Ms }) => p95Ms),
    p99_ms: middle(samples, ({ p99Ms }) => p99Ms),
    aborts_per_transaction: median(samples.map(abortsPerTransaction)),
    given_up: median(samples.map(givenUpShare)),
    cores: Object.fromEntries(
      Object.keys(first.cores).map((part) => [part, median(samples.map(({ cores }) => cores[part] ?? 0))]),
    ),
  };
}

function middle(samples: readonly Sample[], value: (sample: Sample) => number | null): number | null {
  const known = samples.map(value).filter((each) => each !== null);
  return known.length === 0 ? null : median(known);
}

export function abortsPerTransaction({ done, aborts, givenUp }: Sample): number {
  return aborts / Math.max(1, done + givenUp);
}

export function givenUpShare({ done, givenUp }: Sample): number {
  return givenUp / Math.max(1, done + givenUp);
}

export interface Chosen {
  readonly subject: string;
  readonly kind?: string;
  readonly group?: string;
  readonly labels: Labels;
}

/**
 * Of one side to the other within each round, whose measurements lie close together, and then the
 * median over the rounds.
 */
export function ratioOf(
  samples: readonly Sample[],
  { of, to }: { readonly of: Chosen; readonly to: Chosen },
  value: (sample: Sample) => number | null,
): number {
  const ratios = samples.filter(chosenBy(of)).flatMap((sample) => {
    const other = samples.filter(chosenBy(to)).find(({ round }) => round === sample.round);
    return other === undefined ? [] : [(value(sample) ?? Number.NaN) / (value(other) ?? Number.NaN)];
  });
  return ratios.length === 0 ? Number.NaN : median(ratios);
}

/** Labels that are not named may have any value. */
function chosenBy({ subject, kind, group, labels }: Chosen): (sample: Sample) => boolean {
  return (sample) =>
    sample.subject === subject &&
    (kind === undefined || sample.kind === kind) &&
    (group === undefined || sample.group === group) &&
    Object.entries(labels).every(([name, wanted]) => sample.labels[name] === wanted);
}

/** What is not a number meets no bar. */
export function bar(what: string, measured: number, { min, max }: { min?: number; max?: number }): Bar {
  const met = (min === undefined || measured >= min) && (max === undefined || measured <= max);
  return { what, measured: Number(measured.toFixed(3)), met: met && !Number.isNaN(measured) };
}

const COLUMNS = ["per s", "mean ms", "p50 ms", "p99 ms", "aborts/txn", "given up"] as const;

/** What stands in a terminal when an experiment has ended. */
export function tableOf({ points }: Pick<Result, "points">): string {
  const names = [...new Set(points.flatMap(({ labels }) => Object.keys(labels)))];
  const head = [...names, "subject", "kind", ...COLUMNS];
  const rows = points.map((point) => [
    ...names.map((name) => String(point.labels[name] ?? "")),
    ...[point.subject, point.kind, point.per_second.toFixed(0)],
    ...[point.mean_ms, point.p50_ms, point.p99_ms].map((ms) => ms?.toFixed(2) ?? "-"),
    ...[point.aborts_per_transaction.toFixed(3), point.given_up.toFixed(3)],
  ]);
  const widths = head.map((title, at) => Math.max(title.length, ...rows.map((row) => row[at]?.length ?? 0)));
  return [head, ...rows]
    .map((row) => row.map((text, at) => text.padStart(widths[at] ?? 0)).join("  "))
    .join("\n");
}
