// Telemetry: traces, and the way of traces, metrics and logs out of the process by OTLP.
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
