/**
 * The client without interactive transactions, for pages and edge workers. Names and behaviour are
 * those of the main entry, and so are the classes of the errors and values.
 * @module
 * @example
 * ```ts
 * import { Highwater, sql } from "@highwater/sdk/edge";
 *
 * const hw = new Highwater({ url: "https://highwater.example" });
 * const tx = await hw.transaction(
 *   sql`UPDATE account SET balance = balance - ${10} WHERE id = ${1}`,
 * );
 * await tx.durable();
 * console.log("durable");
 * await hw.close();
 * ```
 */
export { OneShotClient as Highwater, type StatusOptions, type VerdictsOptions } from "./client.ts";
export {
  decodeArray,
  decodeValue,
  type Row,
  type StatementResult,
  type TypeDecoder,
  type TypeDecoders,
} from "./decode.ts";
export {
  AbortError,
  ConstraintError,
  DurabilityTimeoutError,
  ExposureLimitError,
  HighwaterError,
  InvalidRequestError,
  NoAnswerError,
  PromiseBrokenError,
  SerializationError,
  StatementError,
  TokenRefusedError,
  TransactionAbortedError,
  TransactionLostError,
  UnavailableError,
  UnknownOutcomeError,
} from "./errors.ts";
export { newTransactionId } from "./ids.ts";
export { type Endpoint, type HighwaterOptions } from "./options.ts";
export {
  DurabilityPromise,
  type DurableListener,
  type DurableOptions,
  type LostListener,
} from "./promise.ts";
export { type FetchLike } from "./runtime.ts";
export { type ObservedEnd, type ObservedEvent, type Observer } from "./observer.ts";
export { OneShotSession as Session, type ResumeOptions, type SessionOptions } from "./session.ts";
export {
  type LastRow,
  type ResultsOf,
  type RowOf,
  sql,
  Sql,
  type SqlValue,
  type StatementInput,
} from "./sql.ts";
export {
  type AckOptions,
  type CallOptions,
  type ExecutionOptions,
  Transaction,
  type TransactionOptions,
} from "./transaction.ts";
export { type Exposure, type LiveState, type Subscriber } from "./live.ts";
export {
  type AtRisk,
  type Evidence,
  type Isolation,
  type Marks,
  type Outcome,
  type Position,
  type ReachedLimit,
  type RefusedToken,
  type Retry,
  type Served,
  type TokenVerdict,
  type TransactionState,
  type TransactionStateResponse,
  type ValueAtRisk,
  type Verdict,
} from "./wire.ts";
