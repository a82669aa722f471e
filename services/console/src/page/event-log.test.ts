// Goal: the event log has every kept event and every new one once, in a bounded place, and the durable ones only if asked.
// Method: a stand-in for the tracker's pages and stream.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { DurabilityEvent, EventPage } from "@highwater/protocol";
import { FakeClock, settle } from "@highwater/runtime/testing";
import type { Api, Followed } from "./api.ts";
import { EventLog, MAX_EVENTS } from "./event-log.ts";

const eventAt = (n: number): DurabilityEvent => ({
  id: `1.${String(n)}.11111111`,
  type: "webhook.disabled",
  at: "2026-11-28T12:00:00.000Z",
  data: { endpoint: String(n), why: "gone", failingSince: null },
});

class Tracker {
  readonly asked: string[] = [];
  readonly followed: Followed[] = [];
  readonly #count: number;

  constructor(count: number) {
    this.#count = count;
  }

  get(path: string): Promise<EventPage> {
    this.asked.push(path);
    const after = Number(/after=\d+\.(\d+)/.exec(path)?.[1]);
    const to = Math.min(after + 1_000, this.#count);
    const events = Array.from({ length: to - after }, (_, at) => eventAt(after + at + 1));
    return Promise.resolve({
      events,
      next: `1.${String(to)}.11111111`,
      more: to < this.#count,
      missed: false,
    });
  }

  follow(followed: Followed): Promise<void> {
    this.followed.push(followed);
    followed.onConnected(true, "");
    return new Promise((resolve) => {
      followed.signal.addEventListener("abort", () => {
        resolve();
      });
    });
  }
}

async function open(count: number) {
  const [tracker, clock] = [new Tracker(count), new FakeClock()];
  const log = new EventLog(tracker as unknown as Api, clock);
  log.open();
  log.open();
  while (log.state.value !== "live") await settle();
  return { tracker, clock, log };
}

test("all pages are read once, then the stream goes on after the last of them", async () => {
  const { tracker, clock, log } = await open(2_500);
  assert.deepEqual([tracker.asked.length, log.events.value.length], [3, 2_500]);
  const [stream] = tracker.followed;
  assert.equal(stream?.lastEventId, "1.2500.11111111");
  for (const n of [2_501, 2_501, 2_502])
    stream?.onMessage({ id: eventAt(n).id, event: "webhook.disabled", data: JSON.stringify(eventAt(n)) });
  await clock.advance(200);
  assert.equal(log.events.value.length, 2_502, "an event that comes again counts once");
  log.stop();
});

test("the oldest leave when there are too many, and the log says so", async () => {
  const { log } = await open(MAX_EVENTS + 10);
  assert.deepEqual([log.events.value.length, log.isShortened.value], [MAX_EVENTS, true]);
  assert.equal(log.events.value[0]?.id, "1.11.11111111");
  log.stop();
});

test("durable transactions are asked for from the last event on, and shown apart from the recorded ones", async () => {
  const { tracker, clock, log } = await open(1);
  log.wantDurable("region");
  while (tracker.followed.length < 2) await settle();
  const [first, second] = tracker.followed;
  assert.deepEqual([first?.path.includes("durable"), second?.lastEventId], [false, "1.1.11111111"]);
  assert.match(second?.path ?? "", /durable=true&level=region/);
  second?.onMessage({ id: undefined, event: "transaction.durable", data: "{}" });
  await clock.advance(200);
  assert.deepEqual([log.durable.value.length, log.events.value.length], [1, 1]);
  log.stop();
});
