// Tickets. An application commits on its own connection to the primary; the gateway announces the
// transaction before, and signs its position afterwards. Has the requests and responses of both
// calls.
import Type, { type Static } from "typebox";
import { ValueAtRisk } from "./value.ts";
import { ProblemBody } from "./problem-schema.ts";
import { about, closed } from "./schema-helpers.ts";
import {
  IdText,
  LevelName,
  LIMITS,
  MaxDelayMs,
  Metadata,
  RollbackResponse,
  TransactionResponse,
  Uuid,
} from "./schemas.ts";

/** What each must be is checked one by one, so that a bad one harms no other. */
const each = (description: string) =>
  Type.Array(Type.Unknown(), { minItems: 1, maxItems: LIMITS.transactionsPerBatch, description });
const Status = Type.Integer({ minimum: 200, maximum: 599 });

export const TicketRequest = Type.Object(
  {
    id: IdText,
    level: Type.Optional(LevelName),
    maxDelayMs: Type.Optional(MaxDelayMs),
    metadata: Type.Optional(Metadata),
    atRisk: Type.Optional(ValueAtRisk),
  },
  closed,
);
export type TicketRequest = Static<typeof TicketRequest>;

export const TicketsRequest = Type.Object(
  { transactions: each("Each a TicketRequest, and judged on its own.") },
  closed,
);
export type TicketsRequest = Static<typeof TicketsRequest>;

export const TicketText = Type.String({
  minLength: 1,
  maxLength: 256,
  description: "Proves that a gateway of this deployment has announced the transaction. Opaque.",
});

export const Ticket = Type.Object(
  {
    id: Uuid,
    tag: about(
      Uuid,
      "Tag of the receipt. Only the service and the transaction's owner know it: send it as a bound parameter.",
    ),
    epoch: about(Uuid, "Epoch of the receipt. The transaction commits in this epoch or not at all."),
    digest: Type.String({ description: "Digest of the receipt: a signed 64-bit number, as decimal text." }),
    lifeMs: Type.Integer({
      minimum: 1,
      description:
        "Milliseconds from the request for the ticket until COMMIT must be answered. After that trackers settle the id: it can never commit if they find no receipt.",
    }),
    ticket: TicketText,
  },
  closed,
);
export type Ticket = Static<typeof Ticket>;

export const TicketsResponse = Type.Object(
  {
    answers: Type.Array(Type.Object({ status: Status, body: Type.Union([Ticket, ProblemBody]) }, closed), {
      description: "One answer for each transaction, in the order of the transactions.",
    }),
  },
  closed,
);
export type TicketsResponse = Static<typeof TicketsResponse>;

export const TicketEnd = Type.Object(
  {
    ticket: TicketText,
    ended: Type.Union([Type.Literal("commit"), Type.Literal("rollback")], {
      description:
        "`commit`: COMMIT was sent, whether or not it was answered. `rollback`: COMMIT was not and will not be sent.",
    }),
  },
  closed,
);
export type TicketEnd = Static<typeof TicketEnd>;

export const TicketEndsRequest = Type.Object(
  { tickets: each("Each a TicketEnd, and judged on its own.") },
  closed,
);
export type TicketEndsRequest = Static<typeof TicketEndsRequest>;

export const TicketEndsResponse = Type.Object(
  {
    answers: Type.Array(
      Type.Object(
        { status: Status, body: Type.Union([TransactionResponse, RollbackResponse, ProblemBody]) },
        closed,
      ),
      { description: "One answer for each ticket, in the order of the tickets." },
    ),
  },
  closed,
);
export type TicketEndsResponse = Static<typeof TicketEndsResponse>;
