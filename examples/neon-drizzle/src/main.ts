// The shop against a running system: `node src/main.ts`, with the addresses in the environment.
// DATABASE_URL (its password is the API key), GATEWAY_URL and TRACKER_URL.
import { Highwater } from "@highwater/sdk";
import { tracked, trackTransactions } from "./promises.ts";
import { Shop } from "./shop.ts";

const {
  DATABASE_URL: database = "postgresql://shop@highwater.example/app",
  GATEWAY_URL: gateway = "http://127.0.0.1:4600",
  TRACKER_URL: tracker = "http://127.0.0.1:4601",
} = process.env;

trackTransactions(`${gateway}/sql`);
const shop = new Shop(database);
await shop.open();
await shop.offer([{ id: 1, name: "lamp", price: "19.90", stock: 1_000, tags: ["light"] }]);

const { result: bought, tokens } = await tracked(() => shop.buy({ productId: 1, quantity: 2 }));
console.log(`committed: purchase ${bought.id} for ${String(bought.total)} cents`);

const client = new Highwater({ endpoints: [{ gateway, tracker }] });
for (const token of tokens) await client.promise(token).durable({ timeoutMs: 10_000 });
console.log("durable: it would survive the loss of this region");
await client.close();
