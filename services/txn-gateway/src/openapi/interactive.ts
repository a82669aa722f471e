// The calls of interactive transactions.
import Type from "typebox";
import {
  BeginRequest,
  CommitRequest,
  type ErrorCode,
  OpenTransactionResponse,
  RollbackRequest,
  RollbackResponse,
  StatementsRequest,
  TransactionResponse,
} from "@highwater/protocol";
import {
  BODY_ERRORS,
  CALLER_ERRORS,
  type Operation,
  type Parameter,
  type ResponseHeader,
} from "@highwater/service";
import { PRIMARY_ERRORS, STATEMENT_ERRORS } from "./errors.ts";
import { COMMITTED, OPEN, RESULT, SAMPLE, UPDATE } from "./sample.ts";
import { ENDINGS, ID_IN_PATH } from "./transactions.ts";

const SESSION = "Highwater-Session";
const SessionText = Type.String({ minLength: 1, maxLength: 512 });

const SESSION_TO_SEND: Parameter = {
  name: SESSION,
  in: "header",
  required: true,
  description: "From the answer to begin. A proxy routes on its first part, the gateway's name.",
  schema: SessionText,
};

const sessionAnswered = (required: boolean): ResponseHeader => ({
  name: SESSION,
  required,
  description: "To be sent with every further call of the transaction. Opaque.",
  schema: SessionText,
});

const CALL_ERRORS: readonly ErrorCode[] = [
  ...CALLER_ERRORS,
  ...BODY_ERRORS,
  ...PRIMARY_ERRORS,
  ...ENDINGS,
  ...([
    "invalid_id",
    "transaction_not_open",
    "wrong_gateway",
    "out_of_sequence",
    "transaction_expired",
  ] as const),
];

/** A transaction that was begun without statements, and the next call of it. */
const link = (operationId: string, body: Readonly<Record<string, unknown>>) => ({
  operationId,
  parameters: {
    "path.id": "$response.body#/id",
    [`header.${SESSION}`]: `$response.header.${SESSION}`,
  },
  requestBody: body,
});

const begin: Operation = {
  method: "post",
  path: "/v1/transactions/begin",
  id: "beginTransaction",
  tag: "interactive transactions",
  summary: "Open a transaction",
  description:
    "It holds a database session until it ends: by commit, by rollback, by a failure, or at `expiresAt`. The same begin again, before any other call, gets the same answer. An id that has committed before gets the answer of that transaction. Scope `write`, or `read` for `readOnly`.",
  security: ["bearer"],
  parameters: [],
  request: BeginRequest,
  successes: {
    200: {
      description: "Open (`active`); or, for an id that has committed before, that outcome with `replayed`.",
      schema: Type.Union([OpenTransactionResponse, TransactionResponse]),
      headers: [sessionAnswered(false)],
      links: {
        statements: link("runStatements", { seq: 1 }),
        commit: link("commitTransaction", { seq: 1 }),
        rollback: link("rollbackTransaction", { seq: 1 }),
      },
      example: OPEN,
    },
  },
  errorShape: "problem",
  errors: [
    ...CALLER_ERRORS,
    ...BODY_ERRORS,
    ...STATEMENT_ERRORS,
    ...PRIMARY_ERRORS,
    ...ENDINGS,
    ...(["invalid_id", "too_many_open"] as const),
  ],
  examples: [
    {
      name: "empty",
      summary: "Open it, and nothing else",
      given: "nothing",
      body: { id: SAMPLE.id },
      status: 200,
    },
    {
      name: "withStatements",
      summary: "The first statements ride along",
      given: "nothing",
      body: { id: SAMPLE.id, isolation: "read committed", statements: [UPDATE] },
      status: 200,
    },
  ],
};

const statements: Operation = {
  method: "post",
  path: "/v1/transactions/{id}/statements",
  id: "runStatements",
  tag: "interactive transactions",
  summary: "Run statements in an open transaction",
  description:
    "A statement that fails leaves the transaction open, if `open` says so, but fit only for a rollback, or for ROLLBACK TO a savepoint.",
  security: ["bearer"],
  parameters: [ID_IN_PATH, SESSION_TO_SEND],
  request: StatementsRequest,
  successes: {
    200: {
      description: "The results of these statements. The transaction is open.",
      schema: OpenTransactionResponse,
      headers: [sessionAnswered(true)],
      example: { ...OPEN, seq: 1, results: [RESULT] },
    },
  },
  errorShape: "problem",
  errors: [...CALL_ERRORS, ...STATEMENT_ERRORS],
  examples: [
    {
      name: "update",
      summary: "The first call behind begin",
      given: "open",
      body: { seq: 1, statements: [UPDATE] },
      status: 200,
    },
  ],
};

const commit: Operation = {
  method: "post",
  path: "/v1/transactions/{id}/commit",
  id: "commitTransaction",
  tag: "interactive transactions",
  summary: "Commit an open transaction",
  description:
    "The last statements may ride along. Repeated with the same `seq` it is answered again from what was committed. An error with `open: true` has left the transaction open.",
  security: ["bearer"],
  parameters: [ID_IN_PATH, SESSION_TO_SEND],
  request: CommitRequest,
  successes: {
    200: {
      description:
        "Committed, or durable at the level. `results` are those of the statements that rode along.",
      schema: TransactionResponse,
      headers: [sessionAnswered(true)],
      example: { ...COMMITTED, state: "durable", level: "region" },
    },
    202: {
      description: "Committed, and not yet known to be durable at the level (`pending`). This is no loss.",
      schema: TransactionResponse,
      headers: [sessionAnswered(true)],
    },
  },
  errorShape: "problem",
  errors: [
    ...CALL_ERRORS,
    ...STATEMENT_ERRORS,
    ...(["unknown_level", "promise_broken", "exposure_limit"] as const),
  ],
  examples: [
    { name: "fast", summary: "Answered at the commit point", given: "open", body: { seq: 1 }, status: 200 },
    {
      name: "safe",
      summary: "With a last statement, and answered when another region has it on disk",
      given: "open",
      body: { seq: 1, statements: [UPDATE], ack: "durable", level: "region" },
      status: 200,
    },
  ],
};

const rollback: Operation = {
  method: "post",
  path: "/v1/transactions/{id}/rollback",
  id: "rollbackTransaction",
  tag: "interactive transactions",
  summary: "Roll back an open transaction",
  description: "Everything that it did is undone. Repeated with the same `seq` it is answered again.",
  security: ["bearer"],
  parameters: [ID_IN_PATH, SESSION_TO_SEND],
  request: RollbackRequest,
  successes: {
    200: {
      description: "Rolled back.",
      schema: RollbackResponse,
      headers: [sessionAnswered(true)],
      example: { id: SAMPLE.id, state: "aborted" },
    },
  },
  errorShape: "problem",
  errors: [...CALL_ERRORS],
  examples: [{ name: "rollback", summary: "Undo it", given: "open", body: { seq: 1 }, status: 200 }],
};

export const INTERACTIVE_OPERATIONS: readonly Operation[] = [begin, statements, commit, rollback];
