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
    summary: "Announce transactions that the client commits on its own connection",
    description:
      "Returns a ticket for each transaction, as soon as a tracker has the id on disk. Before its COMMIT, the client writes the receipt that the ticket describes, in the same transaction. The same id gets the same ticket. Each transaction counts as a request of the caller.",
    request: TicketsRequest,
    successes: {
      200: {
        description:
          "For each transaction, a Ticket, or a Problem such as `exposure_limit` or `too_many_open`.",
        schema: TicketsResponse,
        example: { answers: [{ status: 200, body: TICKET }] },
      },
    },
    examples: [
      {
        name: "one",
        summary: "Get one ticket",
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
      "For a transaction whose COMMIT was sent, the gateway looks for the receipt. If the receipt exists, the answer has a token with a position that the gateway reads itself. Without a receipt the gateway settles the id: it can never commit. This can take 10 s, and the answers come together. So send a transaction whose COMMIT had no answer in a separate request. You can repeat the request.",
    request: TicketEndsRequest,
    successes: {
      200: {
        description:
          "For each ticket, a TransactionResponse if its transaction committed, a RollbackResponse if it was rolled back, or a Problem such as `transaction_aborted`, `transaction_lost` or `commit_unconfirmed`.",
        schema: TicketEndsResponse,
        example: { answers: [{ status: 200, body: { ...COMMITTED, results: [] } }] },
      },
    },
    examples: [
      {
        name: "rollback",
        summary: "Return a ticket that is not needed",
        given: "nothing",
        body: { tickets: [{ ticket: SAMPLE.ticket, ended: "rollback" }] },
        status: 200,
      },
    ],
  },
];
