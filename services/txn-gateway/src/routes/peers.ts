// What gateways ask each other. The edge does not show these calls to clients.
import { type FastifyInstance } from "fastify";
import { CancelRequest, type CancelResponse, HighwaterError, validate } from "@highwater/protocol";
import { callerOf } from "@highwater/service";
import { CANCELS_PATH } from "../wire/peers.ts";

export interface PeerContext {
  /** Callers prove themselves by HIGHWATER_INTERNAL_SECRET. */
  readonly onlyServices: boolean;
  readonly wire: { readonly cancels: { here(key: Buffer): Promise<boolean> } } | null;
}

/** More than the longest key needs. */
const BODY_BYTES_MAX = 1_024;

export function peerRoutes(scope: FastifyInstance, { onlyServices, wire }: PeerContext): void {
  scope.post(CANCELS_PATH, { bodyLimit: BODY_BYTES_MAX }, async (request): Promise<CancelResponse> => {
    // The client with the key could cancel anywhere; a caller that guesses keys must not.
    if (onlyServices && callerOf(request).principal.isService !== true)
      throw new HighwaterError(
        request.headers.authorization === undefined ? "unauthenticated" : "forbidden",
        {
          detail: "Only gateways may call this, with HIGHWATER_INTERNAL_SECRET.",
        },
      );
    const checked = validate(CancelRequest, request.body);
    if (!checked.ok)
      throw new HighwaterError("invalid_request", {
        detail: checked.faults.join("; "),
        fields: checked.faults,
      });
    return { found: (await wire?.cancels.here(Buffer.from(checked.value.key, "hex"))) ?? false };
  });
}
