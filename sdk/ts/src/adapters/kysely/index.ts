/**
 * Kysely on Highwater: a dialect whose single statements are transactions of one round trip, and the promise of each commit.
 * @module
 */
export { bind, committed, type Query, transact, transactionOf } from "./committed.ts";
export { HighwaterDialect, type HighwaterDialectConfig } from "./dialect.ts";
export { type Client, type Committed, type TransactionDefaults } from "../shared.ts";
