// Goal: every event that an endpoint wants is in exactly one message, or in parts that add up to
// it. Every body is below the limit and matches its schema. A message's id depends only on endpoint
// and content.
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeUuidV7, validate, WEBHOOK_LIMITS, type WebhookMessage } from "@highwater/protocol";
import * as protocol from "@highwater/protocol";
import { type RecordedEvent } from "@highwater/store";
import { type Interest, type Message, messagesFor } from "./message.ts";

const EPOCH = "0198c0de-0000-7000-8000-000000000001" as protocol.EpochId;
const OWNER = 7n;
let made = 0;

function lost(more: Partial<RecordedEvent> = {}, metadata?: Record<string, string>): RecordedEvent {
  const id = makeUuidV7(Date.UTC(2026, 0, 1), Buffer.from(String(++made).padStart(10, "0")));
  const data = {
    id,
    attempt: EPOCH,
    verdicts: { region: "lost" },
    rule: "absent",
    ...(metadata && { metadata }),
  };
  const key = `lost/${id}/${EPOCH}`;
  return {
    key,
    type: "transaction.lost",
    owner: OWNER,
    data,
    epoch: EPOCH,
    seq: 3,
    n: made,
    atMs: made,
    ...more,
  };
}

const interest = (more: Partial<Interest> = {}): Interest => ({
  ...{ id: "ep_1", owner: OWNER, events: protocol.WEBHOOK_EVENT_TYPES, filter: {} },
  ...more,
});

function open(message: Message): WebhookMessage {
  const checked = validate(protocol.WebhookMessage, JSON.parse(message.body));
  assert.ok(checked.ok, JSON.stringify(checked));
  assert.ok(Buffer.byteLength(message.body) < WEBHOOK_LIMITS.bodyBytes, String(message.body.length));
  assert.equal(checked.value.type, message.type);
  return checked.value;
}

function transactionsIn(messages: readonly Message[]): protocol.WebhookTransaction[] {
  return messages.flatMap((message) => {
    const { data } = open(message);
    return "transactions" in data ? data.transactions : [];
  });
}

test("a large loss is sent as pages, each under the limit, with nothing left out and nothing twice", () => {
  const events = Array.from({ length: 1_000 }, (_, index) =>
    lost({}, { order: "ü".repeat(index % 200), note: "\u0001".repeat(index % 50) }),
  );
  const messages = messagesFor(interest(), events);
  const pages = messages.map(open).map(({ data }) => data as protocol.TransactionsPage);
  assert.ok(pages.length > 10);
  assert.deepEqual(
    pages.map(({ page, pages: of }) => [page, of]),
    pages.map((_, index) => [index + 1, pages.length]),
  );
  const sent = transactionsIn(messages);
  assert.deepEqual(
    sent.map(({ event, ...data }) => [event, data]),
    events.map(({ seq, n, data }) => [`${String(seq)}.${String(n)}.0198c0de`, data]),
  );
  for (const { sequence, transactions } of pages)
    assert.deepEqual([sequence.first, sequence.last], [transactions[0]?.event, transactions.at(-1)?.event]);
  assert.equal(new Set(messages.map(({ id }) => id)).size, messages.length);
});

test("metadata that is longer than a body comes in parts, with every value whole", () => {
  for (const char of ["x", "é", "🙂", "\u0001", '"']) {
    const metadata: Record<string, string> = Object.create(null) as Record<string, string>;
    const { metadataEntries, metadataChars, metadataNameChars } = protocol.LIMITS;
    for (let index = 0; index < metadataEntries; index++) {
      const name = index === 0 ? "__proto__" : `${String(index).padStart(2, "0")}${char}`.repeat(20);
      metadata[[...name].slice(0, metadataNameChars).join("")] = char.repeat(metadataChars);
    }
    assert.ok(validate(protocol.Metadata, metadata).ok);
    const messages = messagesFor(interest(), [lost(), lost({}, metadata), lost()]);
    const sent = transactionsIn(messages);
    const parts = sent.slice(1, -1);
    if (char === "\u0001") assert.ok(parts.length > 1);
    if (parts.length > 1)
      assert.deepEqual(
        parts.map(({ part, parts: of }) => [part, of]),
        parts.map((_, index) => [index + 1, parts.length]),
      );
    assert.deepEqual(
      parts.flatMap((part) => Object.entries(part.metadata ?? {})),
      Object.entries(metadata),
    );
  }
});

test("an id names endpoint and content: not the place of the record, nor the order", () => {
  const [one, two] = [lost(), lost()];
  const [message] = messagesFor(interest(), [one, two]);
  const again = messagesFor(interest(), [
    { ...two, seq: 9, n: 1 },
    { ...one, seq: 9, n: 2 },
  ]);
  assert.equal(again[0]?.id, message?.id);
  assert.match(message?.id ?? "", /^msg_[A-Za-z0-9_-]{32}$/);
  for (const [other, events] of [
    [interest({ id: "ep_2" }), [one, two]],
    [interest(), [one]],
  ] as const)
    assert.notEqual(messagesFor(other, events)[0]?.id, message?.id);
});

test("owner, type and filter decide what an endpoint gets", () => {
  const mine = lost({}, { shop: "a", kind: "order" });
  const events = [mine, lost({ owner: 8n }, { shop: "a", kind: "order" }), lost({}, { shop: "b" }), lost()];
  const ids = (found: Interest): string[] => transactionsIn(messagesFor(found, events)).map(({ id }) => id);
  assert.deepEqual(ids(interest({ filter: { shop: "a", kind: "order" } })), [mine.data.id]);
  assert.deepEqual(ids(interest({ filter: { constructor: "a" } })), []);
  assert.equal(ids(interest()).length, 3);
  assert.equal(ids(interest({ events: ["transaction.durable"] })).length, 0);
});

test("an event that replaces a less informed one goes to the endpoints that did not get that one", () => {
  const bare = lost();
  const sent = { ...bare, data: { ...bare.data, metadata: { shop: "a" } }, replaced: bare };
  assert.deepEqual(messagesFor(interest(), [sent]), [], "it has a message of this loss");
  assert.equal(messagesFor(interest({ filter: { shop: "a" } }), [sent]).length, 1);
  const owned = { ...lost(), replaced: lost({ owner: 0n }) };
  assert.equal(messagesFor(interest(), [owned]).length, 1);
  assert.deepEqual(messagesFor(interest({ owner: 0n }), [owned]), []);
});

test("an event of no transaction goes to everybody who asks for its type, whatever the filter", () => {
  const data = { level: "region", epoch: EPOCH, offset: "5", pending: 3 };
  const stalled = lost({ type: "durability.stalled", owner: null, key: "stalled/x", data });
  const messages = messagesFor(interest({ filter: { shop: "a" } }), [stalled]);
  assert.equal(messages.length, 1);
  assert.deepEqual(open(messages[0] as Message).data, {
    sequence: { first: `3.${String(stalled.n)}.0198c0de`, last: `3.${String(stalled.n)}.0198c0de` },
    ...data,
  });
});

test("promise.broken brings the range and the transactions together", () => {
  const range = { level: "region", epoch: EPOCH, from: "1", to: "9", transactions: 1 };
  const promise = lost({ type: "promise.broken", owner: null, key: "promise/x", data: range });
  const broken = lost({ type: "transaction.broken" }, { shop: "a" });
  const [message, ...others] = messagesFor(interest({ events: ["promise.broken"] }), [promise, broken]);
  assert.equal(others.length, 0);
  const { data } = open(message as Message) as { data: protocol.BrokenPage };
  assert.equal(data.promises[0]?.to, "9");
  assert.equal(data.transactions[0]?.id, broken.data.id);
});
