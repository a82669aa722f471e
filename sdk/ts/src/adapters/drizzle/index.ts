/**
 * Drizzle driver for Highwater. A single statement is a transaction of one round trip, and every
 * commit gives you its durability promise.
 * @module
 */
export { bind, committed, migrate, type Query, transact, transactionOf } from "./committed.ts";
export { drizzle, HighwaterDatabase, type HighwaterDrizzleConfig } from "./driver.ts";
export { type HighwaterQueryResult, type HighwaterQueryResultHKT, HighwaterTransaction } from "./session.ts";
export { type Client, type Committed, type TransactionDefaults } from "../shared.ts";
