// The whole story on a system of three regions: orders, a worker that is stopped and started again, the death of a region,
// and a letter for every order. `node examples/after-durable/src/main.ts`
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { System } from "@highwater/dev-system";
import { Highwater, sql } from "@highwater/sdk";
import { type Letter, MailWorker } from "./mail-worker.ts";
import { OrderBook } from "./order-book.ts";
import { Shop } from "./shop.ts";

const [HOME, AWAY] = ["us-east", "us-west"];
const ORDERS = 10;

const folder = await mkdtemp(join(tmpdir(), "after-durable-"));
const system = await System.start();
const book = new OrderBook(join(folder, "orders.sqlite"));
const letters: Letter[] = [];

/** The worker lives in another region than the shop. */
const endpoints = await system.endpoints(AWAY);
const startWorker = (): { stop: () => Promise<void> } => {
  const hw = new Highwater({ endpoints });
  const stopping = new AbortController();
  const send = (letter: Letter): Promise<void> => {
    letters.push(letter);
    console.log(`to ${letter.customer.padEnd(12)} ${letter.text}`);
    return Promise.resolve();
  };
  const trackers = endpoints.map(({ tracker }) => tracker);
  const running = new MailWorker({ hw, trackers, book, send, signal: stopping.signal }).run();
  return {
    stop: async () => {
      stopping.abort();
      await running;
      await hw.close();
    },
  };
};
const until = async (holds: () => boolean): Promise<void> => {
  while (!holds()) await pause(20);
};

try {
  const hw = new Highwater({ endpoints: await system.endpoints(HOME) });
  const shop = new Shop(hw, book);
  await shop.open();

  const worker = startWorker();
  for (let n = 0; n < ORDERS; n++) await shop.order(`customer-${String(n)}`, "lamp");
  await until(() => letters.length === ORDERS);

  console.log("the worker is stopped; orders go on");
  await worker.stop();
  for (let n = 0; n < ORDERS; n++) await shop.order(`late-${String(n)}`, "lamp");
  // Durable everywhere: everything committed before is, too.
  await hw.transaction([sql`SELECT 1`], { readOnly: true, ack: "durable", level: "global" });
  console.log("the region is cut off, takes some more orders, and dies");
  await system.cluster.isolate(HOME);
  for (let n = 0; n < ORDERS; n++) await shop.order(`unlucky-${String(n)}`, "lamp");
  await hw.close();
  await system.killRegion(HOME);
  await system.cluster.promote(await system.cluster.mostAdvancedReplica());

  console.log("another node is promoted, and the worker is started again");
  const again = startWorker();
  await until(() => letters.length === 3 * ORDERS);
  await again.stop();
  const lost = letters.filter(({ text }) => text.startsWith("we are sorry")).length;
  console.log(
    JSON.stringify({ orders: 3 * ORDERS, letters: letters.length, apologies: lost, open: book.all().length }),
  );
} finally {
  book.close();
  await system.close();
  await rm(folder, { recursive: true });
}
