// Tickets. An application commits on its own connection to the primary; the gateway announces the
// transaction before, and signs its position afterwards. Has the requests and responses of both
// calls.
import Type, { type Static } from "typebox";
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
  description: "Proof of a deployment's gateway that it has announced the transaction. Opaque.",
});

export const Ticket = Type.Object(
  {
    id: Uuid,
    tag: about(
      Uuid,
      "Of the receipt. Known to the service and the transaction's owner alone: send it as a bound parameter.",
    ),
    epoch: about(Uuid, "Of the receipt: it commits in this epoch, or not at all."),
    digest: Type.String({ description: "Of the receipt: a signed 64-bit number, as decimal text." }),
    lifeMs: Type.Integer({
      minimum: 1,
      description:
        "The COMMIT must be answered within so many milliseconds of the request for the ticket; then trackers settle the id, as never committed if they find no receipt.",
    }),
    ticket: TicketText,
  },
  closed,
);
export type Ticket = Static<typeof Ticket>;

export const TicketsResponse = Type.Object(
  {
    answers: Type.Array(Type.Object({ status: Status, body: Type.Union([Ticket, ProblemBody]) }, closed), {
      description: "One for each transaction, in their order.",
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
        "`commit`: COMMIT was sent, whether or not its answer came. `rollback`: it was not, and never will be.",
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
      { description: "One for each ticket, in their order." },
    ),
  },
  closed,
);
export type TicketEndsResponse = Static<typeof TicketEndsResponse>;
