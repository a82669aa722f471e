// Which events a view shows, what they say in one line, and how they are exported. Pure.
import type {
  BrokenPromiseData,
  DurabilityEvent,
  EpochEventData,
  LiveDurableEvent,
  StallEvent,
  TransactionEventData,
  UnlistedData,
  WebhookDisabledData,
} from "@highwater/protocol";
import { begunText } from "./epoch-text.ts";

export type AnyEvent = DurabilityEvent | LiveDurableEvent;
export type EventType = AnyEvent["type"];

/** In the order in which the view offers them. */
export const EVENT_TYPES = [
  "transaction.lost",
  "transaction.broken",
  "transaction.durable",
  "transaction.delayed",
  "transactions.unlisted",
  "promise.broken",
  "epoch.started",
  "durability.stalled",
  "durability.recovered",
  "webhook.disabled",
] as const satisfies readonly EventType[];

/** Its data are those of one transaction. */
export type TransactionEvent = AnyEvent & { readonly data: TransactionEventData };

export function isOfTransaction(event: AnyEvent): event is TransactionEvent {
  return event.type.startsWith("transaction.");
}

export interface EventFilter {
  /** Empty: every type. */
  readonly type: EventType | "";
  /**
   * An event must match every term: `name=value` of its metadata, or a part of its id, its metadata
   * or its other values.
   */
  readonly search: string;
}

export function filterEvents(events: readonly AnyEvent[], { type, search }: EventFilter): AnyEvent[] {
  const terms = search.toLowerCase().split(/\s+/).filter(Boolean);
  return events.filter(
    (event) => (type === "" || event.type === type) && terms.every((term) => matches(event, term)),
  );
}

function matches(event: AnyEvent, term: string): boolean {
  const pairs = isOfTransaction(event) ? Object.entries(event.data.metadata ?? {}) : [];
  const at = term.indexOf("=");
  if (at > 0) {
    const [wantedName, wantedValue] = [term.slice(0, at), term.slice(at + 1)];
    return pairs.some(
      ([name, value]) => name.toLowerCase() === wantedName && value.toLowerCase().includes(wantedValue),
    );
  }
  return event.type.includes(term) || isIn(event.data, term);
}

/** In a value at any depth. The names of fields say nothing of one event. */
function isIn(value: unknown, term: string): boolean {
  if (typeof value === "object" && value !== null)
    return Object.values(value).some((inner) => isIn(inner, term));
  return String(value).toLowerCase().includes(term);
}

/** Of events that are recorded at the same time, the later one comes first, too. */
export function newestFirst(events: readonly AnyEvent[]): AnyEvent[] {
  return events.toReversed().sort((one, other) => (one.at === other.at ? 0 : one.at > other.at ? -1 : 1));
}

/** One event a line, as the tracker sent it. */
export function toJsonLines(events: readonly AnyEvent[]): string {
  return events.map((event) => `${JSON.stringify(event)}\n`).join("");
}

/** What happened, in one line; of a transaction's event, without its id and metadata. */
export function describeEvent(event: AnyEvent): string {
  const { data } = event;
  switch (event.type) {
    case "transaction.lost":
    case "transaction.broken":
    case "transaction.durable":
    case "transaction.delayed":
      return verdictsText(data as TransactionEventData);
    case "transactions.unlisted": {
      const { count } = data as UnlistedData;
      return `${count === 1 ? "1 transaction has" : `At most ${String(count)} transactions have`} no event of their own and may be lost`;
    }
    case "promise.broken": {
      const { level, transactions } = data as BrokenPromiseData;
      return `The promise of level ${level} is broken; the ledger holds ${String(transactions)} of its transactions`;
    }
    case "epoch.started":
      return begunText(data as EpochEventData);
    case "durability.stalled":
    case "durability.recovered": {
      const { level, pending } = data as StallEvent;
      return event.type === "durability.stalled"
        ? `Level ${level} is stalled; ${String(pending)} transactions wait`
        : `Level ${level} has recovered`;
    }
    case "webhook.disabled":
      return `Webhook ${(data as WebhookDisabledData).endpoint} is disabled (${(data as WebhookDisabledData).why.replaceAll("_", " ")})`;
  }
}

function verdictsText({ verdicts, rule }: TransactionEventData): string {
  const byVerdict = Map.groupBy(Object.entries(verdicts), ([, verdict]) => verdict);
  const parts = Array.from(
    byVerdict,
    ([verdict, levels]) => `${verdict} at ${levels.map(([level]) => level).join(", ")}`,
  );
  return `${parts.join("; ")} (${rule})`;
}

const transactionOf = ({ type, data: { id, attempt } }: TransactionEvent) => ({ type, id, attempt });

export interface Failover {
  readonly atMs: number;
  readonly data: EpochEventData;
  readonly lost: number;
  readonly broken: number;
}

/** The epochs after the first, newest first, with what each discarded of the one before it. */
export function failoversIn(events: readonly DurabilityEvent[]): Failover[] {
  const transactions = events.flatMap((event) => (isOfTransaction(event) ? [transactionOf(event)] : []));
  const countOf = (type: EventType, epoch: string | null): number =>
    new Set(
      transactions.filter((event) => event.type === type && event.attempt === epoch).map(({ id }) => id),
    ).size;
  return events
    .filter((event) => event.type === "epoch.started")
    .map(({ at, data }) => ({ atMs: Date.parse(at), data: data as EpochEventData }))
    .filter(({ data }) => data.previous !== null)
    .map(({ atMs, data }) => ({
      atMs,
      data,
      lost: countOf("transaction.lost", data.previous),
      broken: countOf("transaction.broken", data.previous),
    }))
    .reverse();
}
