// POST /sql, the Neon serverless HTTP wire.
import Type from "typebox";
import { IdText, LevelName, LIMITS, TokenText, TransactionState } from "@highwater/protocol";
import { NeonResponse, NeonRequest } from "./neon-schemas.ts";
import { CALLER_ERRORS, type Operation, type Parameter, type ResponseHeader } from "@highwater/service";
import { PRIMARY_ERRORS, STATEMENT_ERRORS } from "./errors.ts";
import { COMMITTED, UPDATE } from "./sample.ts";
import { ENDINGS } from "./transactions.ts";

const header = (name: string, description: string, schema: Type.TSchema = Type.String()): Parameter => ({
  name,
  in: "header",
  required: false,
  description,
  schema,
});

const answered = (name: string, description: string, schema: Type.TSchema): ResponseHeader => ({
  name,
  required: true,
  description,
  schema,
});

const { results: _results, ...transaction } = COMMITTED;

export const NEON_OPERATIONS: readonly Operation[] = [
  {
    method: "post",
    path: "/sql",
    id: "runSql",
    tag: "Neon wire",
    summary: "Run a query or a batch, as Neon's serverless driver sends it",
    description:
      "Runs one transaction. The body is JSON, with any content type. The isolation is `read committed` unless a batch sets another. docs/reference/neon.md has the details.",
    security: ["bearer", "connectionString"],
    parameters: [
      header(
        "Neon-Raw-Text-Output",
        "`true`: values are PostgreSQL's text. Otherwise the gateway decodes the values that JSON can hold.",
      ),
      header("Neon-Array-Mode", "`true`: rows are arrays. Otherwise rows are objects."),
      header(
        "Neon-Batch-Isolation-Level",
        "Isolation of a batch: `ReadUncommitted`, `ReadCommitted` (default), `RepeatableRead` or `Serializable`.",
      ),
      header("Neon-Batch-Read-Only", "`true`: the batch is read-only."),
      header("Neon-Batch-Deferrable", "`true`: a serializable read-only batch waits for a safe snapshot."),
      header("Highwater-Transaction-Id", "The transaction's id. Default: the gateway makes one.", IdText),
      header(
        "Highwater-Ack",
        "Like `ack` of POST /v1/transactions.",
        Type.Union([Type.Literal("commit"), Type.Literal("durable")]),
      ),
      header("Highwater-Level", "Like `level` of POST /v1/transactions.", LevelName),
      header(
        "Highwater-Max-Wait-Ms",
        "Like `maxWaitMs` of POST /v1/transactions. After that time the answer is 200 with the state `pending`.",
        Type.Integer({ minimum: 0, maximum: LIMITS.waitMs }),
      ),
      header(
        "Highwater-Read-Only",
        "`true`: the transaction is read-only.",
        Type.Union([Type.Literal("true"), Type.Literal("false")]),
      ),
    ],
    request: NeonRequest,
    successes: {
      200: {
        description:
          "The transaction is committed. `transaction.state` says whether it is known to be durable.",
        schema: NeonResponse,
        headers: [
          answered("Highwater-Transaction-Id", "The transaction's id.", IdText),
          answered("Highwater-State", "The transaction's state.", TransactionState),
          answered("Highwater-Token", "The transaction's token.", TokenText),
        ],
        example: {
          fields: [
            {
              name: "balance",
              dataTypeID: 23,
              tableID: 16_412,
              columnID: 2,
              dataTypeSize: 4,
              dataTypeModifier: -1,
              format: "text",
            },
          ],
          rows: [{ balance: 90 }],
          command: "UPDATE",
          rowCount: 1,
          rowAsArray: false,
          transaction,
        },
      },
    },
    errorShape: "neon",
    errors: [
      ...CALLER_ERRORS,
      ...STATEMENT_ERRORS,
      ...PRIMARY_ERRORS,
      ...ENDINGS,
      ...(["invalid_request", "invalid_id", "unknown_level", "promise_broken", "exposure_limit"] as const),
      ...(["body_too_large", "unsupported_media_type"] as const),
    ],
    examples: [
      {
        name: "query",
        summary: "Run one query",
        given: "nothing",
        body: { query: UPDATE.sql, params: UPDATE.params },
        status: 200,
      },
      {
        name: "batch",
        summary: "Run a batch, with rows as arrays",
        given: "nothing",
        body: {
          queries: [
            { query: UPDATE.sql, params: UPDATE.params, arrayMode: true },
            { query: "SELECT sum(balance) FROM account", params: [], arrayMode: true },
          ],
        },
        status: 200,
      },
    ],
  },
];
