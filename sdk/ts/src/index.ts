/**
 * Client for Highwater. A transaction commits in milliseconds and then becomes durable; if a
 * failure discards it first, it is reported as lost.
 * @module
 */
export * from "./edge.ts";
// These replace the classes of the same names that have no interactive transactions.
export { Highwater, Session } from "./highwater.ts";
export type { BeginOptions, CommitOptions, InteractiveTransaction } from "./interactive.ts";
export type { TransactBody, TransactOptions } from "./transact.ts";
