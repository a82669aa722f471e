// The wire of webhooks: how endpoints and deliveries are managed, and the bodies that receivers get
// (Standard Webhooks 1.0).
import Type, { type Static } from "typebox";
import {
  BrokenPromiseData,
  DisabledWhy,
  DURABILITY_EVENT_TYPES,
  EpochEventData,
  EventId,
  UnlistedData,
  TransactionEventData,
  WebhookDisabledData,
} from "./durability.ts";
import { closed } from "./schema-helpers.ts";
import { Metadata } from "./schemas.ts";
import { StallEvent } from "./verdicts.ts";

const Instant = Type.String({ description: "RFC 3339." });
const Count = Type.Integer({ minimum: 0 });

export const WEBHOOK_LIMITS = {
  urlChars: 2_048,
  descriptionChars: 256,
  /** Of the UTF-8 text that is sent; a message that would be longer goes out as several pages. */
  bodyBytes: 20_000,
  secretBytes: 32,
  overlapSeconds: 604_800,
  overlapSecondsDefault: 86_400,
  deliveriesPerPage: 100,
  answerBytes: 512,
} as const;

/**
 * What an endpoint can ask for. `promise.broken` includes every single transaction that was broken.
 */
export const WEBHOOK_EVENT_TYPES = DURABILITY_EVENT_TYPES.filter((type) => type !== "transaction.broken");
export type WebhookEventType = (typeof WEBHOOK_EVENT_TYPES)[number];

const EventTypes = Type.Array(
  Type.Unsafe<WebhookEventType>(Type.Union(WEBHOOK_EVENT_TYPES.map((type) => Type.Literal(type)))),
  {
    minItems: 1,
    maxItems: WEBHOOK_EVENT_TYPES.length,
    uniqueItems: true,
  },
);
const Url = Type.String({
  minLength: 1,
  maxLength: WEBHOOK_LIMITS.urlChars,
  description: "An https URL without credentials. Every address of its host must be public or allowed.",
});
const Description = Type.String({ maxLength: WEBHOOK_LIMITS.descriptionChars });
const Filter = Type.Unsafe<Readonly<Record<string, string>>>({
  ...Metadata,
  description:
    "Only events of transactions whose metadata has all these values. Events that belong to no transaction pass.",
});

export const NewWebhook = Type.Object(
  {
    url: Url,
    events: EventTypes,
    filter: Type.Optional(Filter),
    description: Type.Optional(Description),
  },
  closed,
);
export type NewWebhook = Static<typeof NewWebhook>;

export const WebhookChange = Type.Object(
  {
    url: Type.Optional(Url),
    events: Type.Optional(EventTypes),
    filter: Type.Optional(Filter),
    description: Type.Optional(Description),
    disabled: Type.Optional(
      Type.Boolean({ description: "False enables the endpoint again, whatever disabled it." }),
    ),
  },
  { ...closed, minProperties: 1 },
);
export type WebhookChange = Static<typeof WebhookChange>;

export const Webhook = Type.Object(
  {
    id: Type.String(),
    url: Type.String(),
    events: EventTypes,
    filter: Filter,
    description: Type.String(),
    disabled: Type.Boolean(),
    disabledWhy: Type.Union([DisabledWhy, Type.Null()]),
    disabledAt: Type.Union([Instant, Type.Null()]),
    failingSince: Type.Union([Instant, Type.Null()], {
      description: "Time of the first failure since the last success.",
    }),
    createdAt: Instant,
  },
  closed,
);
export type Webhook = Static<typeof Webhook>;

export const WebhookSecret = Type.Object(
  {
    secret: Type.String({ description: "`whsec_` and the key in base64." }),
    previous: Type.Optional(
      Type.Object(
        { secret: Type.String(), until: Instant },
        { ...closed, description: "The previous secret, which also signs until the given time." },
      ),
    ),
  },
  closed,
);
export type WebhookSecret = Static<typeof WebhookSecret>;

export const CreatedWebhook = Type.Object({ ...Webhook.properties, secret: Type.String() }, closed);
export type CreatedWebhook = Static<typeof CreatedWebhook>;

export const WebhookList = Type.Object({ webhooks: Type.Array(Webhook) }, closed);
export type WebhookList = Static<typeof WebhookList>;

export const RotateRequest = Type.Object(
  {
    overlapSeconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: WEBHOOK_LIMITS.overlapSeconds,
        default: WEBHOOK_LIMITS.overlapSecondsDefault,
        description: "How long the previous secret also signs.",
      }),
    ),
  },
  closed,
);
export type RotateRequest = Static<typeof RotateRequest>;

export const RecoverRequest = Type.Object(
  { since: Type.String({ format: "date-time", maxLength: 40, description: "RFC 3339." }) },
  closed,
);
export type RecoverRequest = Static<typeof RecoverRequest>;

export const RecoverResponse = Type.Object(
  {
    recovered: Count,
    more: Type.Boolean({
      description: "True if there are more deliveries than one call recovers: call again.",
    }),
  },
  closed,
);
export type RecoverResponse = Static<typeof RecoverResponse>;

export const DeliveryStatus = Type.Union(
  [Type.Literal("pending"), Type.Literal("delivered"), Type.Literal("failed"), Type.Literal("held")],
  {
    description:
      "`failed`: every attempt of the schedule failed. `held`: the endpoint was disabled; the tracker sends nothing until the delivery is recovered.",
  },
);
export type DeliveryStatus = Static<typeof DeliveryStatus>;

export const WebhookDelivery = Type.Object(
  {
    id: Type.String({ description: "The `webhook-id` of the message." }),
    type: Type.String(),
    status: DeliveryStatus,
    attempts: Count,
    createdAt: Instant,
    nextAttemptAt: Type.Union([Instant, Type.Null()]),
    settledAt: Type.Union([Instant, Type.Null()]),
  },
  closed,
);
export type WebhookDelivery = Static<typeof WebhookDelivery>;

export const ATTEMPT_OUTCOMES = [
  "delivered",
  "status",
  "redirect",
  "gone",
  "timeout",
  "connection",
  "refused",
] as const;
export type AttemptOutcome = (typeof ATTEMPT_OUTCOMES)[number];

export const DeliveryAttempt = Type.Object(
  {
    n: Type.Integer({ minimum: 1 }),
    at: Instant,
    durationMs: Count,
    outcome: Type.Unsafe<AttemptOutcome>(
      Type.Union(ATTEMPT_OUTCOMES.map((outcome) => Type.Literal(outcome))),
    ),
    status: Type.Union([Type.Integer(), Type.Null()]),
    answer: Type.Union([Type.String(), Type.Null()], {
      description: "The beginning of the answer, or the fault if there was no answer.",
    }),
  },
  closed,
);
export type DeliveryAttempt = Static<typeof DeliveryAttempt>;

export const DeliveryDetails = Type.Object(
  {
    ...WebhookDelivery.properties,
    body: Type.String({ description: "The exact text that the tracker signs and sends." }),
    history: Type.Array(DeliveryAttempt, { description: "The newest 100 attempts, oldest first." }),
  },
  closed,
);
export type DeliveryDetails = Static<typeof DeliveryDetails>;

export const DeliveryList = Type.Object(
  {
    deliveries: Type.Array(WebhookDelivery),
    next: Type.Union([Type.String(), Type.Null()], {
      description: "The value of `before` for the next page; null on the last page.",
    }),
  },
  closed,
);
export type DeliveryList = Static<typeof DeliveryList>;

const Sequence = Type.Object(
  { first: EventId, last: EventId },
  { ...closed, description: "The events in this message, by their ids in the stream of events." },
);
const page = { page: Type.Integer({ minimum: 1 }), pages: Type.Integer({ minimum: 1 }), sequence: Sequence };

/**
 * A transaction in a message. Metadata too long for one message comes in parts: the same
 * transaction with other names.
 */
export const WebhookTransaction = Type.Object(
  {
    event: EventId,
    ...TransactionEventData.properties,
    part: Type.Optional(Type.Integer({ minimum: 1 })),
    parts: Type.Optional(Type.Integer({ minimum: 2 })),
  },
  closed,
);
export type WebhookTransaction = Static<typeof WebhookTransaction>;

export const TransactionsPage = Type.Object(
  { ...page, transactions: Type.Array(WebhookTransaction, { minItems: 1 }) },
  closed,
);
export type TransactionsPage = Static<typeof TransactionsPage>;

export const BrokenPage = Type.Object(
  {
    ...page,
    promises: Type.Array(Type.Object({ event: EventId, ...BrokenPromiseData.properties }, closed)),
    transactions: Type.Array(WebhookTransaction),
  },
  closed,
);
export type BrokenPage = Static<typeof BrokenPage>;

const message = <T extends string, D extends Type.TSchema>(type: T, data: D) =>
  Type.Object({ type: Type.Literal(type), timestamp: Instant, data }, closed);

/** The body of a webhook. */
export const WebhookMessage = Type.Union([
  message("transaction.lost", TransactionsPage),
  message("transaction.durable", TransactionsPage),
  message("transaction.delayed", TransactionsPage),
  message("promise.broken", BrokenPage),
  message("durability.stalled", Type.Object({ sequence: Sequence, ...StallEvent.properties }, closed)),
  message("durability.recovered", Type.Object({ sequence: Sequence, ...StallEvent.properties }, closed)),
  message("epoch.started", Type.Object({ sequence: Sequence, ...EpochEventData.properties }, closed)),
  message("transactions.unlisted", Type.Object({ sequence: Sequence, ...UnlistedData.properties }, closed)),
  message("webhook.disabled", Type.Object({ sequence: Sequence, ...WebhookDisabledData.properties }, closed)),
  message("webhook.test", Type.Object({ endpoint: Type.String() }, closed)),
]);
export type WebhookMessage = Static<typeof WebhookMessage>;
