// Goal: OTLP exports the same names, values, buckets and labels that Prometheus reads.
import assert from "node:assert/strict";
import { test } from "node:test";
import { AggregationTemporality, DataPointType } from "@opentelemetry/sdk-metrics";
import { counter, gauge, histogram } from "../metrics/definition.ts";
import { MetricSet } from "../metrics/registry.ts";
import { toMetricData } from "./otlp-metrics.ts";
import { toHrTime } from "./otlp-spans.ts";

const about = { help: "A thing.", question: "How is it?" };
const TIMES = { startTime: toHrTime(1_000), endTime: toHrTime(61_000.25) };

test("each kind of metric in its own shape, and nothing for what has nothing to say", () => {
  const set = new MetricSet();
  set.counter(counter("calls_total", { ...about, labels: { how: "a word" } })).addMany(3, "well");
  set.read(gauge("load_bytes", { ...about, unit: "bytes" }), () => 0.5);
  set.read(gauge("silent", about), () => null);
  const waits = set.histogram(histogram("wait_seconds", { ...about, unit: "seconds", buckets: [1, 2] }));
  // Three observations stand for ten, so the counts are not whole numbers.
  for (const value of [0.5, 1.5, 9]) waits.at().observe(value, 10 / 3);
  const [calls, load, wait, ...others] = toMetricData(set.collect(), TIMES);
  assert.deepEqual(others, []);
  assert.equal(calls?.dataPointType, DataPointType.SUM);
  assert.ok(calls.isMonotonic);
  assert.equal(calls.aggregationTemporality, AggregationTemporality.CUMULATIVE);
  assert.deepEqual(calls.dataPoints, [{ ...TIMES, attributes: { how: "well" }, value: 3 }]);
  assert.equal(load?.dataPointType, DataPointType.GAUGE);
  assert.equal(load.descriptor.unit, "By");
  assert.deepEqual(load.dataPoints[0]?.value, 0.5);
  assert.equal(wait?.dataPointType, DataPointType.HISTOGRAM);
  assert.equal(wait.descriptor.unit, "s");
  const { buckets, count } = wait.dataPoints[0]?.value ?? assert.fail();
  assert.deepEqual(buckets, { boundaries: [1, 2], counts: [3, 3, 3] });
  assert.equal(count, 9, "the sum of the buckets, as OTLP demands");
});

test("times keep their fractions", () => {
  assert.deepEqual(toHrTime(61_000.25), [61, 250_000]);
  assert.deepEqual(toHrTime(1_795_302_859_085.5), [1_795_302_859, 85_500_000]);
});
