// What all recipes in TypeScript do: fast transactions, by a client that knows nothing of gates.
import { readFileSync } from "node:fs";
import { type Highwater, newTransactionId, sql } from "@highwater/sdk";

export interface Order {
  readonly id: string;
  readonly item: string;
}

const NEWEST = 20;

export async function createTable(hw: Highwater): Promise<void> {
  const schema = readFileSync(new URL("schema.sql", import.meta.url), "utf8");
  await hw.transaction(sql.raw(schema), { ack: "durable" });
}

export async function placeOrder(hw: Highwater, item: string): Promise<Order> {
  const id = newTransactionId();
  await hw.transaction(sql`INSERT INTO recipe_order VALUES (${id}, ${item})`, { id });
  return { id, item };
}

export async function newestOrders(hw: Highwater): Promise<readonly Order[]> {
  const { rows } = await hw.transaction<Order>(
    sql<{ id: string; item: string }>`SELECT id, item FROM recipe_order ORDER BY id DESC LIMIT ${NEWEST}`,
    { readOnly: true },
  );
  return rows;
}
