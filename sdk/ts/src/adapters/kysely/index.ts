/**
 * Kysely dialect for Highwater. A single statement is a transaction of one round trip, and every
 * commit gives you its durability promise.
 * @module
 */
export { bind, committed, type Query, transact, transactionOf } from "./committed.ts";
export { HighwaterDialect, type HighwaterDialectConfig } from "./dialect.ts";
export { type Client, type Committed, type TransactionDefaults } from "../shared.ts";
