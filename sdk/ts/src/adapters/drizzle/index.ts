/**
 * Drizzle on Highwater: a driver whose single statements are transactions of one round trip, and the promise of each commit.
 * @module
 */
export { bind, committed, migrate, type Query, transact, transactionOf } from "./committed.ts";
export { drizzle, HighwaterDatabase, type HighwaterDrizzleConfig } from "./driver.ts";
export { type HighwaterQueryResult, type HighwaterQueryResultHKT, HighwaterTransaction } from "./session.ts";
export { type Client, type Committed, type TransactionDefaults } from "../shared.ts";
