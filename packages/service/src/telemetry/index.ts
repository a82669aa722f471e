// Telemetry: traces, and the way of traces, metrics and logs out of the process by OTLP.
export { readTelemetry, type Sampling, TELEMETRY_VARIABLES, type TelemetrySettings } from "./settings.ts";
export { startTelemetry, type Telemetry, type TelemetryOptions } from "./telemetry.ts";
export { formatTraceparent, parseTraceparent, type SpanContext } from "./trace-context.ts";
export {
  type FinishedSpan,
  noteFailure,
  RequestTrace,
  traceFields,
  type TracePart,
  Tracer,
} from "./tracer.ts";
