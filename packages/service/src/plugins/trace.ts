// Starts a trace for every request, by the semantic conventions for HTTP. Without a tracer there
// are no hooks, and `request.trace` is null.
import { type FastifyInstance } from "fastify";
import { type RequestTrace, type Tracer } from "../telemetry/tracer.ts";

declare module "fastify" {
  interface FastifyRequest {
    trace: RequestTrace | null;
  }
}

/** Machines ask for these all the time, and they belong to no transaction. */
const UNTRACED = /^\/(?:healthz|readyz|metrics|internal\/)/;
const SERVER_FAULT = 500;

export function installTracing(app: FastifyInstance, tracer: Tracer | undefined): void {
  app.decorateRequest("trace", null);
  if (tracer === undefined) return;
  app.addHook("onRequest", (request, _reply, done) => {
    if (!UNTRACED.test(request.url)) request.trace = tracer.request(request.headers.traceparent);
    done();
  });
  app.addHook("onResponse", (request, reply, done) => {
    const { trace, method } = request;
    if (trace !== null) {
      const { statusCode } = reply;
      if (statusCode >= SERVER_FAULT) trace.fail(String(statusCode));
      const route = request.routeOptions.url;
      trace.end(route === undefined ? method : `${method} ${route}`, () => ({
        "http.request.method": method,
        "http.route": route,
        "url.scheme": request.protocol,
        "url.path": pathOf(request.url),
        "http.response.status_code": statusCode,
        "user_agent.original": request.headers["user-agent"],
        ...(statusCode >= SERVER_FAULT ? { "error.type": String(statusCode) } : {}),
      }));
    }
    done();
  });
}

function pathOf(url: string): string {
  const end = url.indexOf("?");
  return end < 0 ? url : url.slice(0, end);
}
