// Goal: telemetry is off until a destination is set, and the standard variables have their standard
// meaning.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readTelemetry } from "./settings.ts";

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" };

test("off, unless it is asked for", () => {
  assert.deepEqual(readTelemetry({}), { settings: null, faults: [] });
  assert.deepEqual(readTelemetry({ OTEL_TRACES_EXPORTER: "none", OTEL_SERVICE_NAME: "x" }).settings, null);
  assert.equal(readTelemetry({ ...ENDPOINT, OTEL_SDK_DISABLED: "TRUE" }).settings, null);
});

test("an endpoint turns on everything, but for what has none as its exporter", () => {
  const { settings, faults } = readTelemetry({ ...ENDPOINT, OTEL_LOGS_EXPORTER: "none" });
  assert.deepEqual(faults, []);
  assert.deepEqual(settings, {
    ...{ traces: true, metrics: true, logs: false, metricsEveryMs: 60_000 },
    sampling: { parent: true, ratio: 0.01 },
  });
  const one = readTelemetry({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://jaeger:4318/v1/traces" }).settings;
  assert.equal(one?.traces, true);
  assert.equal(one.metrics, false);
  assert.equal(readTelemetry({ OTEL_METRICS_EXPORTER: "otlp" }).settings?.metrics, true);
});

test("samplers by their standard names", () => {
  const sampling = (name: string, arg = "") =>
    readTelemetry({ ...ENDPOINT, OTEL_TRACES_SAMPLER: name, OTEL_TRACES_SAMPLER_ARG: arg }).settings
      ?.sampling;
  assert.deepEqual(sampling("always_on"), { parent: false, ratio: 1 });
  assert.deepEqual(sampling("parentbased_always_off"), { parent: true, ratio: 0 });
  assert.deepEqual(sampling("traceidratio", "0.25"), { parent: false, ratio: 0.25 });
  assert.deepEqual(sampling("parentbased_traceidratio"), { parent: true, ratio: 1 });
});

test("what cannot be done is refused, every fault at once and none of them with its value", () => {
  const { faults } = readTelemetry({
    ...ENDPOINT,
    OTEL_TRACES_EXPORTER: "zipkin",
    OTEL_TRACES_SAMPLER: "sometimes",
    OTEL_TRACES_SAMPLER_ARG: "2",
    OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
  });
  assert.deepEqual(faults, [
    "OTEL_TRACES_EXPORTER must be otlp or none",
    "OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf",
    "OTEL_TRACES_SAMPLER must be one of always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off, parentbased_traceidratio",
  ]);
});
