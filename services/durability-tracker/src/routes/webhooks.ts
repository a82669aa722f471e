// /v1/webhooks: schema, call, map; no rules.
import { type FastifyInstance, type FastifyRequest } from "fastify";
import {
  type CreatedWebhook,
  type DeliveryDetails,
  type DeliveryList,
  DeliveryStatus,
  HighwaterError,
  NewWebhook,
  type RecoverResponse,
  RecoverRequest,
  RotateRequest,
  type Static,
  type TSchema,
  validate,
  type Webhook,
  WEBHOOK_LIMITS,
  WebhookChange,
  type WebhookDelivery,
  type WebhookList,
  type WebhookSecret,
} from "@highwater/protocol";
import { callerOf, requireScope } from "@highwater/service";
import { OwnerTurns } from "../shell/owner-turns.ts";
import { type EndpointId, type WebhookAdmin } from "../webhooks/admin.ts";

export interface WebhookRoutesDeps {
  readonly admin: WebhookAdmin;
}

/** The calls of all owners and the deliveries share a few connections, so an owner's take turns. */
type InTurn = <T>(request: FastifyRequest, call: () => Promise<T>) => Promise<T>;

/** Register it in a scope that knows its callers. */
export function registerWebhookRoutes(app: FastifyInstance, { admin }: WebhookRoutesDeps): void {
  const turns = new OwnerTurns({ limit: "webhookCalls", calls: "calls about webhooks" });
  const inTurn: InTurn = (request, call) => turns.take(ownerOf(request), call);
  app.post("/v1/webhooks", async (request, reply): Promise<CreatedWebhook> => {
    const owner = ownerOf(request);
    const asked = bodyOf(request, NewWebhook);
    const made = await inTurn(request, () => admin.create(owner, asked, byOf(request)));
    void reply.code(201).header("location", `/v1/webhooks/${made.id}`).header("cache-control", "no-store");
    return made;
  });
  app.get("/v1/webhooks", async (request): Promise<WebhookList> => {
    const owner = ownerOf(request);
    return { webhooks: await inTurn(request, () => admin.list(owner)) };
  });
  app.get("/v1/webhooks/:id", (request): Promise<Webhook> => {
    const endpoint = endpointOf(request);
    return inTurn(request, () => admin.read(endpoint));
  });
  app.patch("/v1/webhooks/:id", (request): Promise<Webhook> => {
    const endpoint = endpointOf(request);
    const asked = bodyOf(request, WebhookChange);
    return inTurn(request, () => admin.change(endpoint, asked, byOf(request)));
  });
  app.delete("/v1/webhooks/:id", async (request, reply) => {
    const endpoint = endpointOf(request);
    await inTurn(request, () => admin.remove(endpoint, byOf(request)));
    return reply.code(204).send();
  });
  secretRoutes(app, admin, inTurn);
  deliveryRoutes(app, admin, inTurn);
}

function secretRoutes(app: FastifyInstance, admin: WebhookAdmin, inTurn: InTurn): void {
  app.get("/v1/webhooks/:id/secret", async (request, reply): Promise<WebhookSecret> => {
    void reply.header("cache-control", "no-store");
    const endpoint = endpointOf(request);
    return inTurn(request, () => admin.secret(endpoint));
  });
  app.post("/v1/webhooks/:id/secret/rotate", async (request, reply): Promise<WebhookSecret> => {
    const endpoint = endpointOf(request);
    const { overlapSeconds } = bodyOf(request, RotateRequest, {});
    void reply.header("cache-control", "no-store");
    return inTurn(request, () => admin.rotate(endpoint, overlapSeconds, byOf(request)));
  });
}

function deliveryRoutes(app: FastifyInstance, admin: WebhookAdmin, inTurn: InTurn): void {
  app.post("/v1/webhooks/:id/test", async (request, reply): Promise<WebhookDelivery> => {
    void reply.code(202);
    const endpoint = endpointOf(request);
    return inTurn(request, () => admin.test(endpoint));
  });
  app.post("/v1/webhooks/:id/recover", (request): Promise<RecoverResponse> => {
    const endpoint = endpointOf(request);
    const { since } = bodyOf(request, RecoverRequest);
    const sinceMs = Date.parse(since);
    if (Number.isNaN(sinceMs)) throw invalid(["/since: must be an RFC 3339 time"]);
    return inTurn(request, () => admin.recover(endpoint, sinceMs));
  });
  app.get("/v1/webhooks/:id/deliveries", (request): Promise<DeliveryList> => {
    const endpoint = endpointOf(request);
    const page = pageOf(request.query);
    return inTurn(request, () => admin.deliveries(endpoint, page));
  });
  app.get("/v1/webhooks/:id/deliveries/:delivery", (request): Promise<DeliveryDetails> => {
    const endpoint = endpointOf(request);
    const delivery = parameter(request, "delivery");
    return inTurn(request, () => admin.delivery(endpoint, delivery));
  });
  app.post(
    "/v1/webhooks/:id/deliveries/:delivery/redeliver",
    async (request, reply): Promise<WebhookDelivery> => {
      void reply.code(202);
      const endpoint = endpointOf(request);
      const delivery = parameter(request, "delivery");
      return inTurn(request, () => admin.redeliver(endpoint, delivery));
    },
  );
}

function ownerOf(request: FastifyRequest): bigint {
  const { principal } = callerOf(request);
  requireScope(principal, "webhooks");
  return principal.owner;
}

/** The id of a key, the subject of a token, or `anonymous`. */
function byOf(request: FastifyRequest): string {
  return callerOf(request).principal.id;
}

function endpointOf(request: FastifyRequest): EndpointId {
  return { owner: ownerOf(request), id: parameter(request, "id") };
}

/** An id that the database could not compare cannot exist. */
function parameter(request: FastifyRequest, name: "id" | "delivery"): string {
  const value = (request.params as Readonly<Record<string, string | undefined>>)[name] ?? "";
  if (!/^[A-Za-z0-9_-]{1,100}$/.test(value)) throw new HighwaterError("not_found");
  return value;
}

function bodyOf<T extends TSchema>(request: FastifyRequest, schema: T, absent?: Static<T>): Static<T> {
  const body = request.body === undefined ? absent : request.body;
  const checked = validate(schema, body);
  if (!checked.ok) throw invalid(checked.faults);
  return checked.value;
}

const CURSOR = /^[1-9][0-9]{0,17}$/;

function pageOf(query: unknown): { status: DeliveryStatus | null; before: string | null; limit: number } {
  const { status, before, limit, ...others } = query as Readonly<
    Record<string, string | string[] | undefined>
  >;
  const faults = Object.keys(others).map((name) => `/${name}: is not a known parameter`);
  const wanted = status === undefined ? null : validate(DeliveryStatus, status);
  if (wanted?.ok === false) faults.push("/status: is not a delivery status");
  if (before !== undefined && (typeof before !== "string" || !CURSOR.test(before)))
    faults.push("/before: must be `next` of another page");
  const most = WEBHOOK_LIMITS.deliveriesPerPage;
  const many =
    limit === undefined ? most : typeof limit === "string" && /^[0-9]{1,6}$/.test(limit) ? Number(limit) : 0;
  if (many < 1 || many > most) faults.push(`/limit: must be a whole number from 1 to ${String(most)}`);
  if (faults.length > 0) throw invalid(faults);
  return {
    status: wanted?.ok === true ? wanted.value : null,
    before: typeof before === "string" ? before : null,
    limit: many,
  };
}

function invalid(faults: readonly string[]): HighwaterError {
  return new HighwaterError("invalid_request", { detail: faults.join("; "), fields: [...faults] });
}
