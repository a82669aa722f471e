// Every request of the routes in this scope has a caller, before its body is read.
import { type FastifyInstance, type FastifyRequest } from "fastify";
import { type Callers } from "../callers.ts";
import { type Caller } from "../caller.ts";

const callers = new WeakMap<FastifyRequest, Caller>();

export function installCallers(scope: FastifyInstance, known: Callers): void {
  scope.addHook("onRequest", (request, reply, done) => {
    known.enter(request.headers.authorization, reply.raw).then((caller) => {
      callers.set(request, caller);
      done();
    }, done);
  });
}

export function callerOf(request: FastifyRequest): Caller {
  const caller = callers.get(request);
  if (caller === undefined) throw new Error("the route is outside the scope that knows its callers");
  return caller;
}
