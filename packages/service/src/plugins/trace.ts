// Starts a trace for every request, by the semantic conventions for HTTP. Without a tracer there
// are no hooks, and `request.trace` is null.
import { type FastifyInstance } from "fastify";
import { type Attributes, type RequestTrace, type Tracer } from "../telemetry/tracer.ts";

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
    if (trace !== null)
      endRequest(trace, { method, route: request.routeOptions.url, status: reply.statusCode }, () => ({
        "url.scheme": request.protocol,
        "url.path": pathOf(request.url),
        "user_agent.original": request.headers["user-agent"],
      }));
    done();
  });
}

/** Ends the server's span of a request, or of one of several that share it. */
export function endRequest(
  trace: RequestTrace,
  ended: { readonly method: string; readonly route: string | undefined; readonly status: number },
  more: () => Attributes = () => ({}),
): void {
  const { method, route, status } = ended;
  if (status >= SERVER_FAULT) trace.fail(String(status));
  trace.end(route === undefined ? method : `${method} ${route}`, () => ({
    "http.request.method": method,
    "http.route": route,
    "http.response.status_code": status,
    ...more(),
    ...(status >= SERVER_FAULT ? { "error.type": String(status) } : {}),
  }));
}

function pathOf(url: string): string {
  const end = url.indexOf("?");
  return end < 0 ? url : url.slice(0, end);
}
