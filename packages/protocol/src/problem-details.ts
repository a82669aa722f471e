// The schemas of what an error's body has beyond the class of its code.
import Type, { type Static } from "typebox";
import { about, closed, texts } from "./schema-helpers.ts";
import { LevelName, OffsetText, Position, TokenText } from "./schemas.ts";

export const EvidenceBody = Type.Object(
  {
    state: texts(
      ["committed", "durable", "pending", "lost"],
      "`committed`: visible; the request waited for no more. `pending`: not durable in the time. `lost`: a failover took some of it back.",
    ),
    token: about(
      TokenText,
      "Durable when the refusal can no longer be taken back: for an SDK's `hw.promise(token)`.",
    ),
    position: about(
      Position,
      "The end of the log when the statement had been refused: everything that it could see is at or below.",
    ),
    level: Type.Optional(about(LevelName, "At which it is durable, or was waited for.")),
  },
  { ...closed, description: "The basis of a refusal: everything that the statement could see." },
);

export const Details = Type.Partial(
  Type.Object({
    detail: Type.String({ description: "For people; may change." }),
    sqlstate: Type.String({ description: "PostgreSQL's code, where the database refused something." }),
    statement: Type.Integer({ minimum: 0, description: "Index of the statement at fault, from 0." }),
    constraint: Type.String({ description: "Name of the constraint that was violated." }),
    retryAfterMs: Type.Number({
      minimum: 0,
      description: "Milliseconds to wait before the next attempt; Retry-After has them as whole seconds.",
    }),
    fields: Type.Array(Type.String(), { description: "The faults of the request, one text for each." }),
    limit: Type.Object(
      {
        name: Type.String({ description: "As the service's configuration calls it." }),
        value: Type.Number({ description: "In the unit that the name says." }),
      },
      { ...closed, description: "The limit that was met." },
    ),
    exposure: Type.Object(
      {
        transactions: Type.Integer({ minimum: 0, description: "How many they are." }),
        bytes: about(OffsetText, "Of log, as decimal text."),
        oldestMs: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
          description: "Age of the oldest in milliseconds; null when there is none.",
        }),
      },
      {
        ...closed,
        description: "Transactions that are committed and not durable yet, of those that the limit counts.",
      },
    ),
    transactionId: Type.String({ description: "Of the transaction that the error is about." }),
    evidence: about(
      EvidenceBody,
      "Of a refused statement: what the refusal rests on. An SDK's `hw.promise(error.evidence.token).durable()` waits for it.",
    ),
    open: Type.Boolean({ description: "Of an interactive transaction: whether it is still open." }),
  }),
);

/** Read-only, and what may be absent may be undefined. */
type Given<T> = T extends object
  ? { readonly [K in keyof T]: Given<T[K]> | (object extends Pick<T, K> ? undefined : never) }
  : T;
export type Evidence = Given<Static<typeof EvidenceBody>>;
export type Details = Given<Static<typeof Details>>;
