// Telemetry: traces, and the export of traces, metrics and logs by OTLP.
export { readTelemetry, TELEMETRY_VARIABLES } from "./settings.ts";
export { startTelemetry, type Telemetry } from "./telemetry.ts";
export { type SpanContext } from "./trace-context.ts";
export {
  type FinishedSpan,
  noteFailure,
  RequestTrace,
  traceFields,
  type TracePart,
  Tracer,
} from "./tracer.ts";
