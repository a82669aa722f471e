// /healthz: the process runs. /readyz: transactions can commit. /metrics: Prometheus text.
import { type FastifyInstance } from "fastify";
import { HighwaterError } from "@highwater/protocol";
import { type Gateway } from "../gateway.ts";

export function healthRoutes(app: FastifyInstance, gateway: Gateway): void {
  app.get("/healthz", () => ({ status: "ok" }));

  app.get("/readyz", () => {
    if (gateway.isStopping)
      throw new HighwaterError("overloaded", { detail: "The service is shutting down." });
    const { current: primaryEpoch } = gateway.primary;
    if (primaryEpoch === null) throw gateway.primary.refusal();
    if (gateway.scheduleFault !== null)
      throw new HighwaterError("primary_unavailable", { detail: gateway.scheduleFault });
    if (gateway.isBlind)
      throw new HighwaterError("marks_unavailable", {
        detail:
          "No reachable tracker receives the primary's positions, so safe transactions would not be confirmed.",
      });
    return { status: "ready", primary: primaryEpoch.node, epoch: primaryEpoch.epoch };
  });

  app.get("/metrics", (_request, reply) =>
    reply.header("content-type", "text/plain; version=0.0.4; charset=utf-8").send(gateway.metrics.render()),
  );
}
