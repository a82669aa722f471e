// Goal: a client that reads on after a change of history misses nothing of the one that is kept, and old events go by a time that
// no single clock decides. Method: over real HTTP, with a store in memory for each history.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type EpochId } from "@highwater/protocol";
import { realClock, sleep } from "@highwater/runtime";
import { type EventStore } from "@highwater/store";
import { MemoryEventLog, MemoryEvents } from "@highwater/store/memory";
import { EPOCH, NEXT, record, SIBLING, stored, Tracker } from "../../test/support/events.ts";

/** Two nodes that were promoted side by side: their second epochs have the same number. */
class Twins {
  readonly first = new MemoryEventLog(EPOCH);
  readonly sibling = new MemoryEventLog(EPOCH);
  #followed = this.first;
  readonly #events: EventStore = {
    record: (...all) => this.#now().record(...all),
    read: (...all) => this.#now().read(...all),
    extent: (...all) => this.#now().extent(...all),
    expire: (...all) => this.#now().expire(...all),
    close: () => undefined,
  };

  #now(): MemoryEvents {
    return new MemoryEvents(this.#followed);
  }

  /** Both have the same two events of the epoch that they share; the sibling has a third one of it. */
  constructor() {
    const shared = [stored(7n), stored(7n)];
    for (const log of [this.first, this.sibling]) for (const event of shared) log.append(event);
    this.sibling.append(stored(7n));
    this.first.begin(NEXT);
    this.sibling.begin(SIBLING);
    for (let at = 0; at < 50; at++) this.first.append(stored(7n));
    for (let at = 0; at < 3; at++) this.sibling.append(stored(7n));
  }

  /** A tracker that follows the first one. */
  async start(): Promise<Tracker> {
    const tracker = await Tracker.start(this.#events);
    tracker.primaryEpochOf(NEXT);
    return tracker;
  }

  keep(tracker: Tracker): void {
    this.#followed = this.sibling;
    tracker.state.topology.epochs.add([record(SIBLING, 2)]);
    tracker.primaryEpochOf(SIBLING);
  }
}

const numbersOf = (events: readonly { data: unknown }[]): unknown[] =>
  events.map(({ data }) => (data as { data?: { number: number }; number?: number }).data?.number);

describe("a history that was given up", () => {
  const KEPT = [
    "1.1.e1000000",
    "1.2.e1000000",
    "1.3.e1000000",
    "2.1.e2bbbbbb",
    "2.2.e2bbbbbb",
    "2.3.e2bbbbbb",
  ];

  it("costs the reader of a page no event of the one that is kept", async () => {
    const twins = new Twins();
    const tracker = await twins.start();
    const { body } = await tracker.get("?format=json");
    assert.equal(body["next"], "2.50.e2000000");
    twins.keep(tracker);
    const { body: kept } = await tracker.get(`?format=json&after=${String(body["next"])}`);
    assert.deepEqual(
      (kept["events"] as { id: string }[]).map(({ id }) => id),
      KEPT,
      "the part of the shared epoch that the other history lacked is sent as well",
    );
    assert.deepEqual([kept["next"], kept["missed"]], ["2.3.e2bbbbbb", false]);
    const { body: over } = await tracker.get(`?format=json&after=${String(kept["next"])}`);
    assert.deepEqual([over["events"], over["next"]], [[], "2.3.e2bbbbbb"]);
    // A cursor in an epoch that both have is valid in either history.
    const { body: shared } = await tracker.get("?format=json&after=1.2.e1000000");
    assert.deepEqual(
      (shared["events"] as { id: string }[]).map(({ id }) => id),
      KEPT.slice(2),
    );
  });

  it("ends for a stream where the histories part: it begins again there", async () => {
    const twins = new Twins();
    const tracker = await twins.start();
    await using live = await tracker.listen("?after=0.0");
    await live.until("all of the first are told", () => live.published.length === 52);
    twins.keep(tracker);
    await live.until("all of the kept one are told", () => live.published.length === 58);
    const again = live.received.slice(53);
    assert.deepEqual(again[0], {
      ...{ id: "1.0.e1000000", event: "begin", data: { after: "1.0.e1000000", missed: false } },
    });
    assert.deepEqual(
      again.slice(1).map(({ id }) => id),
      KEPT,
    );
    assert.deepEqual(
      numbersOf(again.slice(1)),
      twins.sibling.events.map(({ data }) => data["number"]),
    );
    twins.sibling.append(stored(7n));
    await live.until("it goes on", () => live.lastId === "2.4.e2bbbbbb");
    await using resumed = await tracker.listen("", { "last-event-id": "2.50.e2000000" });
    await resumed.until("all are told", () => resumed.published.length === 7);
    assert.deepEqual(resumed.received[0]?.data, { after: "1.0.e1000000", missed: false });
  });

  it("says so when events behind the point of parting may have been dropped", async () => {
    const twins = new Twins();
    const tracker = await twins.start();
    twins.sibling.nowMs = 1_000;
    twins.sibling.drop(500);
    twins.keep(tracker);
    const { body } = await tracker.get("?format=json&after=2.50.e2000000");
    assert.equal(body["missed"], true);
    const { body: all } = await tracker.get("?format=json&after=0.0");
    assert.equal(all["missed"], false);
  });

  it("that is unknown here is waited for, and then read from the beginning", async () => {
    const twins = new Twins();
    const tracker = await twins.start();
    const later = "e3000000-0000-4000-8000-000000000003" as EpochId;
    const asked = tracker.get("?format=json&after=3.1.e3000000");
    twins.first.begin(later);
    for (let at = 0; at < 2; at++) twins.first.append(stored(7n));
    tracker.state.topology.epochs.add([{ ...record(later, 3), previous: NEXT }]);
    tracker.primaryEpochOf(later);
    const { body } = await asked;
    assert.deepEqual(
      (body["events"] as { id: string }[]).map(({ id }) => id),
      ["3.2.e3000000"],
    );
    const { body: strange } = await tracker.get("?format=json&limit=1&after=3.1.deadbeef");
    assert.equal((strange["events"] as { id: string }[])[0]?.id, "1.1.e1000000");
    assert.equal(strange["missed"], false, "nothing was dropped yet");
  });
});

describe("an old event", () => {
  it("is kept while the clocks disagree, and dropped by the time on which they agree", async () => {
    const store = new MemoryEventLog(EPOCH);
    const tracker = await Tracker.start(store, { keepMs: 1_000, expireEveryMs: 5 });
    const [early, late] = [store.append(stored(7n)), store.append(stored(7n))].map(({ key }) => key);
    // The primary's own clock is a year ahead.
    store.nowMs = 365 * 86_400_000;
    store.append(stored(7n));
    const rounds = async (): Promise<void> => {
      for (const until = tracker.timesAsked + 3; tracker.timesAsked < until;) await sleep(realClock, 5);
    };
    await rounds();
    assert.equal(store.events.length, 3);
    tracker.timeMs = 999;
    await rounds();
    assert.deepEqual(
      store.events.slice(0, 2).map(({ key }) => key),
      [early, late],
    );
    tracker.timeMs = 1_001;
    await rounds();
    assert.equal(store.events.length, 1);
  });
});
