// Commits payments, and puts the token of each into the queue: somebody else finds out what became
// of it. It may die at any moment. On SIGTERM it begins no more, and ends when all have their
// answers. Settings from the environment:
//
//   QUEUE      the file: queue.sqlite
//   RATE       payments each second: 20
//   GATEWAYS   addresses by commas, the nearest region first: those of `make up PORT_BASE=4600`
//   TRACKERS   the same
import {
  Highwater,
  HighwaterError,
  newTransactionId,
  sql,
  StatementError,
  TransactionAbortedError,
  TransactionLostError,
} from "@highwater/sdk";
import { type Payment, Queue } from "./queue.ts";

const {
  QUEUE = "queue.sqlite",
  RATE = "20",
  GATEWAYS = "http://127.0.0.1:4600,http://127.0.0.1:4610,http://127.0.0.1:4620",
  TRACKERS = "http://127.0.0.1:4601,http://127.0.0.1:4611,http://127.0.0.1:4621",
} = process.env;
const AGAIN_MS = 1_000;
/** Payments under way; while there are so many, no more are begun. */
const BUSY_MAX = 100;

const trackers = TRACKERS.split(",");
const endpoints = GATEWAYS.split(",").map((gateway, at) => ({ gateway, tracker: trackers[at] ?? "" }));
const hw = new Highwater({ endpoints });
const queue = new Queue(QUEUE);
const busy = new Map<string, Promise<void>>();

async function commit({ id, cents }: Payment): Promise<void> {
  try {
    const { token } = await hw.transaction(sql`INSERT INTO payment VALUES (${id}, ${cents})`, { id });
    queue.put(id, token);
    console.log(`committed ${id}`);
  } catch (error) {
    if (error instanceof TransactionLostError) queue.settle(id, "lost");
    else if (error instanceof TransactionAbortedError || error instanceof StatementError)
      queue.settle(id, "aborted");
    else if (error instanceof HighwaterError) console.error(`${id} is sent again: ${error.code}`);
    else throw error;
  }
}

function begin(payment: Payment): void {
  const { id } = payment;
  busy.set(
    id,
    commit(payment).finally(() => busy.delete(id)),
  );
}

await hw.transaction(sql`CREATE TABLE IF NOT EXISTS payment (id uuid PRIMARY KEY, cents int NOT NULL)`);
const paying = setInterval(
  () => {
    if (busy.size >= BUSY_MAX) return;
    const payment = { id: newTransactionId(), cents: 1 + Math.floor(Math.random() * 10_000) };
    queue.add(payment);
    begin(payment);
  },
  1_000 / Number(RATE),
);
let isEnding = false;
/**
 * The same id never runs twice: either it is committed now, or its first attempt's outcome is
 * found.
 */
const again = setInterval(() => {
  const unanswered = queue.unanswered();
  for (const payment of unanswered) if (!busy.has(payment.id)) begin(payment);
  if (isEnding && unanswered.length === 0 && busy.size === 0) void end();
}, AGAIN_MS);

async function end(): Promise<void> {
  clearInterval(again);
  await hw.close();
  queue.close();
}

for (const signal of ["SIGTERM", "SIGINT"] as const)
  process.once(signal, () => {
    clearInterval(paying);
    isEnding = true;
  });
