/**
 * OpenTelemetry traces for a client. `tracing` creates an observer with the application's own
 * `@opentelemetry/api`; this package does not depend on it.
 *
 * The spans `highwater begin`, `highwater statements` and `highwater commit` are calls. Each is a
 * child of the span that is active when the call is made, and its context goes out with each
 * request. A wait for durability is a span `highwater durable`. It is a sibling of the commit's
 * span and linked to it, because the commit ends long before, and another part of the program may
 * wait.
 * @module
 */
import type { ObservedEvent, Observer } from "./observer.ts";

type Attributes = Record<string, string | number | undefined>;

/** The parts of `@opentelemetry/api` in use: `import * as api from "@opentelemetry/api"`. */
export interface OpenTelemetryApi<Context = unknown> {
  /** `api.trace`. */
  readonly trace: {
    getTracer(name: string): OpenTelemetryTracer<Context>;
    setSpan(context: Context, span: never): Context;
  };
  /** `api.context`. */
  readonly context: { active(): Context };
  /** `api.propagation`. */
  readonly propagation: { inject(context: Context, carrier: Record<string, string>): void };
  /** `api.ROOT_CONTEXT`. */
  readonly ROOT_CONTEXT: Context;
}

/** The part of a `Tracer` that is used. */
export interface OpenTelemetryTracer<Context = unknown> {
  /** Like `Tracer.startSpan` of `@opentelemetry/api`. */
  startSpan(name: string, options: never, context: Context): OpenTelemetrySpan;
}

/** The part of a `Span` that is used. */
export interface OpenTelemetrySpan {
  /** Like `Span.spanContext` of `@opentelemetry/api`. */
  spanContext(): unknown;
  /** Like `Span.setAttributes` of `@opentelemetry/api`. */
  setAttributes(attributes: Record<string, string | number | undefined>): unknown;
  /** Like `Span.addEvent` of `@opentelemetry/api`. */
  addEvent(name: string, attributes: Record<string, string | number | undefined>): unknown;
  /** Like `Span.setStatus` of `@opentelemetry/api`. */
  setStatus(status: { code: 2; message?: string }): unknown;
  /** Like `Span.end` of `@opentelemetry/api`. */
  end(time?: number): void;
}

/** Options of `tracing`. */
export interface TracingOptions<Context> {
  /** The OpenTelemetry API: `import * as api from "@opentelemetry/api"`. */
  readonly api: OpenTelemetryApi<Context>;
  /** Tracer to use. Default: `api.trace.getTracer("highwater")`. */
  readonly tracer?: OpenTelemetryTracer<Context>;
  /** Clock in milliseconds since 1970, for tests. Default: `Date.now`. */
  readonly now?: () => number;
}

/** Number of commits remembered for the spans of their waits; the oldest are forgotten first. */
const COMMITS_MAX = 10_000;
/** Constants of the API: the span kind CLIENT and the status ERROR. */
const CLIENT = 2;
const ERROR = 2;

/**
 * Creates an observer that makes spans: `new Highwater({ url, observe: tracing({ api }) })`. Failed
 * calls, losses and broken promises have the status ERROR, with the error's code. Spans contain
 * neither values nor statement text.
 *
 * @example
 * ```ts
 * const traced = new Highwater({ url: "https://highwater.example", observe: tracing({ api }) });
 * const tx = await traced.transaction(sql`SELECT 1`); // span "highwater commit"
 * await tx.durable(); // span "highwater durable", linked to it
 * await traced.close();
 * ```
 */
export function tracing<Context>(options: TracingOptions<Context>): Observer {
  const { api, tracer = api.trace.getTracer("highwater"), now = Date.now } = options;
  const commits = new Map<string, { link: unknown; parent: Context }>();
  const calls = new Map<string, OpenTelemetrySpan>();
  const start = (name: string, given: object, parent: Context): OpenTelemetrySpan =>
    tracer.startSpan(`highwater ${name}`, given as never, parent);

  const call = (event: ObservedEvent, id: string): ReturnType<Observer> => {
    const parent = api.context.active();
    const attributes = { ...about(event), "highwater.statements": event.statements };
    const span = start(event.type, { kind: CLIENT, attributes }, parent);
    api.propagation.inject(api.trace.setSpan(parent, span as never), event.headers ?? {});
    calls.set(id, span);
    if (event.type === "commit") {
      commits.delete(id);
      commits.set(id, { link: span.spanContext(), parent });
      const [oldest] = commits.keys();
      if (commits.size > COMMITS_MAX && oldest !== undefined) commits.delete(oldest);
    }
    return ({ state, error }) => {
      if (calls.get(id) === span) calls.delete(id);
      span.setAttributes({ "highwater.state": state });
      fail(span, error);
      span.end();
    };
  };

  const waited = (event: ObservedEvent, id: string): void => {
    const commit = commits.get(id);
    const endMs = now();
    const attributes = { ...about(event), "highwater.outcome": event.type };
    const links = commit === undefined ? [] : [{ context: commit.link }];
    const startTime = endMs - (event.waitedMs ?? 0);
    const span = start("durable", { attributes, links, startTime }, commit?.parent ?? api.ROOT_CONTEXT);
    if (event.type === "lost" || event.type === "broken")
      span.setStatus({ code: ERROR, message: event.type });
    fail(span, event.error);
    span.end(endMs);
  };

  return (event) => {
    const { type, id = "" } = event;
    if (type === "begin" || type === "statements" || type === "commit") return call(event, id);
    if (type === "durable" || type === "lost" || type === "broken" || type === "timeout") waited(event, id);
    else if (type === "retry")
      calls.get(id)?.addEvent("retry", { "highwater.attempt": event.attempt, ...errorOf(event.error) });
    return undefined;
  };
}

function about({ id, level, verdict }: ObservedEvent): Attributes {
  return {
    "db.system.name": "postgresql",
    "highwater.transaction.id": id,
    "highwater.level": level,
    "highwater.rule": verdict?.rule,
  };
}

function errorOf(error: unknown): Attributes {
  const { code, outcome, sqlstate, name } = (error ?? {}) as Record<string, string | undefined>;
  return {
    "error.type": code ?? name,
    "highwater.error.outcome": outcome,
    "db.response.status_code": sqlstate,
  };
}

function fail(span: OpenTelemetrySpan, error: unknown): void {
  if (error === undefined) return;
  const attributes = errorOf(error);
  span.setAttributes(attributes);
  // Not the error's message: PostgreSQL quotes values in its own.
  span.setStatus({ code: ERROR, message: String(attributes["error.type"]) });
}
