// Metrics: the catalogue, and the numbers behind it.
export { CATALOGUE, GATEWAY, PROCESS, TRACKER, WEBHOOKS } from "./catalogue/index.ts";
export { type Metric, type MetricKind } from "./definition.ts";
export { registerProcess, type ServiceIdentity } from "./process.ts";
export {
  Counter,
  type Distribution,
  type Family,
  Histogram,
  HistogramSeries,
  MetricSet,
  type Sample,
} from "./registry.ts";
export { renderFamilies, TEXT_FORMAT } from "./text.ts";
