// Turns the registry's families into the form that OpenTelemetry's exporters take. Names and units
// stay the same.
import { type HrTime, ValueType } from "@opentelemetry/api";
import {
  AggregationTemporality,
  DataPointType,
  type Histogram as HistogramValue,
  type MetricData,
} from "@opentelemetry/sdk-metrics";
import { type Metric } from "../metrics/definition.ts";
import { type Distribution, type Family } from "../metrics/family.ts";

/** UCUM codes, as OpenTelemetry expects. */
const UNITS: Readonly<Record<Metric["unit"], string>> = {
  seconds: "s",
  bytes: "By",
  transactions: "{transaction}",
  "1": "1",
};

export interface Span {
  readonly startTime: HrTime;
  readonly endTime: HrTime;
}

/** Leaves out families without samples. */
export function toMetricData(families: readonly Family[], times: Span): MetricData[] {
  return families.flatMap((family): MetricData[] => {
    const { metric, samples, distributions } = family;
    if (samples.length === 0 && distributions.length === 0) return [];
    const shared = {
      descriptor: {
        name: metric.name,
        description: metric.help,
        unit: UNITS[metric.unit],
        valueType: ValueType.DOUBLE,
      },
      aggregationTemporality: AggregationTemporality.CUMULATIVE,
    };
    if (metric.kind === "histogram")
      return [
        {
          ...shared,
          dataPointType: DataPointType.HISTOGRAM,
          dataPoints: distributions.map((distribution) => ({
            ...times,
            attributes: distribution.labels,
            value: histogramOf(metric.buckets, distribution),
          })),
        },
      ];
    const dataPoints = samples.map(({ labels, value }) => ({ ...times, attributes: labels, value }));
    return metric.kind === "counter"
      ? [{ ...shared, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints }]
      : [{ ...shared, dataPointType: DataPointType.GAUGE, dataPoints }];
  });
}

function histogramOf(bounds: readonly number[], { counts, sum, count }: Distribution): HistogramValue {
  // OTLP counts are whole numbers. The sum of rounded counts may differ from the rounded count.
  const whole = counts.map((each) => Math.round(each));
  return {
    buckets: { boundaries: [...bounds], counts: whole },
    sum,
    count: count === 0 ? 0 : whole.reduce((all, each) => all + each, 0),
  };
}
