// GET /v1/durability/events: the query, and the response as a stream and as a page. durability.ts
// has the contents of each type.
import Type, { type Static } from "typebox";
import { DURABILITY_EVENT_TYPES, DurabilityEvent, TransactionEventData } from "./durability.ts";
import { closed } from "./schema-helpers.ts";

export const EVENT_LIMITS = {
  pageEvents: 1_000,
  defaultPageEvents: 100,
  metadataFilters: 16,
} as const;

/** A place between the events of one history. `0.0`: before the oldest that is kept. */
export const EventCursor = Type.String({
  pattern: "^(0\\.0|[1-9][0-9]{0,15}\\.(0|[1-9][0-9]{0,15})\\.[0-9a-f]{8})$",
  description:
    "The id of an event, or a cursor that an answer gave; `0.0`: from the oldest event that is kept.",
});

export const EventPage = Type.Object(
  {
    events: Type.Array(DurabilityEvent),
    next: Type.String({ ...EventCursor, description: "Ask with `after` this for what follows." }),
    more: Type.Boolean({ description: "There are more of them now." }),
    missed: Type.Boolean({
      description: "Events behind `after` may have been dropped because of their age: ask for verdicts.",
    }),
  },
  closed,
);
export type EventPage = Static<typeof EventPage>;

/**
 * `event: begin`: the first of a stream, with the id from which it can be resumed before another
 * event has come.
 */
export const EventsBegin = Type.Object({ after: EventCursor, missed: EventPage.properties.missed }, closed);
export type EventsBegin = Static<typeof EventsBegin>;

/**
 * `event: transaction.durable`: has no id, since the tracker that sees it sends it once.
 */
export const LiveDurableEvent = Type.Object(
  {
    type: Type.Literal("transaction.durable"),
    at: Type.String({ description: "RFC 3339, by the tracker's clock." }),
    data: TransactionEventData,
  },
  closed,
);
export type LiveDurableEvent = Static<typeof LiveDurableEvent>;

/** Those that every key gets; `transaction.durable` is asked for with `durable=true`. */
export const LISTED_EVENT_TYPES = DURABILITY_EVENT_TYPES.filter((type) => type !== "transaction.durable");
