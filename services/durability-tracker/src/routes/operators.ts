// What operators see beside the preview of a failover: the API keys, and the gateways' limits of
// exposure. Schema, call, map; no rules.
import { type FastifyInstance } from "fastify";
import { type ExposureLimits, HighwaterError, type KeyList } from "@highwater/protocol";
import { callerOf, requireScope } from "@highwater/service";
import { type GatewayLimits } from "../shell/gateway-limits.ts";
import { type KeyListing } from "../shell/key-listing.ts";

export interface OperatorRoutesDeps {
  readonly limits: GatewayLimits;
  /** Null where the tracker asks for no credential: anyone could read them. */
  readonly keys: KeyListing | null;
}

/** To be registered in a scope that knows its callers. */
export function operatorRoutes(scope: FastifyInstance, { limits, keys }: OperatorRoutesDeps): void {
  scope.get("/v1/keys", (request, reply): Promise<KeyList> => {
    requireScope(callerOf(request).principal, "admin");
    if (keys === null)
      throw new HighwaterError("forbidden", {
        detail:
          "This tracker asks for no credential (TRACKER_AUTH is none), so it lists no keys. Run `highwater keys list`.",
      });
    void reply.header("cache-control", "no-store");
    return keys.list();
  });

  scope.get("/v1/durability/exposure/limits", (request): ExposureLimits => {
    requireScope(callerOf(request).principal, "admin");
    return limits.list();
  });
}
