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
  description: "The value from the answer to begin. A proxy routes by its first part, the gateway's name.",
  schema: SessionText,
};

const sessionAnswered = (required: boolean): ResponseHeader => ({
  name: SESSION,
  required,
  description: "Send this value with every further call of the transaction. Opaque.",
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
    "The transaction holds a database session until it commits, rolls back, fails, or reaches `expiresAt`. If you repeat begin before any other call, you get the same answer. If the id has committed before, you get the outcome of that transaction. Needs the scope `write`, or `read` for `readOnly`.",
  security: ["bearer"],
  parameters: [],
  request: BeginRequest,
  successes: {
    200: {
      description:
        "The transaction is open (`active`). If the id has committed before: its outcome, with `replayed`.",
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
    ...(["invalid_id", "too_many_open", "contents_too_large", "keep_unavailable"] as const),
  ],
  examples: [
    {
      name: "empty",
      summary: "Open a transaction without statements",
      given: "nothing",
      body: { id: SAMPLE.id },
      status: 200,
    },
    {
      name: "withStatements",
      summary: "Open a transaction with its first statements",
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
    "If a statement fails and `open` is true, the transaction is still open, but accepts only a rollback, or ROLLBACK TO a savepoint.",
  security: ["bearer"],
  parameters: [ID_IN_PATH, SESSION_TO_SEND],
  request: StatementsRequest,
  successes: {
    200: {
      description: "The results of these statements. The transaction stays open.",
      schema: OpenTransactionResponse,
      headers: [sessionAnswered(true)],
      example: { ...OPEN, seq: 1, results: [RESULT] },
    },
  },
  errorShape: "problem",
  errors: [...CALL_ERRORS, ...STATEMENT_ERRORS, "contents_too_large"],
  examples: [
    {
      name: "update",
      summary: "The first call after begin",
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
    "The request can contain the last statements. If you repeat it with the same `seq`, you get the outcome again. After an error with `open: true` the transaction is still open.",
  security: ["bearer"],
  parameters: [ID_IN_PATH, SESSION_TO_SEND],
  request: CommitRequest,
  successes: {
    200: {
      description:
        "The transaction is committed, or durable at the level. `results` has the results of the statements in this request.",
      schema: TransactionResponse,
      headers: [sessionAnswered(true)],
      example: { ...COMMITTED, state: "durable", level: "region" },
    },
    202: {
      description:
        "The transaction is committed, and not yet known to be durable at the level (`pending`). It is not lost.",
      schema: TransactionResponse,
      headers: [sessionAnswered(true)],
    },
  },
  errorShape: "problem",
  errors: [
    ...CALL_ERRORS,
    ...STATEMENT_ERRORS,
    ...(["unknown_level", "promise_broken", "exposure_limit"] as const),
    ...(["contents_too_large", "keep_unavailable"] as const),
  ],
  examples: [
    { name: "fast", summary: "Answer at the commit point", given: "open", body: { seq: 1 }, status: 200 },
    {
      name: "safe",
      summary: "Run a last statement, and answer when another region has the transaction on disk",
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
  description:
    "Undoes everything that the transaction did. If you repeat the request with the same `seq`, you get the same answer.",
  security: ["bearer"],
  parameters: [ID_IN_PATH, SESSION_TO_SEND],
  request: RollbackRequest,
  successes: {
    200: {
      description: "The transaction is rolled back.",
      schema: RollbackResponse,
      headers: [sessionAnswered(true)],
      example: { id: SAMPLE.id, state: "aborted" },
    },
  },
  errorShape: "problem",
  errors: [...CALL_ERRORS],
  examples: [{ name: "rollback", summary: "Roll back", given: "open", body: { seq: 1 }, status: 200 }],
};

export const INTERACTIVE_OPERATIONS: readonly Operation[] = [begin, statements, commit, rollback];
