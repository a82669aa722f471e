/**
 * Client of Highwater: `commit` in milliseconds, `durable` when it is safe, and `lost` if a failure wins the race.
 * @module
 */
export {
  type Endpoint,
  Highwater,
  type HighwaterOptions,
  type StatusOptions,
  type VerdictsOptions,
} from "./client.ts";
export { decodeValue, type Row, type StatementResult } from "./decode.ts";
export {
  ConnectionError,
  ConstraintError,
  DurabilityTimeoutError,
  HighwaterError,
  InvalidRequestError,
  PromiseBrokenError,
  SerializationError,
  StatementError,
  TransactionAbortedError,
  TransactionLostError,
  UnavailableError,
  UnknownOutcomeError,
} from "./errors.ts";
export { newTransactionId } from "./ids.ts";
export { DurabilityPromise, type DurableOptions, type LostListener } from "./promise.ts";
export { type FetchLike, type Log } from "./runtime.ts";
export { Session } from "./session.ts";
export { sql, Sql, type SqlValue, type StatementInput } from "./sql.ts";
export { Transaction, type TransactionOptions } from "./transaction.ts";
export { type Exposure } from "./watcher.ts";
export {
  type Isolation,
  type Marks,
  type Outcome,
  type Position,
  type RefusedToken,
  type Retry,
  type TokenVerdict,
  type TransactionState,
  type TransactionStateResponse,
  type Verdict,
} from "./wire.ts";
