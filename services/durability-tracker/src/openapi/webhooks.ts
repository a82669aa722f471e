// Documents the calls that manage webhooks.
import Type from "typebox";
import {
  CreatedWebhook,
  DeliveryDetails,
  DeliveryList,
  DeliveryStatus,
  type ErrorCode,
  NewWebhook,
  RecoverResponse,
  RecoverRequest,
  RotateRequest,
  Webhook,
  WEBHOOK_LIMITS,
  WebhookChange,
  WebhookDelivery,
  WebhookList,
  WebhookMessage,
  WebhookSecret,
} from "@highwater/protocol";
import { BODY_ERRORS, CALLER_ERRORS, type Message, type Operation, type Parameter } from "@highwater/service";
import { SAMPLE } from "./sample.ts";

const shared = { tag: "webhooks", security: ["bearer"], errorShape: "problem" } as const;
const SCOPE = "Needs the scope `webhooks`.";
/** The endpoints are in the database, so every call needs the primary. */
const ERRORS: readonly ErrorCode[] = [
  ...CALLER_ERRORS,
  "primary_unavailable",
  "epoch_changed",
  "split_brain",
];
/** An id that is too long cannot exist and is refused without a look-up. */
const OF_ONE: readonly ErrorCode[] = [...ERRORS, "not_found", "invalid_request"];

const name = Type.String({ minLength: 1, maxLength: 100, pattern: "^[A-Za-z0-9_-]+$" });
const ID: Parameter = {
  name: "id",
  in: "path",
  required: true,
  schema: name,
  description: "The endpoint's id.",
};
const DELIVERY: Parameter = {
  name: "delivery",
  in: "path",
  required: true,
  schema: name,
  description: "The delivery's id, which is the `webhook-id` of its message.",
};

const of = (path: string): string => `/v1/webhooks${path}`;
const ask = (given: string, status = 200): Operation["examples"] => [
  { name: "ask", summary: "Ask", given, status },
];

const ENDPOINTS: readonly Operation[] = [
  {
    ...shared,
    method: "post",
    path: of(""),
    id: "createWebhook",
    parameters: [],
    summary: "Create an endpoint",
    description: `${SCOPE} The answer has the secret, which getWebhookSecret returns again.`,
    request: NewWebhook,
    successes: { 201: { description: "The endpoint receives events from now on.", schema: CreatedWebhook } },
    errors: [...ERRORS, ...BODY_ERRORS, "webhook_url_refused", "webhook_limit"],
    examples: [
      {
        name: "create",
        summary: "Receive the losses of one shop",
        given: "nothing",
        status: 201,
        body: { url: SAMPLE.url, events: ["transaction.lost"], filter: { shop: "7" } },
      },
    ],
  },
  {
    ...shared,
    method: "get",
    path: of(""),
    id: "listWebhooks",
    parameters: [],
    summary: "List the owner's endpoints",
    description: SCOPE,
    successes: { 200: { description: "All endpoints of the owner.", schema: WebhookList } },
    errors: ERRORS,
    examples: ask("nothing"),
  },
  {
    ...shared,
    method: "get",
    path: of("/{id}"),
    id: "getWebhook",
    parameters: [ID],
    summary: "Get an endpoint",
    description: SCOPE,
    successes: { 200: { description: "The endpoint.", schema: Webhook } },
    errors: OF_ONE,
    examples: ask("webhook"),
  },
  {
    ...shared,
    method: "patch",
    path: of("/{id}"),
    id: "changeWebhook",
    parameters: [ID],
    summary: "Change an endpoint, disable it, or enable it again",
    description: SCOPE,
    request: WebhookChange,
    successes: { 200: { description: "The changed endpoint.", schema: Webhook } },
    errors: [...OF_ONE, ...BODY_ERRORS, "webhook_url_refused"],
    examples: [
      {
        name: "disable",
        summary: "Disable the endpoint",
        given: "webhook",
        status: 200,
        body: { disabled: true },
      },
    ],
  },
  {
    ...shared,
    method: "delete",
    path: of("/{id}"),
    id: "deleteWebhook",
    parameters: [ID],
    summary: "Remove an endpoint",
    description: `${SCOPE} Also removes its deliveries.`,
    successes: { 204: { description: "The endpoint is removed.", schema: null } },
    errors: OF_ONE,
    examples: ask("webhook", 204),
  },
  {
    ...shared,
    method: "get",
    path: of("/{id}/secret"),
    id: "getWebhookSecret",
    parameters: [ID],
    summary: "Get the secret that signs messages",
    description: SCOPE,
    successes: {
      200: { description: "The secret, and the previous one while it still signs.", schema: WebhookSecret },
    },
    errors: OF_ONE,
    examples: ask("webhook"),
  },
  {
    ...shared,
    method: "post",
    path: of("/{id}/secret/rotate"),
    parameters: [ID],
    id: "rotateWebhookSecret",
    summary: "Replace the secret",
    description: SCOPE,
    request: RotateRequest,
    isRequestOptional: true,
    successes: {
      200: {
        description: "The new and the previous secret. Both sign during the overlap.",
        schema: WebhookSecret,
      },
    },
    errors: [...OF_ONE, ...BODY_ERRORS],
    examples: [
      {
        name: "rotate",
        summary: "Replace the secret with an overlap of an hour",
        given: "webhook",
        status: 200,
        body: { overlapSeconds: 3_600 },
      },
    ],
  },
];

const PAGE: readonly Parameter[] = [
  {
    name: "status",
    in: "query",
    required: false,
    schema: DeliveryStatus,
    description: "Only deliveries with this status.",
  },
  {
    name: "before",
    in: "query",
    required: false,
    description: "`next` of the previous page.",
    schema: Type.String({ pattern: "^[1-9][0-9]{0,17}$" }),
  },
  {
    name: "limit",
    in: "query",
    required: false,
    description: "Maximum number of deliveries in a page.",
    schema: Type.Integer({ minimum: 1, maximum: WEBHOOK_LIMITS.deliveriesPerPage }),
  },
];

const DELIVERIES: readonly Operation[] = [
  {
    ...shared,
    method: "post",
    path: of("/{id}/test"),
    id: "testWebhook",
    parameters: [ID],
    summary: "Send a test message to the endpoint",
    description: SCOPE,
    successes: { 202: { description: "The message is queued.", schema: WebhookDelivery } },
    errors: [...OF_ONE, "webhook_disabled"],
    examples: ask("webhook", 202),
  },
  {
    ...shared,
    method: "post",
    path: of("/{id}/recover"),
    id: "recoverWebhook",
    parameters: [ID],
    summary: "Send failed deliveries again",
    description: `${SCOPE} Sends all deliveries that failed or were held since the given time.`,
    request: RecoverRequest,
    successes: {
      200: { description: "The number of deliveries that are queued again.", schema: RecoverResponse },
    },
    errors: [...OF_ONE, ...BODY_ERRORS, "webhook_disabled"],
    examples: [
      {
        name: "recover",
        summary: "Send the failed deliveries of the last days",
        given: "webhook",
        status: 200,
        body: { since: "2026-11-18T00:00:00Z" },
      },
    ],
  },
  {
    ...shared,
    method: "get",
    path: of("/{id}/deliveries"),
    id: "listDeliveries",
    parameters: [ID, ...PAGE],
    summary: "List deliveries, newest first",
    description: SCOPE,
    successes: { 200: { description: "A page of deliveries.", schema: DeliveryList } },
    errors: OF_ONE,
    examples: [
      {
        name: "failed",
        summary: "List failed deliveries",
        given: "webhook",
        status: 200,
        query: { status: "failed" },
      },
    ],
  },
  {
    ...shared,
    method: "get",
    path: of("/{id}/deliveries/{delivery}"),
    id: "getDelivery",
    parameters: [ID, DELIVERY],
    summary: "Get a delivery and its attempts",
    description: SCOPE,
    successes: { 200: { description: "The delivery.", schema: DeliveryDetails } },
    errors: OF_ONE,
    examples: ask("delivery"),
  },
  {
    ...shared,
    method: "post",
    path: of("/{id}/deliveries/{delivery}/redeliver"),
    id: "redeliver",
    parameters: [ID, DELIVERY],
    summary: "Send a delivery again",
    description: SCOPE,
    successes: { 202: { description: "The message is queued.", schema: WebhookDelivery } },
    errors: [...OF_ONE, "webhook_disabled"],
    examples: ask("delivery", 202),
  },
];

export const WEBHOOK_OPERATIONS: readonly Operation[] = [...ENDPOINTS, ...DELIVERIES];

const SENT_WHEN: Readonly<Record<WebhookMessage["type"], string>> = {
  "transaction.lost": "Transactions had committed, and a failure discarded them.",
  "transaction.durable": "Transactions have reached a level.",
  "transaction.delayed": "Transactions are not durable within their `maxDelayMs`.",
  "transactions.unlisted": "A failure may have lost transactions that the ledger no longer listed.",
  "promise.broken": "A failure discarded transactions that were durable at a level.",
  "durability.stalled": "A level's mark does not rise while transactions are pending.",
  "durability.recovered": "The mark of a level that stalled rises again.",
  "epoch.started": "A failover or a restart began an epoch.",
  "webhook.disabled": "Another endpoint of the same owner was disabled.",
  "webhook.test": "The call testWebhook asked for it.",
};
const header = (named: string, schema: Parameter["schema"], description: string): Parameter => ({
  name: named,
  in: "header",
  required: true,
  schema,
  description,
});
const HEADERS: readonly Parameter[] = [
  header("webhook-id", Type.String(), "The message's id, the same each time that it is delivered."),
  header(
    "webhook-timestamp",
    Type.String({ pattern: "^[0-9]+$" }),
    "When it was sent, in seconds since 1970.",
  ),
  header(
    "webhook-signature",
    Type.String(),
    "One or more signatures of `id.timestamp.body` by Standard Webhooks 1.0, separated by spaces.",
  ),
];

/** What trackers send to endpoints. */
export const WEBHOOK_MESSAGES: readonly Message[] = WebhookMessage.anyOf.map((schema) => {
  const name = schema.properties.type.const;
  return {
    name,
    tag: "webhooks",
    summary: SENT_WHEN[name],
    parameters: HEADERS,
    schema,
    accepted: "The endpoint has the message.",
    refused: "The tracker tries again later, except for a test.",
  };
});
