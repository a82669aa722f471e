// A worker of a queue: it acknowledges a message when the message's transaction is durable.
import { type Highwater, sql, TransactionLostError } from "@highwater/sdk";

/** A message of a queue that delivers again what is not acknowledged. */
export interface Message {
  readonly id: string;
  readonly item: string;
  readonly acknowledge: () => void;
  readonly giveBack: () => void;
}

const DURABLE_MS = 60_000;

/**
 * The message's id is the order's: a message that is delivered twice makes one order. Resolves when
 * the message is acknowledged or given back.
 */
export async function handle(hw: Highwater, { id, item, acknowledge, giveBack }: Message): Promise<void> {
  try {
    const insert = sql`INSERT INTO recipe_order VALUES (${id}, ${item}) ON CONFLICT DO NOTHING`;
    const order = await hw.transaction(insert);
    await order.afterDurable(acknowledge, { timeoutMs: DURABLE_MS });
  } catch (error) {
    giveBack();
    if (!(error instanceof TransactionLostError)) throw error;
  }
}
