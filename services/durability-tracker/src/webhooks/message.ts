// Turns recorded events into the messages of one endpoint: selects what it wants, splits pages at
// the size limit, and derives each id from endpoint and content, so that the same message always
// has the same id. Pure.
import { hash } from "node:crypto";
import { WEBHOOK_LIMITS, type WebhookEventType } from "@highwater/protocol";
import { type FreshEvent, type RecordedEvent } from "@highwater/store";
import { eventId } from "../events/wire.ts";

export interface Interest {
  readonly id: string;
  readonly owner: bigint;
  readonly events: readonly string[];
  /** All of these values must be in a transaction's metadata. */
  readonly filter: Readonly<Record<string, string>>;
}

export interface Message {
  readonly id: string;
  readonly type: string;
  readonly body: string;
}

type Data = Readonly<Record<string, unknown>>;

/** What goes into a page: an event, or a part of one that is too long for a page. */
interface Item {
  readonly event: RecordedEvent;
  /** Distinguishes the parts of one event. */
  readonly key: string;
  readonly data: Data;
  readonly bytes: number;
}

/**
 * Around the items: type, timestamp, page numbers, event ids of 42 characters, names, brackets.
 * Tested.
 */
const ENVELOPE_BYTES = 512;
const PAGE_BYTES = WEBHOOK_LIMITS.bodyBytes - ENVELOPE_BYTES;
/** `,"part":99,"parts":99` and the comma to the next item. */
const PART_BYTES = 24;

const PAGED: Readonly<Record<string, WebhookEventType>> = {
  "transaction.lost": "transaction.lost",
  "transaction.durable": "transaction.durable",
  "transaction.delayed": "transaction.delayed",
  "transaction.broken": "promise.broken",
  "promise.broken": "promise.broken",
};

/** The type under which an endpoint asks for an event. */
export function webhookTypeOf(event: Pick<RecordedEvent, "type">): string {
  return PAGED[event.type] ?? event.type;
}

export function passes(
  filter: Readonly<Record<string, string>>,
  metadata: Readonly<Record<string, string>> | undefined,
): boolean {
  // Own properties only: `constructor` is no metadata unless somebody wrote it.
  return Object.entries(filter).every(
    ([name, value]) => metadata !== undefined && Object.hasOwn(metadata, name) && metadata[name] === value,
  );
}

function wants(interest: Interest, event: FreshEvent): boolean {
  // The endpoint has a message of it already.
  if (event.replaced !== undefined && wants(interest, event.replaced)) return false;
  if (event.owner !== null && event.owner !== interest.owner) return false;
  if (!interest.events.includes(webhookTypeOf(event))) return false;
  if (!event.type.startsWith("transaction.")) return true;
  return passes(interest.filter, event.data.metadata as Readonly<Record<string, string>> | undefined);
}

/** Everything that the endpoint gets of these events, in their order. */
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

/** Nothing is left out: the names of the metadata are dealt out to as many parts as it takes. */
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
    // Not by assignment: `__proto__` is a name like any other.
    Object.defineProperty(parts.at(-1), name, { value, enumerable: true });
    room -= bytes;
  }
  return parts.map((part, index) => {
    const data = { ...rest, metadata: part, part: index + 1, parts: parts.length };
    return { event, key: `${event.key}#${String(index + 1)}`, data, bytes: bytesOf(data) };
  });
}

/** As it counts inside a list: with the comma behind it. */
function bytesOf(data: unknown): number {
  return Buffer.byteLength(JSON.stringify(data)) + 1;
}

/**
 * The keys of events are the same wherever they are recorded; their ids differ when a failover
 * makes them be recorded again.
 */
function messageId(endpoint: string, type: string, keys: readonly string[]): string {
  const digest = hash("sha256", JSON.stringify([endpoint, type, ...keys.toSorted()]), "base64url");
  return `msg_${digest.slice(0, 32)}`;
}

function instant(ms: number): string {
  return new Date(ms).toISOString();
}
