/**
 * Client of Highwater: `commit` in milliseconds, `durable` when it is safe, and `lost` if a failure wins the race.
 * @module
 */
export * from "./edge.ts";
// In the place of those of the same names without interactive transactions.
export { Highwater, Session } from "./highwater.ts";
export type { BeginOptions, CommitOptions, InteractiveTransaction } from "./interactive.ts";
export type { TransactBody, TransactOptions } from "./transact.ts";
