// The named schemas of the gateway's document.
import * as protocol from "@highwater/protocol";
import { type TSchema } from "@highwater/protocol";
import { type Json, Schemas } from "@highwater/service";
import * as neon from "./neon-schemas.ts";

const NAMED: Readonly<Record<string, TSchema>> = {
  BatchRequest: protocol.BatchRequest,
  BeginRequest: protocol.BeginRequest,
  CancelRequest: protocol.CancelRequest,
  CancelResponse: protocol.CancelResponse,
  CommitRequest: protocol.CommitRequest,
  ErrorDescription: protocol.ErrorDescription,
  ErrorList: protocol.ErrorList,
  Isolation: protocol.Isolation,
  Level: protocol.LevelName,
  Marks: protocol.Marks,
  Metadata: protocol.Metadata,
  NeonResponse: neon.NeonResponse,
  NeonError: neon.NeonErrorBody,
  NeonQuery: neon.NeonQuery,
  NeonRequest: neon.NeonRequest,
  NeonResult: neon.NeonResult,
  NeonTransaction: neon.NeonTransaction,
  Offset: protocol.OffsetText,
  OpenTransactionResponse: protocol.OpenTransactionResponse,
  Param: protocol.Param,
  Position: protocol.Position,
  Problem: protocol.ProblemBody,
  ReplayReport: protocol.ReplayReport,
  ReplayRequest: protocol.ReplayRequest,
  RollbackRequest: protocol.RollbackRequest,
  RollbackResponse: protocol.RollbackResponse,
  Served: protocol.Served,
  Statement: protocol.Statement,
  StatementResult: protocol.StatementResult,
  StatementsRequest: protocol.StatementsRequest,
  Ticket: protocol.Ticket,
  TicketEnd: protocol.TicketEnd,
  TicketEndsRequest: protocol.TicketEndsRequest,
  TicketEndsResponse: protocol.TicketEndsResponse,
  TicketRequest: protocol.TicketRequest,
  TicketsRequest: protocol.TicketsRequest,
  TicketsResponse: protocol.TicketsResponse,
  Token: protocol.TokenText,
  TransactionId: protocol.IdText,
  TransactionRequest: protocol.TransactionRequest,
  TransactionResponse: protocol.TransactionResponse,
  TransactionState: protocol.TransactionState,
  TransactionStateResponse: protocol.TransactionStateResponse,
  Uuid: protocol.Uuid,
};

/**
 * What the service checks of a text by other means than its schema, so that it can name the fault.
 */
const STRICTER: Readonly<Record<string, Json>> = {
  TransactionId: {
    pattern: "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-7[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$",
  },
  Token: { pattern: "^hw2_[A-Za-z0-9_-]+$" },
};

export const SCHEMAS = new Schemas(NAMED, STRICTER);
