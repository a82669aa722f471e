// The calls of one-shot transactions, and what became of an id.
import Type from "typebox";
import {
  type ErrorCode,
  IdText,
  LevelName,
  LIMITS,
  OwnerText,
  TransactionRequest,
  TransactionResponse,
  TransactionStateResponse,
} from "@highwater/protocol";
import { BODY_ERRORS, CALLER_ERRORS, type Operation, type Parameter } from "@highwater/service";
import { PRIMARY_ERRORS, STATEMENT_ERRORS } from "./errors.ts";
import { COMMITTED, MARKS, SAMPLE, UPDATE } from "./sample.ts";

export const ID_IN_PATH: Parameter = {
  name: "id",
  in: "path",
  required: true,
  description: "The transaction's id.",
  schema: IdText,
};

/** How an attempt under an id can end, or have ended. */
export const ENDINGS: readonly ErrorCode[] = [
  ...(["id_expired", "id_out_of_window", "id_reused", "transaction_in_progress"] as const),
  ...(["transaction_aborted", "transaction_lost", "commit_unconfirmed"] as const),
];

const runTransaction: Operation = {
  method: "post",
  path: "/v1/transactions",
  id: "runTransaction",
  tag: "transactions",
  summary: "Run a transaction",
  description:
    "Runs all statements in one transaction, in one round trip to the database. A request with the same id does not run again: it gets the original outcome, with `replayed`. Needs the scope `write`, or `read` for `readOnly`.",
  security: ["bearer"],
  parameters: [],
  request: TransactionRequest,
  successes: {
    200: {
      description: "The transaction is committed (`committed`), or durable at the level (`durable`).",
      schema: TransactionResponse,
      links: {
        state: { operationId: "getTransaction", parameters: { "path.id": "$response.body#/id" } },
      },
      example: COMMITTED,
    },
    202: {
      description:
        "The transaction is committed, and not yet known to be durable at the level (`pending`). It is not lost.",
      schema: TransactionResponse,
      example: { ...COMMITTED, state: "pending", level: "region" },
    },
  },
  errorShape: "problem",
  errors: [
    ...CALLER_ERRORS,
    ...BODY_ERRORS,
    ...STATEMENT_ERRORS,
    ...PRIMARY_ERRORS,
    ...ENDINGS,
    ...(["invalid_id", "invalid_token", "unknown_level", "promise_broken", "exposure_limit"] as const),
    ...(["contents_too_large", "keep_unavailable"] as const),
  ],
  examples: [
    {
      name: "fast",
      summary: "Answer at the commit point",
      given: "nothing",
      body: { id: SAMPLE.id, statements: [UPDATE] },
      status: 200,
    },
    {
      name: "safe",
      summary: "Answer when another region has the transaction on disk",
      given: "nothing",
      body: {
        id: SAMPLE.id,
        statements: [UPDATE],
        isolation: "read committed",
        ack: "durable",
        level: "region",
        maxWaitMs: 5_000,
        metadata: { order: "7" },
      },
      status: 200,
    },
    {
      name: "readNearby",
      summary: "Read your own write on a replica nearby, if the write has arrived there",
      given: "committed",
      body: {
        id: SAMPLE.otherId,
        statements: [{ sql: "SELECT balance FROM account WHERE id = $1", params: [1] }],
        readOnly: true,
        mode: "local",
        after: SAMPLE.token,
      },
      status: 200,
    },
    {
      name: "replay",
      summary: "Send the same id again: nothing runs, and the answer is the original outcome",
      given: "committed",
      body: { id: SAMPLE.id, statements: [UPDATE] },
      status: 200,
    },
  ],
};

const getTransaction: Operation = {
  method: "get",
  path: "/v1/transactions/{id}",
  id: "getTransaction",
  tag: "transactions",
  summary: "Get the state of a transaction",
  description:
    "Use it after a lost answer. The gateway finds the state by the transaction's receipt, a tracker's verdict and the marks. Each owner has its own ids: another owner's transaction with the same id is `unknown`. A credential with the scope `admin` can name another owner.",
  security: ["bearer"],
  parameters: [
    ID_IN_PATH,
    {
      name: "wait",
      in: "query",
      required: false,
      description:
        "Maximum seconds, with up to six decimals, that the answer waits until the transaction has ended and is durable at the level, or lost.",
      schema: Type.Number({ minimum: 0, maximum: LIMITS.waitMs / 1_000, default: 0 }),
    },
    {
      name: "level",
      in: "query",
      required: false,
      description:
        "The level to ask about. Default: `region`, or the strongest level if `region` is not configured.",
      schema: LevelName,
    },
    {
      name: "owner",
      in: "query",
      required: false,
      description:
        "The owner of the transaction: its tag, as in `byOwner` of the exposure. Default: the caller. Another owner needs the scope `admin`.",
      schema: OwnerText,
    },
  ],
  successes: {
    200: {
      description: "The state now, or at the end of the wait.",
      schema: TransactionStateResponse,
      example: {
        id: SAMPLE.id,
        state: "durable",
        token: SAMPLE.token,
        position: COMMITTED.position,
        level: "region",
        marks: MARKS,
      },
    },
  },
  errorShape: "problem",
  errors: [
    ...CALLER_ERRORS,
    ...PRIMARY_ERRORS,
    ...(["invalid_request", "invalid_id", "unknown_level"] as const),
  ],
  examples: [
    { name: "now", summary: "Get the state now", given: "committed", status: 200 },
    {
      name: "untilDurable",
      summary: "Wait up to five seconds until another region has the transaction",
      given: "committed",
      query: { wait: "5", level: "region" },
      status: 200,
    },
  ],
};

export const TRANSACTION_OPERATIONS: readonly Operation[] = [runTransaction, getTransaction];
