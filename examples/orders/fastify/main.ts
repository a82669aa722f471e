// The shop as a program: settings from the environment, and a clean end on SIGTERM.
//
//   PORT       3000
//   BOOK       the file of what is owed: orders.sqlite. One process at a time
//   SMTP_URL   smtp://127.0.0.1:2525
//   GATEWAYS   addresses by commas, the nearest region first: those of `make up PORT_BASE=4600`
//   TRACKERS   the same
import { Highwater } from "@highwater/sdk";
import { buildApp } from "./app.ts";
import { OrderBook } from "./book.ts";
import { mailer } from "./mailer.ts";
import { Orders } from "./orders.ts";

const {
  PORT = "3000",
  BOOK = "orders.sqlite",
  SMTP_URL = "smtp://127.0.0.1:2525",
  GATEWAYS = "http://127.0.0.1:4600,http://127.0.0.1:4610,http://127.0.0.1:4620",
  TRACKERS = "http://127.0.0.1:4601,http://127.0.0.1:4611,http://127.0.0.1:4621",
} = process.env;

const trackers = TRACKERS.split(",");
const endpoints = GATEWAYS.split(",").map((gateway, at) => ({ gateway, tracker: trackers[at] ?? "" }));
const orders = new Orders({
  hw: new Highwater({ endpoints }),
  book: new OrderBook(BOOK),
  send: mailer(SMTP_URL),
  warn: (error, what) => {
    app.log.warn(error, what);
  },
});
const app = buildApp(orders, { logger: true });
for (const signal of ["SIGTERM", "SIGINT"] as const)
  process.once(signal, () => {
    void app.close();
  });
await app.listen({ port: Number(PORT) });
