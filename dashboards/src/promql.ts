// PromQL that several panels and rules share. `$__…` and `$region` are Grafana's; rules take their
// range as an argument.
import { GATEWAY } from "./config.ts";

const RATE = "$__rate_interval";
/** Of one point to the next: what bars count is in one of them only. */
export const STEP = "$__interval";

export const rate = (series: string, range: string = RATE): string => `rate(${series}[${range}])`;

export const increase = (series: string, range: string = RATE): string => `increase(${series}[${range}])`;

const byOf = (labels: readonly string[]): string =>
  labels.length === 0 ? "" : ` by (${labels.join(", ")}) `;

export const sum = (expression: string, ...by: readonly string[]): string => `sum${byOf(by)}(${expression})`;

/** Of what every tracker says of the same thing, that of the one which knows most. */
export const max = (expression: string, ...by: readonly string[]): string => `max${byOf(by)}(${expression})`;

export const min = (expression: string, ...by: readonly string[]): string => `min${byOf(by)}(${expression})`;

/**
 * Series of gateways with the region and name that these have in their own configuration, so that
 * the scrape configuration need not label them; only those of the chosen regions.
 */
export const located = (expression: string): string =>
  `${expression} * on (job, instance) group_left (region, name) highwater_service_info{service="${GATEWAY}", region=~"$region"}`;

export const quantile = (share: number, histogram: string, ...by: readonly string[]): string =>
  `histogram_quantile(${String(share)}, ${sum(rate(withSuffix(histogram, "_bucket")), "le", ...by)})`;

export const locatedQuantile = (share: number, histogram: string, ...by: readonly string[]): string =>
  `histogram_quantile(${String(share)}, ${sum(located(rate(withSuffix(histogram, "_bucket"))), "le", ...by)})`;

function withSuffix(series: string, suffix: string): string {
  const at = series.indexOf("{");
  return at < 0 ? series + suffix : series.slice(0, at) + suffix + series.slice(at);
}

/**
 * The bound of a bucket as a label: Prometheus 3 writes whole numbers with a fraction, older ones
 * as they come.
 */
export const bucketOf = (seconds: number): string =>
  Number.isInteger(seconds) ? `le=~"${String(seconds)}(\\\\.0)?"` : `le="${String(seconds)}"`;
