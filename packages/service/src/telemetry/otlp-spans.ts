// Turns finished spans into the form that OpenTelemetry's batch processor and exporters take.
import { type HrTime, SpanKind, SpanStatusCode, TraceFlags } from "@opentelemetry/api";
import { type InstrumentationScope } from "@opentelemetry/core";
import { type Resource } from "@opentelemetry/resources";
import { type ReadableSpan } from "@opentelemetry/sdk-trace-base";
import { type SpanContext } from "./trace-context.ts";
import { type FinishedSpan } from "./tracer.ts";

const KINDS = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL };
const MS = 1_000;
const NANOSECONDS_PER_MS = 1e6;

export function toHrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / MS);
  return [seconds, Math.round((ms - seconds * MS) * NANOSECONDS_PER_MS)];
}

export interface SpanSurroundings {
  readonly resource: Resource;
  readonly instrumentationScope: InstrumentationScope;
  /** Wall-clock time at 0 of the monotonic clock, in milliseconds since 1970. */
  readonly originMs: number;
}

export function toReadableSpan(span: FinishedSpan, around: SpanSurroundings): ReadableSpan {
  const { name, kind, context, parentSpanId, startMs, endMs, attributes, links = [], error } = span;
  const { originMs, resource, instrumentationScope } = around;
  // Every span that gets here is exported, whatever the first sampling decision was.
  const own = { traceId: context.traceId, spanId: context.spanId, traceFlags: TraceFlags.SAMPLED };
  return {
    name,
    kind: KINDS[kind],
    resource,
    instrumentationScope,
    spanContext: () => own,
    ...(parentSpanId === undefined
      ? {}
      : { parentSpanContext: { ...own, spanId: parentSpanId, isRemote: kind === "server" } }),
    startTime: toHrTime(originMs + startMs),
    endTime: toHrTime(originMs + endMs),
    duration: toHrTime(Math.max(0, endMs - startMs)),
    ended: true,
    status: error === null ? { code: SpanStatusCode.UNSET } : { code: SpanStatusCode.ERROR, message: error },
    attributes: Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined)),
    links: links.map((link) => ({ context: linkedTo(link) })),
    events: [],
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

function linkedTo({ traceId, spanId }: SpanContext): ReturnType<ReadableSpan["spanContext"]> {
  return { traceId, spanId, traceFlags: TraceFlags.SAMPLED };
}
