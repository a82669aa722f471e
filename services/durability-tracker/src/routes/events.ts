// GET /v1/durability/events: the caller, the query, the call; no rules.
import { type FastifyInstance } from "fastify";
import { callerOf, requireScope, responseOf } from "@highwater/service";
import { type DurabilityEvents } from "../events/durability-events.ts";
import { readEventsQuery } from "../events/query.ts";

export interface EventContext {
  readonly events: DurabilityEvents;
  /** Names of the levels that are configured now, weakest first. */
  readonly levels: () => readonly string[];
}

/** In a scope that knows its callers as those of streams. */
export function eventRoutes(scope: FastifyInstance, { events, levels }: EventContext): void {
  // Without HEAD: a stream has no end that it could wait for.
  scope.get("/v1/durability/events", { exposeHeadRoute: false }, async (request, reply) => {
    const { principal } = callerOf(request);
    requireScope(principal, "read");
    const { accept, "last-event-id": lastEventId } = request.headers;
    const query = readEventsQuery({
      query: request.query as Record<string, string | string[]>,
      lastEventId: Array.isArray(lastEventId) ? lastEventId.at(-1) : lastEventId,
      accept,
      levels: levels(),
    });
    const viewer = { id: principal.id, owner: principal.isEveryOwner === true ? null : principal.owner };
    if (query.format === "page")
      return reply.header("cache-control", "no-store").send(await events.page(viewer, query));
    events.listen(responseOf(reply), viewer, query);
    return reply.hijack();
  });
}
