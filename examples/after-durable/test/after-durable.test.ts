// Goal: every order gets one letter, and the right one, though the worker is restarted and a region dies.
// Method: the program as it is; then letters are held against the database of the new primary.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { System } from "@highwater/dev-system";
import { Highwater, newTransactionId, sql } from "@highwater/sdk";
import { type Letter, MailWorker } from "../src/mail-worker.ts";
import { OrderBook } from "../src/order-book.ts";
import { Shop } from "../src/shop.ts";

const [EAST, WEST] = ["us-east", "us-west"] as const;
const LIMIT_MS = 60_000;

async function until(what: string, holds: () => boolean): Promise<void> {
  const deadline = performance.now() + LIMIT_MS;
  while (!holds()) {
    if (performance.now() > deadline) assert.fail(`not within ${String(LIMIT_MS)} ms: ${what}`);
    await pause(20);
  }
}

test("one letter for each order, and the right one", async () => {
  const folder = await mkdtemp(join(tmpdir(), "after-durable-test-"));
  await using system = await System.start();
  const file = join(folder, "orders.sqlite");
  let book = new OrderBook(file);
  const letters: Letter[] = [];
  const endpoints = await system.endpoints(WEST);
  const startWorker = () => {
    const hw = new Highwater({ endpoints });
    const stopping = new AbortController();
    const running = new MailWorker({
      ...{ hw, book, signal: stopping.signal, trackers: endpoints.map(({ tracker }) => tracker) },
      send: (letter) => {
        letters.push(letter);
        return Promise.resolve();
      },
    }).run();
    return async () => {
      stopping.abort();
      await running;
      await hw.close();
    };
  };
  const hw = new Highwater({ endpoints: await system.endpoints(EAST) });
  let shop = new Shop(hw, book);
  await shop.open();

  const stop = startWorker();
  const early = await Promise.all(
    Array.from({ length: 5 }, (_, n) => shop.order(`early-${String(n)}`, "lamp")),
  );
  await until("the first letters are sent", () => letters.length === 5);
  await stop();

  // The shop dies behind a commit, before its token is written down; the book is opened again by the next process.
  const orphan = newTransactionId();
  book.add(orphan, "orphan");
  await hw.transaction([sql`INSERT INTO purchase VALUES (${orphan}, 'orphan', 'lamp')`], { id: orphan });
  book.close();
  book = new OrderBook(file);
  shop = new Shop(hw, book);
  const late = await Promise.all(
    Array.from({ length: 5 }, (_, n) => shop.order(`late-${String(n)}`, "lamp")),
  );
  // Durable everywhere: everything committed before is, too.
  await hw.transaction([sql`SELECT 1`], { readOnly: true, ack: "durable", level: "global" });
  await system.cluster.isolate(EAST);
  const unlucky = await Promise.all(
    Array.from({ length: 5 }, (_, n) => shop.order(`unlucky-${String(n)}`, "lamp")),
  );
  await hw.close();
  await system.killRegion(EAST);
  const node = await system.cluster.mostAdvancedReplica();
  await system.cluster.promote(node);

  const stopAgain = startWorker();
  const orders = [...early, ...late, ...unlucky, orphan];
  await until("every letter is sent", () => letters.length >= orders.length);
  await stopAgain();
  assert.deepEqual(letters.map(({ order }) => order).sort(), orders.sort());
  const rows = await system.cluster.query(node, "SELECT id FROM purchase");
  const kept = new Set(rows.map(({ id }) => String(id)));
  for (const { order, customer, text } of letters)
    assert.equal(text.startsWith("your order"), kept.has(order), `${customer} was told: ${text}`);
  for (const id of unlucky) assert.ok(!kept.has(id));
  for (const id of [...early, ...late, orphan]) assert.ok(kept.has(id));
  assert.deepEqual(book.all(), []);
  book.close();
  await rm(folder, { recursive: true });
});
