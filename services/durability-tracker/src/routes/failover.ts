// The preview of an election: what it would lose. Schema, call, map; no rules.
import { type FastifyInstance } from "fastify";
import { HighwaterError, validate } from "@highwater/protocol";
import { callerOf, requireScope } from "@highwater/service";
import { type TrackerState } from "../core/index.ts";
import { previewFailover } from "../failover/preview.ts";
import { type FailoverPreview, FailoverPreviewRequest } from "../failover/wire.ts";

export interface FailoverRoutesDeps {
  readonly state: () => TrackerState;
}

/** To be registered in a scope that knows its callers. */
export function registerFailoverRoutes(app: FastifyInstance, { state }: FailoverRoutesDeps): void {
  app.post("/v1/durability/failover-preview", (request): FailoverPreview => {
    const { principal } = callerOf(request);
    // The exposure of everybody is not for one owner to see. A service of the cluster sees all of
    // it anyway.
    if (principal.isService !== true) requireScope(principal, "admin");
    const checked = validate(FailoverPreviewRequest, request.body);
    if (!checked.ok)
      throw new HighwaterError("invalid_request", {
        detail: checked.faults.join("; "),
        fields: checked.faults,
      });
    return previewFailover(state(), checked.value);
  });
}
