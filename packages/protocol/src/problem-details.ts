// The schemas of what an error's body has beyond the class of its code.
import Type, { type Static } from "typebox";
import { about, closed, texts } from "./schema-helpers.ts";
import { Redo } from "./redo.ts";
import { LevelName, OffsetText, Position, TokenText } from "./schemas.ts";

export const EvidenceBody = Type.Object(
  {
    state: texts(
      ["committed", "durable", "pending", "lost"],
      "`committed`: visible; the request did not wait for durability. `pending`: not durable in time. `lost`: a failover discarded some of it.",
    ),
    token: about(
      TokenText,
      "Becomes durable when no failover can change the refusal. For an SDK's `hw.promise(token)`.",
    ),
    position: about(
      Position,
      "The end of the log after the refusal: everything that the statement could see is at or below it.",
    ),
    level: Type.Optional(
      about(LevelName, "The level at which it is durable, or at which the request waited."),
    ),
  },
  { ...closed, description: "The basis of a refusal: everything that the statement could see." },
);

export const Details = Type.Partial(
  Type.Object({
    detail: Type.String({ description: "Explanation for people. The text may change." }),
    sqlstate: Type.String({ description: "PostgreSQL's error code, if the database refused a statement." }),
    statement: Type.Integer({ minimum: 0, description: "Index of the statement that failed, from 0." }),
    constraint: Type.String({ description: "Name of the constraint that was violated." }),
    retryAfterMs: Type.Number({
      minimum: 0,
      description: "Milliseconds to wait before the next attempt. Retry-After has whole seconds.",
    }),
    fields: Type.Array(Type.String(), { description: "The faults of the request, one text for each." }),
    limit: Type.Object(
      {
        name: Type.String({ description: "Name of the limit in the service's configuration." }),
        value: Type.Number({ description: "Value of the limit, in the unit of its name." }),
      },
      { ...closed, description: "The limit that the request reached." },
    ),
    exposure: Type.Object(
      {
        transactions: Type.Integer({ minimum: 0, description: "Number of the transactions." }),
        bytes: about(OffsetText, "Bytes of log, as decimal text."),
        oldestMs: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
          description: "Age of the oldest transaction in milliseconds; null if there is none.",
        }),
      },
      {
        ...closed,
        description: "Transactions that the limit counts, that are committed and not durable yet.",
      },
    ),
    transactionId: Type.String({ description: "Id of the transaction that the error is about." }),
    evidence: about(
      EvidenceBody,
      "For a refused statement: the data that the refusal rests on. An SDK's `hw.promise(error.evidence.token).durable()` waits for it.",
    ),
    redo: about(Redo, "For a lost transaction. Absent: its client may run it again."),
    open: Type.Boolean({ description: "For an interactive transaction: true if it is still open." }),
  }),
);

/** Read-only, and what may be absent may be undefined. */
type Given<T> = T extends object
  ? { readonly [K in keyof T]: Given<T[K]> | (object extends Pick<T, K> ? undefined : never) }
  : T;
export type Evidence = Given<Static<typeof EvidenceBody>>;
export type Details = Given<Static<typeof Details>>;
