// Goal: filters find events by type, metadata and id; the export is what the tracker sent; each failover has its own losses.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { DurabilityEvent, DurabilityEventType, TransactionEventData } from "@highwater/protocol";
import {
  describeEvent,
  type EventType,
  failoversIn,
  filterEvents,
  newestFirst,
  toJsonLines,
} from "./event-filter.ts";

const FIRST = "11111111-1111-4111-8111-111111111111";
const SECOND = "22222222-2222-4222-8222-222222222222";
const AT = "2026-11-28T12:00:00.000Z";

const transaction = (
  n: number,
  type: DurabilityEventType,
  changes: Partial<TransactionEventData> = {},
): DurabilityEvent => ({
  id: `2.${String(n)}.22222222`,
  type,
  at: AT,
  data: {
    id: `0198c0de-0000-7000-8000-${String(n).padStart(12, "0")}`,
    attempt: FIRST,
    verdicts: { disk: "durable", region: "lost" },
    rule: "R6 absent",
    ...changes,
  },
});

const epoch = (seq: number, id: string, previous: string | null): DurabilityEvent => ({
  id: `${String(seq)}.1.${id.slice(0, 8)}`,
  type: "epoch.started",
  at: AT,
  data: {
    ...{ epoch: id, seq, previous, node: "us-west", cause: "promotion" },
    ...{ forkOffset: "7", complete: false, unlisted: 0 },
  },
});

const events = [
  epoch(1, FIRST, null),
  epoch(2, SECOND, FIRST),
  transaction(1, "transaction.lost", { metadata: { Order: "A-17", customer: "Ada" } }),
  transaction(2, "transaction.lost", { metadata: { order: "B-17" } }),
  transaction(2, "transaction.lost", { metadata: { order: "B-17" }, settledAt: "global" }),
  transaction(3, "transaction.broken", { attempt: SECOND }),
];
const found = (search: string, type: EventType | "" = ""): string[] =>
  filterEvents(events, { search, type }).map(({ type: kind }) => kind);

test("a search finds metadata by name and value, and parts of ids and values", () => {
  assert.equal(found("order=a-17").length, 1);
  assert.equal(found("order=17").length, 3);
  assert.equal(found("order=17 ada").length, 1);
  assert.equal(found("customer=b").length, 0);
  assert.equal(found("000000000003").length, 1);
  assert.equal(found("").length, events.length);
  assert.deepEqual(found("", "transaction.broken"), ["transaction.broken"]);
});

test("the newest event is the first, and of two at the same time the one that was recorded later", () => {
  const at = (n: number, time: string): DurabilityEvent => ({
    ...transaction(n, "transaction.lost"),
    at: time,
  });
  const [early, late] = ["2026-11-28T12:00:00.000Z", "2026-11-28T12:00:00.001Z"];
  const ordered = newestFirst([at(1, early), at(2, late), at(3, late), at(4, early)]);
  assert.deepEqual(
    ordered.map((event) => "id" in event && event.id.split(".")[1]),
    ["3", "2", "4", "1"],
  );
});

test("the export has one event a line, unchanged", () => {
  const lines = toJsonLines(events).split("\n");
  assert.equal(lines.pop(), "");
  assert.deepEqual(
    lines.map((line) => JSON.parse(line) as unknown),
    events,
  );
});

test("a failover has what it discarded of the epoch before it, each transaction once", () => {
  const [only, ...others] = failoversIn(events);
  assert.deepEqual([only?.data.seq, only?.lost, only?.broken, others.length], [2, 2, 0, 0]);
});

test("an event says its verdicts and its rule", () => {
  assert.equal(
    describeEvent(transaction(1, "transaction.lost")),
    "durable at disk; lost at region (R6 absent)",
  );
  assert.equal(describeEvent(epoch(2, SECOND, FIRST)), "Epoch 2 has begun on us-west (a promotion)");
});
