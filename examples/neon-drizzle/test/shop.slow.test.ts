// Goal: an application written for Neon, with the unmodified npm packages, runs on this service, and what it commits can be
// awaited. Method: the shop on the whole product in three regions; tables are looked at behind the service's back.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { after, before, describe, it } from "node:test";
import { NeonDbError } from "@neondatabase/serverless";
import { type Endpoint, System } from "@highwater/lab-system";
import { Highwater, newTransactionId } from "@highwater/sdk";
import { tracked, trackTransactions } from "../src/promises.ts";
import { type Product, Shop } from "../src/shop.ts";

const EAST = "us-east";
const DATABASE = "postgresql://shop@highwater.example.test/app";
const TIMEOUT_MS = 30_000;
const LAMP: Product = { id: 1, name: "lamp", price: "19.90", stock: 10, tags: ["light", 'a "warm" one'] };
const CHAIR: Product = { id: 2, name: "chair", price: "120.00", stock: 1, tags: [] };

let system: System;
let endpoint: Endpoint;
let shop: Shop;
let client: Highwater;

before(async () => {
  system = await System.start();
  const [nearest] = await system.endpoints(EAST);
  assert.ok(nearest !== undefined);
  endpoint = nearest;
  trackTransactions(`${endpoint.gateway}/sql`);
  shop = new Shop(DATABASE);
  client = new Highwater({ endpoints: [endpoint], level: "region" });
  await shop.open();
});

after(async () => {
  await client.close();
  await system.close();
});

const stockOf = async (id: number): Promise<unknown> => {
  const [primary] = system.cluster.nodes;
  assert.ok(primary !== undefined);
  const [row] = await system.cluster.query(primary.id, `SELECT stock FROM product WHERE id = ${String(id)}`);
  return row?.["stock"];
};

/** Drizzle wraps what the driver throws. */
async function refusal(work: Promise<unknown>): Promise<NeonDbError> {
  try {
    await work;
  } catch (error) {
    const cause = error instanceof Error && !(error instanceof NeonDbError) ? error.cause : error;
    assert.ok(cause instanceof NeonDbError, String(error));
    return cause;
  }
  return assert.fail("it was not refused");
}

describe("the shop, by Drizzle", () => {
  it("inserts, returns and selects its own types", async () => {
    assert.deepEqual(await shop.offer([LAMP, CHAIR]), [LAMP, CHAIR]);
    assert.deepEqual(await shop.offer([LAMP]), []);
    assert.deepEqual(await shop.products(), [LAMP, CHAIR]);
  });

  it("a batch is one transaction", async () => {
    const delivery = { city: "Zürich", express: true };
    const bought = await shop.buy({ productId: 1, quantity: 3, delivery });
    assert.deepEqual(
      [bought.productId, bought.quantity, bought.total, bought.delivery],
      [1, 3, 5970n, delivery],
    );
    assert.ok(bought.boughtAt instanceof Date && Math.abs(bought.boughtAt.getTime() - Date.now()) < 60_000);
    assert.equal(await stockOf(1), 7);
    assert.deepEqual(await shop.turnover(), [{ name: "lamp", sold: "3" }]);
  });

  it("what the database refuses comes with its code, and leaves nothing behind", async () => {
    const soldOut = await refusal(shop.buy({ productId: 2, quantity: 5 }));
    assert.deepEqual([soldOut.code, soldOut.constraint], ["23514", "product_stock_check"]);
    assert.equal(await stockOf(2), 1);
    const unknown = await refusal(shop.buy({ productId: 77, quantity: 1 }));
    assert.equal(unknown.code, "23502");
  });
});

describe("promises for what the shop commits", () => {
  it("the token of a purchase can be awaited in another region, and looked up", async () => {
    const { tokens } = await tracked(() => shop.buy({ productId: 1, quantity: 1 }));
    assert.equal(tokens.length, 1);
    const [token = ""] = tokens;
    const promise = client.promise(token);
    const verdict = await promise.durable({ level: "region", timeoutMs: TIMEOUT_MS });
    assert.deepEqual([verdict.verdict, verdict.level], ["durable", "region"]);
    const [judged] = await client.verdicts([token], { level: "region", waitMs: TIMEOUT_MS });
    assert.equal(judged?.verdict, "durable");
  });

  it("work that runs side by side keeps its tokens apart", async () => {
    const works = await Promise.all([
      tracked(() => shop.products()),
      tracked(async () => {
        await shop.products();
        return shop.turnover();
      }),
    ]);
    assert.deepEqual(
      works.map(({ tokens }) => new Set(tokens).size),
      [1, 2],
    );
  });

  it("a safe purchase is answered when it is durable", async () => {
    const { tokens } = await tracked(() => shop.buy({ productId: 1, quantity: 1 }), {
      "highwater-ack": "durable",
      "highwater-level": "global",
      "highwater-max-wait-ms": String(TIMEOUT_MS),
    });
    // The gateway may have received the mark from another tracker than this client asks.
    const [verdict] = await client.verdicts(tokens, { level: "global", waitMs: TIMEOUT_MS });
    assert.equal(verdict?.verdict, "durable");
  });

  it("an id of one's own makes it exactly once, and finds out what became of it", async () => {
    const id = newTransactionId();
    const headers = { "highwater-transaction-id": id };
    const before = Number(await stockOf(1));
    await tracked(() => shop.buy({ productId: 1, quantity: 1 }), headers);
    const again = await refusal(tracked(() => shop.buy({ productId: 1, quantity: 1 }), headers));
    assert.match(again.message, /had already committed/);
    assert.equal(await stockOf(1), before - 1);
    const status = await client.status(id);
    assert.ok(status.state === "committed" || status.state === "durable", status.state);
  });
});

it("the reference shows the wrapper as it is here", async () => {
  const read = (path: string): Promise<string> => readFile(new URL(path, import.meta.url), "utf8");
  const [shown, source] = await Promise.all([
    read("../../../docs/reference/neon.md"),
    read("../src/promises.ts"),
  ]);
  const [code] = /```ts\n([\s\S]*?)```/.exec(shown)?.slice(1) ?? [];
  assert.ok(code !== undefined && code.includes("highwater-token"));
  assert.ok(source.includes(code.trim()), "the first block of code is a part of promises.ts");
});

it("the program itself", async () => {
  const child = spawn(process.execPath, [fileURLToPath(new URL("../src/main.ts", import.meta.url))], {
    env: { DATABASE_URL: DATABASE, GATEWAY_URL: endpoint.gateway, TRACKER_URL: endpoint.tracker },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const status = await new Promise((resolve) => child.once("close", resolve));
  assert.equal(status, 0, output);
  assert.match(output, /^committed: purchase [0-9a-f-]{36} for 3980 cents\ndurable: /);
});
