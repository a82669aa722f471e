// Traces cost almost nothing until they are kept. A trace holds plain data, and spans are made from
// it after the request if the request is sampled or has failed. Failed and lost transactions are
// always traced.
import { ERRORS, type HighwaterError } from "@highwater/protocol";
import { type Sampling } from "./settings.ts";
import { parseTraceparent, randomHex, type SpanContext } from "./trace-context.ts";

type SpanKind = "server" | "client" | "internal";
export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** A finished span. Times are milliseconds of the monotonic clock. */
export interface FinishedSpan {
  readonly name: string;
  readonly kind: SpanKind;
  readonly context: SpanContext;
  readonly parentSpanId: string | undefined;
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Attributes;
  readonly links?: readonly SpanContext[];
  /** Null: no error. */
  readonly error: string | null;
}

export interface TracerOptions {
  readonly sampling: Sampling;
  readonly clock: { monotonicMs(): number };
  /** A random number, evenly distributed in [0, 1). */
  readonly random: () => number;
  readonly onSpan: (span: FinishedSpan) => void;
}

/** A flood of errors must not cost more than the work that fails. */
const ERRORS_PER_SECOND = 100;
const SECOND_MS = 1_000;
const TRACE_DIGITS = 32;
const SPAN_DIGITS = 16;

export class Tracer {
  readonly #options: TracerOptions;
  #errorsSinceMs = Number.NEGATIVE_INFINITY;
  #errors = 0;

  constructor(options: TracerOptions) {
    this.#options = options;
  }

  nowMs(): number {
    return this.#options.clock.monotonicMs();
  }

  newSpanId(): string {
    return randomHex(SPAN_DIGITS, this.#options.random);
  }

  /** Begins the trace of a request that has just arrived. */
  request(traceparent: unknown): RequestTrace {
    const parent = parseTraceparent(traceparent);
    const { sampling, random } = this.#options;
    const isSampled = sampling.parent && parent !== undefined ? parent.isSampled : random() < sampling.ratio;
    return new RequestTrace(this, parent, isSampled);
  }

  /** True when one more trace may be kept because of an error alone. */
  mayKeep(): boolean {
    const nowMs = this.nowMs();
    if (nowMs - this.#errorsSinceMs >= SECOND_MS) {
      this.#errorsSinceMs = nowMs;
      this.#errors = 0;
    }
    return this.#errors++ < ERRORS_PER_SECOND;
  }

  newTraceId(): string {
    return randomHex(TRACE_DIGITS, this.#options.random);
  }

  emit(span: FinishedSpan): void {
    this.#options.onSpan(span);
  }
}

/** A part of a request that adds spans once the request has ended, if its trace is kept. */
export interface TracePart {
  spans(): readonly FinishedSpan[];
}

export class RequestTrace {
  readonly tracer: Tracer;
  readonly startMs: number;
  readonly parent: SpanContext | undefined;
  readonly isSampled: boolean;
  #context: SpanContext | null = null;
  #parts: TracePart[] | null = null;
  #error: string | null = null;
  #isKept: boolean;
  #isOver = false;

  constructor(tracer: Tracer, parent: SpanContext | undefined, isSampled: boolean) {
    this.tracer = tracer;
    this.parent = parent;
    this.isSampled = isSampled;
    this.#isKept = isSampled;
    this.startMs = tracer.nowMs();
  }

  /** The context of the request's own span, made at the first use. */
  get context(): SpanContext {
    this.#context ??= {
      traceId: this.parent?.traceId ?? this.tracer.newTraceId(),
      spanId: this.tracer.newSpanId(),
      isSampled: this.isSampled,
    };
    return this.#context;
  }

  add(part: TracePart): void {
    (this.#parts ??= []).push(part);
  }

  /** Records an error, and keeps the trace because of it. */
  fail(error: string): void {
    this.#error ??= error;
    this.#isKept ||= this.tracer.mayKeep();
  }

  get isKept(): boolean {
    return this.#isKept;
  }

  /** The request is answered. If the trace is kept, its span has been emitted. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** The context of a new child of the request's span. */
  childContext(): SpanContext {
    const { traceId, isSampled } = this.context;
    return { traceId, spanId: this.tracer.newSpanId(), isSampled };
  }

  /** The request is answered. */
  end(name: string, attributes: () => Attributes): void {
    this.#isOver = true;
    if (!this.#isKept) return;
    this.tracer.emit({
      name,
      kind: "server",
      context: this.context,
      parentSpanId: this.parent?.spanId,
      startMs: this.startMs,
      endMs: this.tracer.nowMs(),
      attributes: attributes(),
      error: this.#error,
    });
    for (const part of this.#parts ?? []) for (const span of part.spans()) this.tracer.emit(span);
    this.#parts = null;
  }
}

/**
 * Refused callers, and requests for what does not exist: a flood of them is not a fault of the
 * service.
 */
const NOT_OURS: ReadonlySet<number> = new Set([401, 403, 404, 405, 429]);

/**
 * Keeps the trace because of the error, unless every client has to expect that error: a conflict or
 * a refusal.
 */
export function noteFailure(
  trace: RequestTrace | null | undefined,
  { code }: Pick<HighwaterError, "code">,
): void {
  if (trace === null || trace === undefined) return;
  const { status, retry } = ERRORS[code];
  if (retry !== "transaction" && !NOT_OURS.has(status)) trace.fail(code);
}

/** Fields of a log line, with the names that collectors expect. */
export function traceFields(trace: RequestTrace | null | undefined): Readonly<Record<string, string>> {
  if (trace === null || trace === undefined) return {};
  const { traceId, spanId, isSampled } = trace.context;
  return { trace_id: traceId, span_id: spanId, trace_flags: isSampled ? "01" : "00" };
}
