// Several one-shot transactions in one request: what is sent, and the lines that answer it.
import Type, { type Static } from "typebox";
import { ProblemBody } from "./problem-schema.ts";
import { closed } from "./schema-helpers.ts";
import { LIMITS, TransactionResponse } from "./schemas.ts";

/** Version 00 takes 55 characters; a later one may have more. */
const TRACEPARENT_CHARS_MAX = 256;

export const BatchRequest = Type.Object(
  {
    // What each must be is checked one by one, so that a bad one harms no other.
    transactions: Type.Array(Type.Unknown(), {
      minItems: 1,
      maxItems: LIMITS.transactionsPerBatch,
      description: "Each as the body of `POST /v1/transactions`, and judged on its own.",
    }),
    traceparents: Type.Optional(
      Type.Array(Type.String({ maxLength: TRACEPARENT_CHARS_MAX }), {
        maxItems: LIMITS.transactionsPerBatch,
        description:
          "The header `traceparent` of each transaction, in their order. Empty, or absent: the transaction belongs to the request's trace.",
      }),
    ),
  },
  closed,
);
export type BatchRequest = Static<typeof BatchRequest>;

/** Of one transaction: the answer that it would have had on its own. */
export const BatchLine = Type.Object(
  {
    index: Type.Integer({ minimum: 0, description: "Which one of the request, from 0." }),
    status: Type.Integer({ minimum: 200, maximum: 599 }),
    body: Type.Union([TransactionResponse, ProblemBody]),
  },
  closed,
);
export type BatchLine = Static<typeof BatchLine>;
