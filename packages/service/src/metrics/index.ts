// Metrics: the catalogue and the registry of values.
export { CATALOGUE, GATEWAY, PROCESS, TRACKER, WEBHOOKS } from "./catalogue/index.ts";
export { type Metric, type MetricKind } from "./definition.ts";
export { registerProcess, type ServiceIdentity } from "./process.ts";
export { type Distribution, type Family, type Sample } from "./family.ts";
export { Counter, Histogram, HistogramSeries, MetricSet } from "./registry.ts";
export { renderFamilies, TEXT_FORMAT } from "./text.ts";
