// The only file that uses OpenTelemetry's SDK; it is loaded only if telemetry is on. The library
// owns batches, exporters and their variables. We own what a span, a metric or a log record
// contains.
import { type AnyValueMap, SeverityNumber } from "@opentelemetry/api-logs";
import { OTLPLogExporter } from "@opentelemetry/exporter-logs-otlp-proto";
import { OTLPMetricExporter } from "@opentelemetry/exporter-metrics-otlp-proto";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
} from "@opentelemetry/resources";
import { type Resource } from "@opentelemetry/resources";
import { BatchLogRecordProcessor, LoggerProvider } from "@opentelemetry/sdk-logs";
import {
  type CollectionResult,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import { BatchSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { ROOT_CONTEXT, trace, TraceFlags } from "@opentelemetry/api";
import { type Clock } from "@highwater/runtime";
import { type LogEntry } from "../log.ts";
import { type Family } from "../metrics/family.ts";
import { type ServiceIdentity } from "../metrics/process.ts";
import { toMetricData } from "./otlp-metrics.ts";
import { toHrTime, toReadableSpan } from "./otlp-spans.ts";
import { type TelemetrySettings } from "./settings.ts";
import { type FinishedSpan } from "./tracer.ts";

const SCOPE = { name: "highwater" };
/** If the wall clock changes by less, spans keep their origin, so that a trace has one origin. */
const ORIGIN_TOLERANCE_MS = 20;
const EXPORT_TIMEOUT_MS = 30_000;
const SEVERITIES = {
  info: SeverityNumber.INFO,
  warn: SeverityNumber.WARN,
  error: SeverityNumber.ERROR,
} as const;

export interface ExporterOptions {
  readonly service: string;
  readonly identity: Pick<ServiceIdentity, "name" | "region">;
  readonly clock: Clock;
}

export interface Exporters {
  readonly onSpan: (span: FinishedSpan) => void;
  readonly onLog: ((entry: LogEntry) => void) | null;
  /** Exports the rest. */
  readonly close: () => Promise<void>;
}

export function makeExporters(
  settings: TelemetrySettings,
  { service, identity, clock }: ExporterOptions,
  families: () => readonly Family[],
): Exporters {
  const resource = defaultResource()
    .merge(
      resourceFromAttributes({
        "service.name": service,
        "service.namespace": "highwater",
        "service.instance.id": identity.name,
        "cloud.region": identity.region,
      }),
    )
    // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence.
    .merge(detectResources({ detectors: [envDetector] }));
  const closing: (() => Promise<void>)[] = [];
  let originMs = clock.wallMs() - clock.monotonicMs();
  const origin = (): number => {
    const now = clock.wallMs() - clock.monotonicMs();
    if (Math.abs(now - originMs) > ORIGIN_TOLERANCE_MS) originMs = now;
    return originMs;
  };
  if (settings.metrics) closing.push(exportMetrics(resource, families, clock, settings.metricsEveryMs));
  return {
    onSpan: settings.traces ? exportSpans(resource, origin, closing) : () => undefined,
    onLog: settings.logs ? exportLogs(resource, closing) : null,
    close: async () => {
      // A missing collector must not make the shutdown fail.
      await Promise.allSettled(closing.map((close) => close()));
    },
  };
}

function exportSpans(
  resource: Resource,
  origin: () => number,
  closing: (() => Promise<void>)[],
): (span: FinishedSpan) => void {
  const processor = new BatchSpanProcessor(new OTLPTraceExporter());
  closing.push(() => processor.shutdown());
  return (span) => {
    processor.onEnd(toReadableSpan(span, { resource, instrumentationScope: SCOPE, originMs: origin() }));
  };
}

function exportMetrics(
  resource: Resource,
  families: () => readonly Family[],
  clock: Clock,
  everyMs: number,
): () => Promise<void> {
  const startTime = toHrTime(clock.wallMs());
  const collect = (): Promise<CollectionResult> => {
    const metrics = toMetricData(families(), { startTime, endTime: toHrTime(clock.wallMs()) });
    return Promise.resolve({
      resourceMetrics: { resource, scopeMetrics: [{ scope: SCOPE, metrics }] },
      errors: [],
    });
  };
  const reader = new PeriodicExportingMetricReader({
    exporter: new OTLPMetricExporter(),
    metricProducers: [{ collect }],
    exportIntervalMillis: everyMs,
    exportTimeoutMillis: Math.min(everyMs, EXPORT_TIMEOUT_MS),
  });
  const provider = new MeterProvider({ resource, readers: [reader] });
  return () => provider.shutdown();
}

function exportLogs(resource: Resource, closing: (() => Promise<void>)[]): (entry: LogEntry) => void {
  const processor = new BatchLogRecordProcessor({ exporter: new OTLPLogExporter() });
  const provider = new LoggerProvider({ resource, processors: [processor] });
  const logger = provider.getLogger(SCOPE.name);
  closing.push(() => provider.shutdown());
  return ({ timeMs, level, event, fields }) => {
    const { trace_id: traceId, span_id: spanId, trace_flags: _, ...attributes } = fields;
    const context =
      typeof traceId === "string" && typeof spanId === "string"
        ? trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: TraceFlags.SAMPLED })
        : ROOT_CONTEXT;
    logger.emit({
      timestamp: timeMs,
      severityNumber: SEVERITIES[level],
      severityText: level.toUpperCase(),
      eventName: event,
      body: event,
      attributes: attributes as AnyValueMap,
      context,
    });
  };
}
