// The calls for transactions that an application commits on a connection of its own.
import { TicketEndsRequest, TicketEndsResponse, TicketsRequest, TicketsResponse } from "@highwater/protocol";
import { BODY_ERRORS, CALLER_ERRORS, type Operation } from "@highwater/service";
import { COMMITTED, SAMPLE, TICKET } from "./sample.ts";

const SHARED: Pick<Operation, "method" | "tag" | "security" | "parameters" | "errorShape" | "errors"> = {
  method: "post",
  tag: "tickets",
  security: ["bearer"],
  parameters: [],
  errorShape: "problem",
  errors: [...CALLER_ERRORS, ...BODY_ERRORS],
};

export const TICKET_OPERATIONS: readonly Operation[] = [
  {
    ...SHARED,
    path: "/v1/tickets",
    id: "issueTickets",
    summary: "Announce transactions that their client will commit itself",
    description:
      "For each transaction a ticket, issued once a tracker has the id on disk. The client writes the receipt that the ticket describes in the same transaction, before its COMMIT. The same id again gets the same ticket. Each counts as a request of its caller's.",
    request: TicketsRequest,
    successes: {
      200: {
        description:
          "For each transaction the answer that it would have had alone: a Ticket, or a Problem such as `exposure_limit` or `too_many_open`.",
        schema: TicketsResponse,
        example: { answers: [{ status: 200, body: TICKET }] },
      },
    },
    examples: [
      {
        name: "one",
        summary: "One ticket",
        given: "nothing",
        body: { transactions: [{ id: SAMPLE.id, metadata: { order: "17" } }] },
        status: 200,
      },
    ],
  },
  {
    ...SHARED,
    path: "/v1/tickets/ends",
    id: "endTickets",
    summary: "Find out how these transactions ended",
    description:
      "Of a transaction whose COMMIT was sent, the gateway looks the receipt up and reads a position behind it, and the answer has a token; the client's own word for a position counts nothing. Without a receipt the id is settled: it never commits from then on. That can take 10 s, and all are answered together, so ask for one whose COMMIT was not answered in a request of its own. A request may be sent again.",
    request: TicketEndsRequest,
    successes: {
      200: {
        description:
          "For each ticket the answer that it would have had alone: a TransactionResponse for one that has committed, a RollbackResponse for one that was rolled back, or a Problem, such as `transaction_aborted`, `transaction_lost` or `commit_unconfirmed`.",
        schema: TicketEndsResponse,
        example: { answers: [{ status: 200, body: { ...COMMITTED, results: [] } }] },
      },
    },
    examples: [
      {
        name: "rollback",
        summary: "A ticket that is not needed any more",
        given: "nothing",
        body: { tickets: [{ ticket: SAMPLE.ticket, ended: "rollback" }] },
        status: 200,
      },
    ],
  },
];
