// The schema of an error's body, with the codes of the catalogue. Answers to clients are written from errors.ts, not from here.
import Type, { type Static } from "typebox";
import { LevelName, Position, TokenText } from "./schemas.ts";
import { type ErrorCode, ERRORS, type Outcome, type Retry } from "./errors.ts";

const texts = <T extends string>(values: readonly T[], description: string) =>
  Type.Unsafe<T>(Type.String({ enum: values, description }));

const CODES = Object.keys(ERRORS) as ErrorCode[];
const OUTCOMES: readonly Outcome[] = ["not_applied", "applied", "unknown"];
const RETRIES: readonly Retry[] = ["never", "transaction", "resolve_outcome", "wait"];

/** What all answers with one code have in common. */
const CLASS = {
  type: Type.String({
    pattern: "^/errors/[a-z_]+$",
    description: "A path of the service: GET it for the cause, the fix and an example.",
  }),
  title: Type.String(),
  status: Type.Integer({ minimum: 400, maximum: 599 }),
  code: texts(CODES, "Stable; docs/reference/errors.md has them all."),
  outcome: texts(OUTCOMES, "What became of the transaction that the request was about."),
  retry: texts(
    RETRIES,
    "`never`: the request is wrong. `transaction`: run the whole body again under a new id. `resolve_outcome`: ask for the state, or send the same id again. `wait`: send the same again later.",
  ),
};

export const EvidenceBody = Type.Object(
  {
    state: texts(
      ["committed", "durable", "pending", "lost"],
      "`committed`: visible, and nobody has waited for more. `pending`: not durable when the time was over. `lost`: a failover has taken some of it back.",
    ),
    token: TokenText,
    position: Position,
    level: Type.Optional(LevelName),
  },
  {
    additionalProperties: false,
    description:
      "The basis of the refusal: everything that the statement could see. Its token can be waited for like that of a read.",
  },
);

export const ProblemBody = Type.Object(
  {
    ...CLASS,
    detail: Type.Optional(Type.String({ description: "For people; may change." })),
    sqlstate: Type.Optional(Type.String({ description: "PostgreSQL's, where there is one." })),
    statement: Type.Optional(
      Type.Integer({ minimum: 0, description: "Index of the statement at fault, from 0." }),
    ),
    constraint: Type.Optional(Type.String({ description: "Name of the constraint that was violated." })),
    retryAfterMs: Type.Optional(
      Type.Number({ minimum: 0, description: "Milliseconds; Retry-After has them as whole seconds." }),
    ),
    fields: Type.Optional(
      Type.Array(Type.String(), { description: "The faults of the request, one text for each." }),
    ),
    limit: Type.Optional(
      Type.Object(
        { name: Type.String(), value: Type.Number() },
        { additionalProperties: false, description: "The limit that was met." },
      ),
    ),
    exposure: Type.Optional(
      Type.Object(
        {
          transactions: Type.Integer({ minimum: 0 }),
          bytes: Type.String({ pattern: "^(0|[1-9][0-9]{0,63})$", description: "Of log, in decimal." }),
          oldestMs: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
            description: "Age of the oldest; null when there is none.",
          }),
        },
        {
          additionalProperties: false,
          description:
            "Of `exposure_limit`: what is committed and not durable yet, of those that the limit counts.",
        },
      ),
    ),
    transactionId: Type.Optional(Type.String()),
    evidence: Type.Optional(EvidenceBody),
    open: Type.Optional(
      Type.Boolean({ description: "Of an interactive transaction: whether it is still open." }),
    ),
  },
  { additionalProperties: false, description: "RFC 9457." },
);

const closed = { additionalProperties: false } as const;
const { type: _type, ...DESCRIBED } = CLASS;

/** Answer of `GET /errors/{code}`. */
export const ErrorDescription = Type.Object(
  {
    ...DESCRIBED,
    cause: Type.String({ description: "Which condition fails, by the names of parameters and limits." }),
    fix: Type.String({ description: "The next step." }),
    example: ProblemBody,
  },
  closed,
);
export type ErrorDescription = Static<typeof ErrorDescription>;

/** Answer of `GET /errors`. */
export const ErrorList = Type.Object({ errors: Type.Array(Type.Object(CLASS, closed)) }, closed);
export type ErrorList = Static<typeof ErrorList>;
