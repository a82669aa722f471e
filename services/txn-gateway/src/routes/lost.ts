// Brings lost transactions back: schema, call, map; no rules.
import { type FastifyInstance } from "fastify";
import { HighwaterError, ReplayRequest, type ReplayReport, validate } from "@highwater/protocol";
import { callerOf } from "@highwater/service";
import { type Gateway } from "../gateway.ts";

export function lostRoutes(app: FastifyInstance, { replay }: Pick<Gateway, "replay">): void {
  app.post("/v1/lost/replay", async (request, reply): Promise<ReplayReport> => {
    const checked = validate(ReplayRequest, request.body ?? {});
    if (!checked.ok)
      throw new HighwaterError("invalid_request", {
        detail: checked.faults.join("; "),
        fields: checked.faults,
      });
    void reply.header("cache-control", "no-store");
    return replay.run(checked.value, callerOf(request));
  });
}
