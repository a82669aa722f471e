// Conformance of the events: numbers without gaps in commit order, and each event once, whichever
// tracker records it.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { type EpochId, type ErrorCode, HighwaterError } from "@highwater/protocol";
import {
  comparePositions,
  type EventFilter,
  type EventPosition,
  type EventStore,
  FIRST_POSITION,
  MAX_EVENTS_PER_RECORDING,
  type NewEvent,
  type RecordedEvent,
  type Recording,
} from "../events.ts";

export interface EventHarness {
  /** Of two processes, on one history. */
  readonly stores: readonly [EventStore, EventStore];
  /** The node that is the primary, and the epoch it is in. */
  readonly node: string;
  readonly epoch: EpochId;
  /** Ends the epoch; the next one continues its history. */
  nextEpoch(): Promise<EpochId>;
  /** Everything that was recorded so far gets older than this. */
  age(ms: number): Promise<void>;
  /** The time of those who record. */
  nowMs(): number;
  close(): Promise<void>;
}

let made = 0;

/** Default: an event of its own kind. */
export function newEvent(more: Partial<NewEvent> = {}): NewEvent {
  const number = String(++made);
  return { key: `lost/${number}`, type: "transaction.lost", owner: 0n, data: { id: number }, ...more };
}

const ALL: EventFilter = { after: FIRST_POSITION, owner: null, types: null, limit: 10_000 };
const keys = (events: readonly NewEvent[]): string[] => events.map(({ key }) => key);

async function assertRefused(work: Promise<unknown>, code: ErrorCode): Promise<void> {
  await assert.rejects(work, (cause) => cause instanceof HighwaterError && cause.code === code);
}

function assertGapless(events: readonly EventPosition[]): void {
  for (const [at, { seq, n }] of events.entries()) {
    const previous = events[at - 1];
    assert.equal(n, previous?.seq === seq ? previous.n + 1 : 1);
    assert.ok(previous === undefined || comparePositions(previous, { seq, n }) < 0);
  }
}

class Bench {
  readonly harness: EventHarness;
  epoch: EpochId;

  constructor(harness: EventHarness) {
    this.harness = harness;
    this.epoch = harness.epoch;
  }

  record(events: readonly NewEvent[], by: 0 | 1 = 0): Promise<Recording> {
    return this.harness.stores[by].record(this.harness.node, this.epoch, events);
  }

  read(more: Partial<EventFilter> = {}): Promise<readonly RecordedEvent[]> {
    return this.harness.stores[1].read(this.harness.node, this.epoch, { ...ALL, ...more });
  }

  async end(): Promise<EventPosition> {
    return (await this.harness.stores[1].extent(this.harness.node, this.epoch)).end;
  }
}

/** In this order: each finds what those before it have recorded. */
export function eventConformance(name: string, makeHarness: () => Promise<EventHarness>): void {
  describe(`events in ${name}`, () => {
    let bench: Bench;
    before(async () => {
      bench = new Bench(await makeHarness());
    });
    after(() => bench.harness.close());
    recordingTests(() => bench);
    readingTests(() => bench);
    lifetimeTests(() => bench);
    supersedingTests(() => bench);
  });
}

function recordingTests(the: () => Bench): void {
  it("before there is one: nothing to read, and the first place", async () => {
    const bench = the();
    assert.deepEqual(await bench.read(), []);
    const extent = await bench.harness.stores[0].extent(bench.harness.node, bench.epoch);
    assert.deepEqual(extent, { end: FIRST_POSITION, expiredTo: FIRST_POSITION });
  });

  it("are numbered in the order in which they are given, and come back as they were", async () => {
    const bench = the();
    const asked = [newEvent({ owner: -9_000_000_000_000_000_000n }), newEvent({ owner: null }), newEvent()];
    const { events, fresh, asOf, epoch: of } = await bench.record(asked);
    assert.deepEqual([fresh, of], [3, bench.epoch]);
    assert.ok(asOf > 0n);
    assertGapless(events);
    assert.deepEqual(
      events.map(({ key, type, owner, data }) => ({ key, type, owner, data })),
      asked,
    );
    assert.deepEqual(await bench.read(), events);
    assert.deepEqual(await bench.end(), { epoch: bench.epoch, seq: events[2]?.seq, n: 3 });
    for (const event of events) assert.equal(event.epoch, bench.epoch);
  });

  it("are recorded once: a second recorder gets the first one's", async () => {
    const bench = the();
    const first = newEvent({ data: { said: "first" } });
    const [before] = (await bench.record([first])).events;
    const more = newEvent();
    const again = await bench.record([{ ...first, data: { said: "second" } }, more, more, first], 1);
    assert.equal(again.fresh, 1);
    assert.deepEqual(keys(again.events), [first.key, more.key, more.key, first.key]);
    assert.deepEqual([again.events[0], again.events[3]], [before, before]);
    const from = before as EventPosition;
    assert.deepEqual(
      await bench.read({ after: from }),
      [again.events[1]],
      "no number is spent on the others",
    );
    assert.deepEqual((await bench.record([])).events, []);
  });

  it("two that record the same at once agree, and no number is missing", async () => {
    const bench = the();
    const from = await bench.end();
    const shared = Array.from({ length: 200 }, () => newEvent());
    const [one, two] = await Promise.all([bench.record(shared, 0), bench.record([...shared].reverse(), 1)]);
    assert.equal(one.fresh + two.fresh, 200);
    assert.deepEqual(one.events, [...two.events].reverse());
    const found = await bench.read({ after: from });
    assert.deepEqual(new Set(keys(found)), new Set(keys(shared)));
    assert.equal(found.length, 200);
    assertGapless(await bench.read());
  });
}

function readingTests(the: () => Bench): void {
  it("a reader that goes on from the last event that it has read misses none, whenever each recorder commits", async () => {
    const bench = the();
    let cursor: EventPosition = await bench.end();
    const seen: RecordedEvent[] = [];
    let isOver = false;
    const reader = (async () => {
      for (let last = false; !last;) {
        last = isOver;
        const page = await bench.read({ after: cursor, limit: 7 });
        seen.push(...page);
        cursor = page.at(-1) ?? cursor;
        last &&= page.length === 0;
      }
    })();
    const rounds = Array.from({ length: 40 }, () => [newEvent(), newEvent(), newEvent()]);
    const overlapping = rounds.map((batch, at) => [...batch, ...(rounds[at + 1] ?? [])]);
    await Promise.all([
      (async () => {
        for (const batch of overlapping) await bench.record(batch, 0);
      })(),
      (async () => {
        for (const batch of overlapping.toReversed()) await bench.record(batch, 1);
      })(),
    ]);
    isOver = true;
    await reader;
    assert.deepEqual(keys(seen).sort(), keys(rounds.flat()).sort());
    assertGapless(await bench.read());
  });

  it("are read by owner, type and page", async () => {
    const bench = the();
    const from = await bench.end();
    const mine = newEvent({ owner: 42n });
    const theirs = newEvent({ owner: 2n ** 128n - 1n, type: "transaction.broken" });
    const everybodys = newEvent({ owner: null, type: "epoch.started" });
    const alsoMine = newEvent({ owner: 42n, type: "transaction.delayed" });
    await bench.record([mine, theirs, everybodys, alsoMine]);
    const found = async (more: Partial<EventFilter>): Promise<string[]> =>
      keys(await bench.read({ after: from, ...more }));
    assert.deepEqual(await found({ owner: 42n }), keys([mine, everybodys, alsoMine]));
    assert.deepEqual(await found({ owner: 7n }), keys([everybodys]));
    assert.deepEqual(await found({ owner: 0n }), keys([everybodys]));
    assert.deepEqual(await found({ types: ["epoch.started", "transaction.broken"] }), [
      theirs.key,
      everybodys.key,
    ]);
    assert.deepEqual(await found({ owner: 42n, types: ["transaction.lost"] }), [mine.key]);
    assert.deepEqual(await found({ limit: 2 }), keys([mine, theirs]));
    assert.deepEqual(await found({ types: [] }), []);
  });

  it("hold whatever characters an application uses", async () => {
    const bench = the();
    const metadata = {
      nul: "a\u0000b",
      quotes: `'"\\{},(null)\n\r\t\u2028`,
      half: "\ud83d",
      whole: "😀 日本語 ü \u007f \uffff",
      "na\u0000me": "",
      $offset: "1",
    };
    const [recorded] = (await bench.record([newEvent({ data: { metadata } })])).events;
    assert.deepEqual(recorded?.data, { metadata });
    assert.deepEqual((await bench.read()).at(-1), recorded);
  });
}

function lifetimeTests(the: () => Bench): void {
  it("more than the limit are refused before anything is done", async () => {
    const bench = the();
    const from = await bench.end();
    const many = Array.from({ length: MAX_EVENTS_PER_RECORDING + 1 }, () => newEvent());
    await assert.rejects(bench.record(many), RangeError);
    assert.deepEqual(await bench.end(), from);
    assert.equal((await bench.record(many.slice(1))).fresh, MAX_EVENTS_PER_RECORDING);
  });

  it("old ones are dropped, and where that is so is known", async () => {
    const bench = the();
    const last = (await bench.read()).at(-1);
    assert.ok(last !== undefined);
    await bench.harness.age(60_000);
    const kept = await bench.record([newEvent()]);
    const expire = (keepMs: number) =>
      bench.harness.stores[0].expire(bench.harness.node, bench.epoch, bench.harness.nowMs() - keepMs);
    assert.equal(await expire(120_000), 0);
    while ((await expire(30_000)) > 0);
    assert.deepEqual(await bench.read(), kept.events);
    const { end: newest, expiredTo } = await bench.harness.stores[1].extent(bench.harness.node, bench.epoch);
    assert.deepEqual(expiredTo, { seq: last.seq, n: last.n });
    assert.deepEqual(newest, { epoch: bench.epoch, seq: last.seq, n: last.n + 1 });
  });

  it("the next epoch goes on above, with what was recorded before; no one acts in an ended one", async () => {
    const bench = the();
    const before = await bench.record([newEvent(), newEvent()]);
    const ended = bench.epoch;
    bench.epoch = await bench.harness.nextEpoch();
    const [store] = bench.harness.stores;
    await assertRefused(store.record(bench.harness.node, ended, [newEvent()]), "epoch_changed");
    await assertRefused(store.read(bench.harness.node, ended, ALL), "epoch_changed");
    await assertRefused(store.extent(bench.harness.node, ended), "epoch_changed");
    await assertRefused(store.expire(bench.harness.node, ended, 0), "epoch_changed");
    const next = newEvent();
    const { events, fresh } = await bench.record([...before.events, next]);
    assert.equal(fresh, 1);
    assert.deepEqual(events.slice(0, 2), before.events);
    const [, , recorded] = events;
    assert.ok(recorded !== undefined && recorded.n === 1 && recorded.seq > (before.events[0]?.seq ?? 0));
    assert.deepEqual((await bench.read()).slice(-3), events);
  });
}

/** Last: what is replaced leaves a gap in the numbers. */
function supersedingTests(the: () => Bench): void {
  it("an event that was recorded for no owner goes to its owner, once, at a place above", async () => {
    const bench = the();
    const bare = newEvent({ owner: 0n, data: { of: "a token" } });
    await bench.record([bare]);
    const from = await bench.end();
    const owned = { ...bare, owner: 7n, data: { of: "its owner" } };
    const other = newEvent();
    const { events, fresh } = await bench.record([bare, owned, other], 1);
    assert.equal(fresh, 2);
    assert.deepEqual(
      events.map(({ owner, data }) => [owner, data]),
      [
        [7n, owned.data],
        [7n, owned.data],
        [0n, other.data],
      ],
    );
    assert.deepEqual(await bench.read({ after: from, owner: 7n }), [events[0]]);
    // A tracker that knows less, or the same, or another owner, changes nothing.
    const before = await bench.read();
    const others = [{ ...bare, data: { metadata: {} } }, owned, { ...owned, owner: 8n }];
    for (const again of others) assert.equal((await bench.record([again])).fresh, 0);
    assert.deepEqual(await bench.read(), before);
    assert.equal(keys(before).filter((key) => key === bare.key).length, 1);
  });

  it("an event without metadata gets them where it is, once", async () => {
    const bench = the();
    const bare = newEvent({ owner: 7n, data: { id: "x" } });
    const [position] = (await bench.record([bare])).events;
    const end = await bench.end();
    const richer = { ...bare, data: { id: "x", metadata: { nul: "a\u0000b" } } };
    const { events, fresh } = await bench.record([richer], 1);
    assert.equal(fresh, 0);
    assert.deepEqual(events, [{ ...position, data: richer.data }]);
    await bench.record([bare, { ...richer, data: { metadata: { other: "1" } } }]);
    assert.deepEqual((await bench.read({ owner: 7n })).at(-1), events[0]);
    assert.deepEqual(await bench.end(), end, "its owner may have read it");
  });

  it("an event that counts too few gets the higher number where it is, whichever tracker comes first", async () => {
    const bench = the();
    for (const [type, count] of [
      ["epoch.started", "unlisted"],
      ["promise.broken", "transactions"],
    ] as const) {
      const few = newEvent({ owner: null, type, data: { [count]: 1 } });
      const [position] = (await bench.record([few])).events;
      const many = { ...few, data: { [count]: 20 } };
      assert.deepEqual((await bench.record([many], 1)).events, [{ ...position, data: many.data }]);
      assert.deepEqual((await bench.record([few])).events, [{ ...position, data: many.data }]);
    }
  });

  it("what belongs to everybody belongs to no owner", async () => {
    const bench = the();
    const everybodys = newEvent({ owner: null, type: "epoch.started" });
    const [first] = (await bench.record([everybodys])).events;
    assert.deepEqual((await bench.record([{ ...everybodys, owner: 7n }])).events, [first]);
  });
}
