// A shop with two databases: orders in one, invoices in the other. Each line of the input is the
// number of an order. It is placed when both are durable. If a failure discards one of them, the
// other one is cancelled.
import { createInterface } from "node:readline";
import { Highwater, type HighwaterOptions, sql, TransactionLostError } from "@highwater/sdk";
import { type StorePart, Stores, type StoresSession } from "@highwater/sdk/stores";

/** How long one wait may take; the shop then waits again. */
const PATIENCE_MS = 60_000;

function addresses(store: string): HighwaterOptions {
  const list = (name: string): string[] => (process.env[`${store}_${name}`] ?? "http://127.0.0.1").split(",");
  const trackers = list("TRACKERS");
  const endpoints = list("GATEWAYS").map((gateway, at) => ({ gateway, tracker: trackers[at] ?? gateway }));
  return { endpoints };
}

const orders = new Highwater(addresses("ORDERS"));
const billing = new Highwater(addresses("BILLING"));
const stores = new Stores({ orders, billing });

async function place(order: number): Promise<void> {
  const session = stores.session();
  await session.of("orders").transaction(sql`INSERT INTO purchase VALUES (${order}, 'placed')`);
  await session.of("billing").transaction(sql`INSERT INTO invoice VALUES (${order}, 'due')`);
  console.log(`${String(order)} committed`);
  try {
    await untilSettled(session);
    console.log(`${String(order)} durable`);
  } catch (error) {
    if (!(error instanceof TransactionLostError)) throw error;
    await undo(order, error.parts ?? []);
    console.log(`${String(order)} lost in ${String(error.store)}, cancelled`);
  }
}

/** Resolves when all is durable. A wait that ends before that is no loss. */
async function untilSettled(session: StoresSession): Promise<void> {
  for (;;) {
    const parts = await session.durable({ timeoutMs: PATIENCE_MS, onTimeout: "pending" });
    if (parts.every(({ state }) => state === "durable")) return;
  }
}

/** Cancels the half of the order that still exists. */
async function undo(order: number, parts: readonly StorePart[]): Promise<void> {
  const isLost = new Map(parts.map(({ store, state }) => [store, state === "lost"]));
  if (isLost.get("orders") === false)
    await orders.transaction(sql`UPDATE purchase SET state = 'cancelled' WHERE id = ${order}`);
  if (isLost.get("billing") === false)
    await billing.transaction(sql`UPDATE invoice SET state = 'void' WHERE id = ${order}`);
}

await Promise.all([
  orders.transaction(sql`CREATE TABLE IF NOT EXISTS purchase (id int PRIMARY KEY, state text)`),
  billing.transaction(sql`CREATE TABLE IF NOT EXISTS invoice (id int PRIMARY KEY, state text)`),
]);
for await (const line of createInterface({ input: process.stdin })) await place(Number(line));
await Promise.all([orders.close(), billing.close()]);
