// The schema of an error's body, with the codes of the catalogue. Answers to clients are written
// from errors.ts, not from here.
import Type, { type Static } from "typebox";
import { type ErrorCode, ERRORS, type Outcome, type Retry } from "./errors.ts";
import { Details } from "./problem-details.ts";
import { closed, texts } from "./schema-helpers.ts";

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
  outcome: texts(OUTCOMES, "What became of the transaction that an error is about."),
  retry: texts(
    RETRIES,
    "What a caller may do after an error. `never`: the request itself is wrong. `transaction`: run the whole body again, with a new id. `resolve_outcome`: ask for the state, or send the same id again. `wait`: send the same again later.",
  ),
};

export const ProblemBody = Type.Object(
  { ...CLASS, ...Details.properties },
  { ...closed, description: "RFC 9457." },
);

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
