// Routes alone, with callers that have one owner and one scope each.
import { type FastifyInstance } from "fastify";
import { FakeClock } from "@highwater/runtime/testing";
import {
  Admission,
  ANYBODY,
  type Authenticator,
  Callers,
  installCallers,
  makeServer,
  type Scope,
} from "@highwater/service";
import { MemoryLog } from "@highwater/service/testing";

export const OWNER = 7n;

/** The credential of a request is the scope that it has. */
export const byScope: Authenticator = {
  authenticate: (authorization) =>
    Promise.resolve({
      id: "k",
      owner: OWNER,
      role: null,
      scopes: new Set([authorization as Scope]),
      limits: ANYBODY.limits,
    }),
  start: () => undefined,
  stop: () => undefined,
};

export function appWith(
  addRoutes: (scope: FastifyInstance) => void,
  { authenticator = byScope, clock = new FakeClock() } = {},
): FastifyInstance {
  const app = makeServer({ bodyLimitBytes: 1_000, log: new MemoryLog() });
  const defaults = { ratePerSecond: null, burst: null, concurrency: null };
  void app.register((scope, _options, done) => {
    const admission = new Admission({ clock, defaults });
    installCallers(scope, new Callers({ authenticator, admission, clock, onRefused: () => undefined }));
    addRoutes(scope);
    done();
  });
  return app;
}
