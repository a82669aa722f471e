// Gives every request in a scope its caller before the body is read.
import { type FastifyInstance, type FastifyRequest } from "fastify";
import { type Caller } from "../caller.ts";
import { type Callers } from "../callers.ts";

const callers = new WeakMap<FastifyRequest, Caller>();

/** `stream`: answers in this scope are streams, which may last for hours. */
export function installCallers(
  scope: FastifyInstance,
  known: Callers,
  kind: "request" | "stream" = "request",
): void {
  scope.addHook("onRequest", (request, reply, done) => {
    const { authorization } = request.headers;
    const entering =
      kind === "stream" ? known.enterStream(authorization, reply.raw) : known.enter(authorization, reply.raw);
    entering.then((caller) => {
      callers.set(request, traced(caller, request));
      done();
    }, done);
  });
}

/** The caller with the request's trace, if the request is traced. */
export function traced(caller: Caller, { trace }: Pick<FastifyRequest, "trace">): Caller {
  return trace === null ? caller : { ...caller, trace };
}

export function callerOf(request: FastifyRequest): Caller {
  const caller = callers.get(request);
  if (caller === undefined) throw new Error("the route does not authenticate its callers");
  return caller;
}
