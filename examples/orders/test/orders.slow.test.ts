// Goal: a customer is answered at once, and gets one e-mail: of confirmation if the order is durable and not before, an
// apology if a failure took it; whatever happens to the shop meanwhile. Method: the shop as a process, a mail server that
// keeps what it gets, the real system with a cut link and a lost region; at the end e-mails are held against the database.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { eventually } from "@highwater/lab-tools/process";
import { System } from "@highwater/lab-system";
import { Highwater, newTransactionId, sql } from "@highwater/sdk";
import { OrderBook } from "../fastify/book.ts";
import { MailSink } from "../mail-sink/sink.ts";
import { Shop } from "./shop.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
/** Where the shop is: in none of the regions, so that it outlives each. */
const HERE = "shop";
const CONFIRMED = "Your order is confirmed";
const LOST = "Your order was lost";

/** The shop through the whole story, and the e-mail that each of its customers has to get in the end. */
class Story {
  readonly orders = new Map<string, { id: string; email: string }>();
  readonly #start: () => Promise<Shop>;
  readonly #sink: MailSink;
  #shop: Shop | undefined;

  constructor(sink: MailSink, start: () => Promise<Shop>) {
    this.#sink = sink;
    this.#start = start;
  }

  get shop(): Shop {
    assert.ok(this.#shop !== undefined);
    return this.#shop;
  }

  async open(): Promise<void> {
    this.#shop = await this.#start();
  }

  address(customer: string): string {
    return `${customer}@example.org`;
  }

  async order(customer: string, email: string): Promise<void> {
    const { status, body } = await this.shop.order(this.address(customer));
    assert.equal(status, 201, JSON.stringify(body));
    assert.equal(body.state, "pending");
    this.orders.set(customer, { id: body.id, email });
  }

  async state(customer: string): Promise<string> {
    return (await this.shop.find(this.orders.get(customer)?.id ?? "")).body.state;
  }

  emails(customer: string): string[] {
    return this.#sink.to(this.address(customer));
  }

  async outcomeOf(customer: string): Promise<void> {
    const email = this.orders.get(customer)?.email ?? "";
    await eventually(`it writes to ${customer}`, () => this.emails(customer).includes(email));
    assert.equal(await this.state(customer), email === CONFIRMED ? "confirmed" : "lost");
  }
}

test("one e-mail about each order, when it is known what became of it", async (context) => {
  const folder = await mkdtemp(join(tmpdir(), "orders-test-"));
  context.after(() => rm(folder, { recursive: true }));
  await using system = await System.start();
  const { cluster } = system;
  await using sink = await MailSink.start({ greylisted: ["calm@example.org"] });
  await using shops = new AsyncDisposableStack();
  const endpoints = await system.endpoints(HERE);
  const book = join(folder, "orders.sqlite");
  const story = new Story(sink, async () =>
    shops.use(await Shop.start({ endpoints, book, smtpUrl: sink.url })),
  );
  const holdReplication = (): Promise<unknown> =>
    Promise.all([WEST, EUROPE].map((region) => cluster.link(EAST, region).cut()));
  await story.open();

  // A mail server that refuses at first is asked again, and gets one e-mail.
  assert.equal((await story.shop.order("nobody")).status, 400);
  assert.equal((await story.shop.find(newTransactionId())).status, 404);
  await story.order("calm", CONFIRMED);
  await story.outcomeOf("calm");

  // The shop dies behind a commit whose token it has not written down, and before another commit.
  await story.shop.stop();
  const entries = new OrderBook(book);
  await using hw = new Highwater({ endpoints });
  for (const customer of ["unanswered", "unsent"]) {
    const id = newTransactionId();
    const order = { customer: story.address(customer), item: "lamp" };
    entries.add(id, order);
    story.orders.set(customer, { id, email: CONFIRMED });
    if (customer === "unanswered")
      await hw.transaction(sql`INSERT INTO purchase VALUES (${id}, ${order.customer}, ${order.item})`, {
        id,
      });
  }
  entries.close();
  await story.open();
  await story.outcomeOf("unanswered");
  await story.outcomeOf("unsent");

  // Killed between commit and durability. Before it died it sent nothing.
  await holdReplication();
  await story.order("waiting", CONFIRMED);
  assert.equal(await story.state("waiting"), "pending");
  await story.shop.kill();
  assert.deepEqual(story.emails("waiting"), []);
  await story.open();
  assert.equal(await story.state("waiting"), "pending");
  await cluster.healAll();
  await story.outcomeOf("waiting");

  // The same with a clean stop, and the region is lost.
  await holdReplication();
  await story.order("unlucky", LOST);
  await story.shop.stop();
  assert.deepEqual(story.emails("unlucky"), []);
  await story.open();
  await story.order("unlucky-too", LOST);
  await system.killRegion(EAST);
  const primary = await cluster.mostAdvancedReplica();
  await cluster.promote(primary);
  await story.outcomeOf("unlucky");
  await story.outcomeOf("unlucky-too");
  await story.order("afterwards", CONFIRMED);
  await story.outcomeOf("afterwards");
  await story.shop.stop();

  // Nothing more can be sent now.
  const rows = await cluster.query(primary, "SELECT id FROM purchase");
  const kept = rows.map(({ id }) => String(id)).sort();
  const orders = [...story.orders].map(([customer, order]) => ({ customer, ...order }));
  for (const { customer, email } of orders) assert.deepEqual(story.emails(customer), [email], customer);
  assert.equal(sink.emails.length, orders.length);
  assert.equal(new Set(sink.emails.map(({ messageId }) => messageId)).size, orders.length);
  assert.deepEqual(kept, orders.flatMap(({ id, email }) => (email === CONFIRMED ? id : [])).sort());
});
