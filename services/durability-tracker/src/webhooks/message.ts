// Turns recorded events into the messages of one endpoint: selects the events that it wants, splits
// pages at the size limit, and derives each id from endpoint and content, so that a message always
// has the same id. Pure.
import { hash } from "node:crypto";
import { WEBHOOK_LIMITS, type WebhookEventType } from "@highwater/protocol";
import { type FreshEvent, type RecordedEvent } from "@highwater/store";
import { eventId } from "../events/wire.ts";

export interface Interest {
  readonly id: string;
  readonly owner: bigint;
  readonly events: readonly string[];
  /** A transaction's metadata must have all of these values. */
  readonly filter: Readonly<Record<string, string>>;
}

export interface Message {
  readonly id: string;
  readonly type: string;
  readonly body: string;
}

type Data = Readonly<Record<string, unknown>>;

/** An entry of a page: an event, or a part of one that is too long for a page. */
interface Item {
  readonly event: RecordedEvent;
  /** Distinguishes the parts of one event. */
  readonly key: string;
  readonly data: Data;
  readonly bytes: number;
}

/**
 * Room for the rest of the body: type, timestamp, page numbers, event ids of 42 characters, names,
 * brackets. A test checks it.
 */
const ENVELOPE_BYTES = 512;
const PAGE_BYTES = WEBHOOK_LIMITS.bodyBytes - ENVELOPE_BYTES;
/** `,"part":99,"parts":99`, and the comma before the next item. */
const PART_BYTES = 24;

const PAGED: Readonly<Record<string, WebhookEventType>> = {
  "transaction.lost": "transaction.lost",
  "transaction.durable": "transaction.durable",
  "transaction.delayed": "transaction.delayed",
  "transaction.broken": "promise.broken",
  "promise.broken": "promise.broken",
};

/** The type by which an endpoint subscribes to an event. */
export function webhookTypeOf(event: Pick<RecordedEvent, "type">): string {
  return PAGED[event.type] ?? event.type;
}

export function passes(
  filter: Readonly<Record<string, string>>,
  metadata: Readonly<Record<string, string>> | undefined,
): boolean {
  // Own properties only, so that `constructor` counts only if the client has set it.
  return Object.entries(filter).every(
    ([name, value]) => metadata !== undefined && Object.hasOwn(metadata, name) && metadata[name] === value,
  );
}

function wants(interest: Interest, event: FreshEvent): boolean {
  // The endpoint already has a message about the event.
  if (event.replaced !== undefined && wants(interest, event.replaced)) return false;
  if (event.owner !== null && event.owner !== interest.owner) return false;
  if (!interest.events.includes(webhookTypeOf(event))) return false;
  if (!event.type.startsWith("transaction.")) return true;
  return passes(interest.filter, event.data.metadata as Readonly<Record<string, string>> | undefined);
}

/** All messages for the endpoint about these events, in order. */
export function messagesFor(interest: Interest, events: readonly FreshEvent[]): Message[] {
  const byType = Map.groupBy(
    events.filter((event) => wants(interest, event)),
    webhookTypeOf,
  );
  return [...byType].flatMap(([type, found]) =>
    found.some((event) => event.type in PAGED)
      ? pagesOf(interest.id, type, found)
      : found.map((event) => single(interest.id, event)),
  );
}

export function testMessage(endpoint: string, nonce: string, nowMs: number): Message {
  const body = JSON.stringify({ type: "webhook.test", timestamp: instant(nowMs), data: { endpoint } });
  return { id: messageId(endpoint, "webhook.test", [nonce]), type: "webhook.test", body };
}

function single(endpoint: string, event: RecordedEvent): Message {
  const { type, atMs, data, key } = event;
  const sequence = { first: eventId(event), last: eventId(event) };
  const body = JSON.stringify({ type, timestamp: instant(atMs), data: { sequence, ...data } });
  return { id: messageId(endpoint, type, [key]), type, body };
}

function pagesOf(endpoint: string, type: string, events: readonly RecordedEvent[]): Message[] {
  const groups: Item[][] = [];
  let room = 0;
  for (const item of events.flatMap(itemsOf)) {
    if (item.bytes > room || groups.length === 0) {
      groups.push([]);
      room = PAGE_BYTES;
    }
    groups.at(-1)?.push(item);
    room -= item.bytes;
  }
  return groups.map((items, index) => {
    const [first, last] = [items[0]?.event, items.at(-1)?.event];
    if (first === undefined || last === undefined) throw new Error("a page is empty");
    const atMs = Math.max(...items.map(({ event }) => event.atMs));
    const promises = items.filter(({ event }) => event.type === "promise.broken");
    const transactions = items.filter(({ event }) => event.type !== "promise.broken");
    const data = {
      page: index + 1,
      pages: groups.length,
      sequence: { first: eventId(first), last: eventId(last) },
      ...(type === "promise.broken" && { promises: promises.map((item) => item.data) }),
      transactions: transactions.map((item) => item.data),
    };
    const body = JSON.stringify({ type, timestamp: instant(atMs), data });
    const keys = items.map(({ key }) => key);
    return { id: messageId(endpoint, type, keys), type, body };
  });
}

function itemsOf(event: RecordedEvent): Item[] {
  const whole = { event: eventId(event), ...event.data };
  const bytes = bytesOf(whole);
  if (bytes <= PAGE_BYTES) return [{ event, key: event.key, data: whole, bytes }];
  return partsOf(event, whole);
}

/** Splits an event into as many parts as its metadata need. Nothing is left out. */
function partsOf(event: RecordedEvent, whole: Data): Item[] {
  const { metadata, ...rest } = whole;
  const roomMax = PAGE_BYTES - bytesOf({ ...rest, metadata: {} }) - PART_BYTES;
  const parts: Record<string, unknown>[] = [];
  let room = 0;
  for (const [name, value] of Object.entries((metadata ?? {}) as Data)) {
    const bytes = bytesOf({ [name]: value });
    if (bytes > room) {
      parts.push({});
      room = roomMax;
    }
    // Not by assignment, which would set the prototype for the name `__proto__`.
    Object.defineProperty(parts.at(-1), name, { value, enumerable: true });
    room -= bytes;
  }
  return parts.map((part, index) => {
    const data = { ...rest, metadata: part, part: index + 1, parts: parts.length };
    return { event, key: `${event.key}#${String(index + 1)}`, data, bytes: bytesOf(data) };
  });
}

/** Size in a list, with the comma after it. */
function bytesOf(data: unknown): number {
  return Buffer.byteLength(JSON.stringify(data)) + 1;
}

/**
 * From the events' keys, which stay the same when a failover makes trackers record events again.
 * Their ids do not.
 */
function messageId(endpoint: string, type: string, keys: readonly string[]): string {
  const digest = hash("sha256", JSON.stringify([endpoint, type, ...keys.toSorted()]), "base64url");
  return `msg_${digest.slice(0, 32)}`;
}

function instant(ms: number): string {
  return new Date(ms).toISOString();
}
