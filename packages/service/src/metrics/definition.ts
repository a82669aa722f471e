// The definition of a metric: its name, its labels, and the question that it answers. The catalogue
// consists of these, and only metrics of the catalogue can be exposed.

/** The values that a label has, or, where they cannot be listed, what they are. */
type LabelValues = readonly string[] | string;

/** In the order in which values are given. */
export type LabelSet = Readonly<Record<string, LabelValues>>;

export type MetricKind = "counter" | "gauge" | "histogram";

/** `1`: a number without a unit, or of the things that the name says. */
type Unit = "seconds" | "bytes" | "transactions" | "1";

export interface Metric<Labels extends LabelSet = LabelSet> {
  readonly kind: MetricKind;
  readonly name: string;
  readonly labels: Labels;
  readonly unit: Unit;
  /** What a sample says, in one line. */
  readonly help: string;
  /** Why anybody looks at it. */
  readonly question: string;
  /** Of a histogram: upper bounds, ascending; above the last there is no bound. */
  readonly buckets: readonly number[];
  /** Shown only where there is something to say of it, and why. */
  readonly only: string | null;
}

interface Given<Labels extends LabelSet> {
  readonly labels?: Labels;
  readonly unit?: Unit;
  readonly help: string;
  readonly question: string;
  readonly only?: string;
}

/** Named `…_total`, but what is counted in seconds or bytes too. */
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
 * Of answers: from half a millisecond, which is what one round trip costs, to the longest that a
 * client may wait.
 */
export const LATENCY_SECONDS: readonly number[] = [
  0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5,
  1, 2, 5, 10, 30,
];

/** Of durability: from a flush on the same disk to a failover and a replica that comes back. */
export const LAG_SECONDS: readonly number[] = [
  0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30, 60,
  300,
];

/** Of what is tried again for hours, as webhooks are. */
export const AGE_SECONDS: readonly number[] = [
  0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 3_600, 14_400, 43_200, 86_400,
];
