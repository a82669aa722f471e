// The values of the catalogue's metrics. Counting adds to a series that was looked up before and
// allocates nothing, because each transaction counts several times. Text and objects are made only
// for a scrape.
import { type Buckets } from "@highwater/runtime";
import { type LabelSet, type Metric } from "./definition.ts";
import { type Distribution, type Family, type Labels } from "./family.ts";
import { renderFamilies } from "./text.ts";

type Nested<S> = Map<string, Nested<S> | S>;

const LABELS_MAX = 4;

/** The series of one metric, by its label values in the catalogue's order. */
class SeriesTable<S extends object> {
  readonly #names: readonly string[];
  readonly #make: () => S;
  readonly #root: Nested<S> = new Map();
  readonly #all: { readonly labels: Labels; readonly series: S }[] = [];
  #single: S | null = null;

  constructor(metric: Metric, make: () => S) {
    this.#names = Object.keys(metric.labels);
    if (this.#names.length > LABELS_MAX) throw new Error(`${metric.name} has too many labels`);
    this.#make = make;
    if (this.#names.length === 0) this.#single = this.#add([]);
    else
      for (const values of metric.kind === "counter" ? combinations(metric.labels) : []) this.#find(values);
  }

  get all(): readonly { readonly labels: Labels; readonly series: S }[] {
    return this.#all;
  }

  /** Allocates nothing for an existing series. */
  at(first = "", second = "", third = "", fourth = ""): S {
    if (this.#single !== null) return this.#single;
    const { length } = this.#names;
    let found = this.#root.get(first);
    if (length > 1) found = (found as Nested<S> | undefined)?.get(second);
    if (length > 2) found = (found as Nested<S> | undefined)?.get(third);
    if (length > 3) found = (found as Nested<S> | undefined)?.get(fourth);
    return (found as S | undefined) ?? this.#find([first, second, third, fourth].slice(0, length));
  }

  #find(values: readonly string[]): S {
    let nested = this.#root;
    for (const value of values.slice(0, -1)) {
      let next = nested.get(value) as Nested<S> | undefined;
      if (next === undefined) nested.set(value, (next = new Map<string, Nested<S> | S>()));
      nested = next;
    }
    const last = values.at(-1) ?? "";
    const known = nested.get(last) as S | undefined;
    if (known !== undefined) return known;
    const series = this.#add(values);
    nested.set(last, series);
    return series;
  }

  #add(values: readonly string[]): S {
    const series = this.#make();
    const labels = Object.fromEntries(this.#names.map((name, at) => [name, values[at] ?? ""]));
    this.#all.push({ labels, series });
    return series;
  }
}

/**
 * Every combination, if all values are known. Such a series exists with the value 0 before anything
 * has happened.
 */
function combinations(labels: LabelSet): string[][] {
  let all: string[][] = [[]];
  for (const values of Object.values(labels)) {
    if (typeof values === "string") return [];
    all = all.flatMap((begin) => values.map((value) => [...begin, value]));
  }
  return all;
}

class CounterSeries {
  value = 0;
}

export class Counter {
  readonly metric: Metric;
  readonly #table: SeriesTable<CounterSeries>;

  constructor(metric: Metric) {
    this.metric = metric;
    this.#table = new SeriesTable(metric, () => new CounterSeries());
  }

  /** Adds one. Label values come from a small set, in the catalogue's order. */
  add(first?: string, second?: string): void {
    this.#table.at(first, second).value++;
  }

  addMany(count: number, first?: string, second?: string): void {
    this.#table.at(first, second).value += count;
  }

  /** The sum of all series. */
  get total(): number {
    return this.#table.all.reduce((sum, { series }) => sum + series.value, 0);
  }

  collect(): Family {
    const samples = this.#table.all.map(({ labels, series }) => ({ labels, value: series.value }));
    return { metric: this.metric, samples, distributions: [] };
  }
}

export class HistogramSeries {
  readonly counts: Float64Array;
  readonly #bounds: readonly number[];
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.counts = new Float64Array(bounds.length + 1);
  }

  /** `weight`: how many observations had this value. */
  observe(value: number, weight = 1): void {
    const bounds = this.#bounds;
    let low = 0;
    let high = bounds.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (value <= (bounds[middle] as number)) high = middle;
      else low = middle + 1;
    }
    this.counts[low] = (this.counts[low] as number) + weight;
    this.sum += value * weight;
  }

  get count(): number {
    return this.counts.reduce((sum, count) => sum + count, 0);
  }
}

export class Histogram {
  readonly metric: Metric;
  readonly #table: SeriesTable<HistogramSeries>;

  constructor(metric: Metric) {
    this.metric = metric;
    this.#table = new SeriesTable(metric, () => new HistogramSeries(metric.buckets));
  }

  /** Label values in the catalogue's order. */
  at(first?: string, second?: string, third?: string, fourth?: string): HistogramSeries {
    return this.#table.at(first, second, third, fourth);
  }

  /** Of the wanted series together. */
  buckets(isWanted: (labels: Labels) => boolean): Buckets {
    const wanted = this.#table.all.filter(({ labels }) => isWanted(labels));
    let count = 0;
    return [...this.metric.buckets, Infinity].map((bound, at) => {
      for (const { series } of wanted) count += series.counts[at] ?? 0;
      return { bound, count };
    });
  }

  collect(): Family {
    const distributions = this.#table.all.map(({ labels, series }) => distributionOf(labels, series));
    return { metric: this.metric, samples: [], distributions };
  }
}

function distributionOf(
  labels: Labels,
  { counts, sum, count }: Pick<HistogramSeries, "counts" | "sum" | "count">,
): Distribution {
  return { labels, counts: [...counts], sum, count };
}

type NamesOf<M extends Metric> = keyof M["labels"] & string;
export type SampleOf<M extends Metric> = {
  readonly labels: Readonly<Record<NamesOf<M>, string>>;
  readonly value: number;
};

export class MetricSet {
  readonly #sources: (() => Family)[] = [];
  readonly #names = new Set<string>();

  counter(metric: Metric): Counter {
    const made = new Counter(metric);
    this.#add(metric, "counter", () => made.collect());
    return made;
  }

  histogram(metric: Metric): Histogram {
    const made = new Histogram(metric);
    this.#add(metric, "histogram", () => made.collect());
    return made;
  }

  /** A gauge, or a counter that is kept elsewhere; read for each scrape. Null: no sample now. */
  read<M extends Metric>(metric: M, read: () => number | null | readonly SampleOf<M>[]): void {
    this.#add(metric, metric.kind === "histogram" ? "gauge" : metric.kind, () => {
      const value = read();
      const samples = value === null ? [] : typeof value === "number" ? [{ labels: {}, value }] : value;
      return { metric, samples, distributions: [] };
    });
  }

  /** A histogram that is kept elsewhere. */
  readHistogram(metric: Metric, read: () => readonly Distribution[]): void {
    this.#add(metric, "histogram", () => ({ metric, samples: [], distributions: read() }));
  }

  collect(): Family[] {
    return this.#sources.map((source) => source());
  }

  /** The text that Prometheus reads. */
  render(): string {
    return renderFamilies(this.collect());
  }

  #add(metric: Metric, kind: Metric["kind"], source: () => Family): void {
    if (metric.kind !== kind) throw new Error(`${metric.name} is a ${metric.kind}`);
    if (this.#names.has(metric.name)) throw new Error(`${metric.name} is there twice`);
    this.#names.add(metric.name);
    this.#sources.push(source);
  }
}
