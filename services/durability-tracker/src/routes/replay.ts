// Passes a replay on to a gateway: the console's page may call no other origin than its tracker's.
// The tracker checks the caller; the gateway checks the same credential again, and acts with it.
import { type FastifyInstance } from "fastify";
import { HighwaterError, ReplayRequest, validate } from "@highwater/protocol";
import { callerOf, requireScope } from "@highwater/service";

/** What of the gateway's answer goes to the caller. */
const HEADERS = ["content-type", "retry-after"] as const;

/** To be registered in a scope that knows its callers. `gateways`: base URLs, nearest first. */
export function replayRoutes(
  scope: FastifyInstance,
  { gateways }: { readonly gateways: readonly string[] },
): void {
  scope.post("/v1/lost/replay", async (request, reply) => {
    requireScope(callerOf(request).principal, "contents:replay");
    const checked = validate(ReplayRequest, request.body ?? {});
    if (!checked.ok)
      throw new HighwaterError("invalid_request", {
        detail: checked.faults.join("; "),
        fields: checked.faults,
      });
    const { authorization } = request.headers;
    const answer = await firstAnswer(gateways, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(authorization !== undefined && { authorization }),
      },
      body: JSON.stringify(checked.value),
      redirect: "error",
    });
    for (const name of HEADERS) {
      const value = answer.headers.get(name);
      if (value !== null) void reply.header(name, value);
    }
    return reply
      .code(answer.status)
      .header("cache-control", "no-store")
      .send(await answer.text());
  });
}

/** The next gateway is asked where one does not answer. A replay takes effect once all the same. */
async function firstAnswer(gateways: readonly string[], init: RequestInit): Promise<Response> {
  if (gateways.length === 0)
    throw new HighwaterError("keep_unavailable", {
      detail: "This tracker has no TRACKER_GATEWAYS. Send the call to a gateway.",
    });
  const faults: unknown[] = [];
  for (const gateway of gateways) {
    try {
      return await fetch(`${gateway}/v1/lost/replay`, init);
    } catch (cause) {
      faults.push(cause);
    }
  }
  throw new HighwaterError(
    "primary_unavailable",
    { detail: "No gateway of TRACKER_GATEWAYS answers.", retryAfterMs: 1_000 },
    { cause: new AggregateError(faults) },
  );
}
