// The call that runs several one-shot transactions.
import { BatchRequest } from "@highwater/protocol";
import { BODY_ERRORS, CALLER_ERRORS, type Operation } from "@highwater/service";
import { SAMPLE, UPDATE } from "./sample.ts";

export const BATCH_OPERATION: Operation = {
  method: "post",
  path: "/v1/transactions/batch",
  id: "runTransactions",
  tag: "transactions",
  summary: "Run several transactions, each on its own",
  description:
    "Runs each transaction as its own `POST /v1/transactions`: each has its own outcome, none waits for another, and each counts as a request of the caller. If the answer ends before a transaction's line, ask for the transaction's state.",
  security: ["bearer"],
  parameters: [],
  request: BatchRequest,
  successes: {
    200: {
      description:
        "One line of JSON for each transaction, `{index, status, body}`, in the order in which they end. `index` counts from 0. `status` and `body` are those of an answer to `POST /v1/transactions`: a TransactionResponse, or a Problem.",
      contentType: "application/x-ndjson",
    },
  },
  errorShape: "problem",
  errors: [...CALLER_ERRORS, ...BODY_ERRORS],
  examples: [
    {
      name: "two",
      summary: "Two transactions; the second is a read",
      given: "nothing",
      body: {
        transactions: [
          { id: SAMPLE.id, statements: [UPDATE] },
          { id: SAMPLE.otherId, statements: [{ sql: "SELECT 1" }], readOnly: true },
        ],
      },
      status: 200,
    },
  ],
};
