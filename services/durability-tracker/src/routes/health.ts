// /healthz: the process runs. /readyz: it follows an authoritative primary. /metrics: Prometheus
// text.
import { type FastifyInstance } from "fastify";
import { HighwaterError } from "@highwater/protocol";
import { levelNames, type TrackerState, whyNotSynchronous } from "../core/index.ts";
import { type TrackerLoop } from "../shell/loop.ts";

export interface HealthContext {
  readonly loop: TrackerLoop;
  readonly isStopping: () => boolean;
  /** Why it must not work with its keys; null while they are those of the other services. */
  readonly scheduleFault: () => string | null;
  readonly metrics: () => string;
}

export function healthRoutes(
  app: FastifyInstance,
  { loop, isStopping, scheduleFault, metrics }: HealthContext,
): void {
  app.get("/healthz", () => ({ status: "ok" }));

  app.get("/readyz", () => {
    if (isStopping()) throw new HighwaterError("overloaded", { detail: "The service is shutting down." });
    const { standing } = loop.state.topology;
    if (standing.kind === "following" && loop.sight.isBlind)
      throw new HighwaterError("primary_unavailable", {
        detail: `${standing.node} has not answered for ${String(Math.round(loop.sight.unansweredMs))} ms; check this tracker's connection to it, and its role.`,
      });
    const fault = scheduleFault();
    if (standing.kind === "following" && fault !== null)
      throw new HighwaterError("primary_unavailable", { detail: fault });
    if (standing.kind === "following")
      return { status: "ready", primary: standing.node, epoch: standing.epoch, ...waiting(loop.state) };
    throw new HighwaterError(standing.split ? "split_brain" : "primary_unavailable", {
      detail: standing.reason,
    });
  });

  app.get("/metrics", (_request, reply) =>
    reply.header("content-type", "text/plain; version=0.0.4; charset=utf-8").send(metrics()),
  );
}

/**
 * Levels that nothing can reach until the HA manager has its synchronous standbys, each with the
 * reason.
 */
function waiting(state: TrackerState): { readonly waiting?: Readonly<Record<string, string>> } {
  const reasons = levelNames(state).flatMap((level) => {
    const reason = whyNotSynchronous(state, level);
    return reason === null ? [] : [[level, reason] as const];
  });
  return reasons.length === 0 ? {} : { waiting: Object.fromEntries(reasons) };
}
