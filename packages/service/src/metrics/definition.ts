// The definition of a metric: its name, its labels, and the question that it answers. The catalogue
// consists of them, and only metrics of the catalogue can be exposed.

/** The label's values, or a description where they cannot be listed. */
type LabelValues = readonly string[] | string;

/** Values are given in this order. */
export type LabelSet = Readonly<Record<string, LabelValues>>;

export type MetricKind = "counter" | "gauge" | "histogram";

/** `1`: a plain number, or a count of the things in the name. */
type Unit = "seconds" | "bytes" | "transactions" | "1";

export interface Metric<Labels extends LabelSet = LabelSet> {
  readonly kind: MetricKind;
  readonly name: string;
  readonly labels: Labels;
  readonly unit: Unit;
  /** The meaning of a sample, in one line. */
  readonly help: string;
  /** The question that an operator answers with it. */
  readonly question: string;
  /** For a histogram: upper bounds, ascending. Above the last there is no bound. */
  readonly buckets: readonly number[];
  /** The condition under which it is exposed; null: always. */
  readonly only: string | null;
}

interface Given<Labels extends LabelSet> {
  readonly labels?: Labels;
  readonly unit?: Unit;
  readonly help: string;
  readonly question: string;
  readonly only?: string;
}

/** Its name ends in `_total`, except for counts of seconds or bytes. */
export function counter<const Labels extends LabelSet = Record<never, never>>(
  name: string,
  given: Given<Labels>,
): Metric<Labels> {
  return define("counter", name, given, []);
}

export function gauge<const Labels extends LabelSet = Record<never, never>>(
  name: string,
  given: Given<Labels>,
): Metric<Labels> {
  return define("gauge", name, given, []);
}

export function histogram<const Labels extends LabelSet = Record<never, never>>(
  name: string,
  given: Given<Labels> & { readonly buckets: readonly number[] },
): Metric<Labels> {
  return define("histogram", name, given, given.buckets);
}

function define<Labels extends LabelSet>(
  kind: MetricKind,
  name: string,
  { labels, unit = "1", help, question, only }: Given<Labels>,
  buckets: readonly number[],
): Metric<Labels> {
  return { kind, name, labels: labels ?? ({} as Labels), unit, help, question, buckets, only: only ?? null };
}

/**
 * For answers: from half a millisecond, the cost of one round trip, to the longest time that a
 * client may wait.
 */
export const LATENCY_SECONDS: readonly number[] = [
  0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5,
  1, 2, 5, 10, 30,
];

/** For durability: from a flush on the same disk to a failover and a replica that comes back. */
export const LAG_SECONDS: readonly number[] = [
  0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30, 60,
  300,
];

/** For work that is retried for hours, such as webhooks. */
export const AGE_SECONDS: readonly number[] = [
  0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 3_600, 14_400, 43_200, 86_400,
];
