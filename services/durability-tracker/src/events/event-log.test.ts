// The outbox against a store that fails, fails over and forgets, and a process that dies: what was published is recorded, once.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type EpochId, HighwaterError, type Offset } from "@highwater/protocol";
import { FakeClock, settle } from "@highwater/runtime/testing";
import { MemoryLog } from "@highwater/service/testing";
import { type NewEvent } from "@highwater/store";
import { MemoryEventLog, MemoryEvents } from "@highwater/store/memory";
import { EventLog, type PrimaryEpoch } from "./event-log.ts";
import { MemoryOutbox } from "./memory-outbox.ts";

const epochNamed = (number: number): EpochId => `epoch-${String(number)}` as EpochId;

let made = 0;
function event(more: Partial<NewEvent> = {}): NewEvent {
  const id = String(++made);
  return { key: `lost/${id}`, type: "transaction.lost", owner: 7n, data: { id }, ...more };
}

class World {
  readonly store = new MemoryEventLog(epochNamed(1));
  outbox = new MemoryOutbox();
  readonly clock = new FakeClock();
  readonly log = new MemoryLog();
  primaryEpoch: PrimaryEpoch | null = { node: "east", epoch: epochNamed(1) };
  mark: Offset | null = null;
  prepared = 0;
  isJudging = false;
  events: EventLog;

  constructor() {
    this.events = this.#make();
  }

  #make(): EventLog {
    return new EventLog({
      events: new MemoryEvents(this.store),
      ...{ outbox: this.outbox, clock: this.clock, log: this.log, keepMs: 3_600_000 },
      random: () => 0,
      primaryEpoch: () => this.primaryEpoch,
      strongestMark: (epoch) => (epoch === this.store.epoch ? this.mark : null),
      prepare: () => {
        this.prepared++;
        return Promise.resolve();
      },
      onRecorded: () => undefined,
      isJudging: () => this.isJudging,
    });
  }

  static async start(): Promise<World> {
    const world = new World();
    await world.events.start();
    return world;
  }

  /** kill -9 of the tracker, and its next start on the same disk. */
  async restart(): Promise<void> {
    this.outbox.die();
    this.outbox = new MemoryOutbox(this.outbox.disk);
    const dead = this.events;
    void dead.stop();
    this.events = this.#make();
    await this.events.start();
  }

  publish(count = 1): string[] {
    const published = Array.from({ length: count }, () => event());
    for (const one of published) this.events.publish(one);
    return published.map(({ key }) => key);
  }

  get recorded(): string[] {
    return this.store.events.map(({ key }) => key);
  }

  /** All that was recorded is as safe as it can be. */
  async makeSafe(): Promise<void> {
    this.mark = this.store.offset;
    this.events.wake();
    await settle();
    this.outbox.flushNow();
  }

  async failOver(lost: number): Promise<void> {
    const epoch = epochNamed(this.store.seq + 1);
    this.store.begin(epoch, lost);
    this.mark = null;
    this.primaryEpoch = { node: "west", epoch };
    this.events.wake();
    await settle();
  }
}

describe("what is published", () => {
  it("is recorded in its order, and kept until the recording is safe", async () => {
    const world = await World.start();
    const keys = world.publish(3);
    await settle();
    keys.push(...world.publish(2));
    await settle();
    assert.deepEqual(world.recorded, keys);
    assert.equal(world.events.counts.kept, 5);
    world.mark = (world.store.offset - 1n) as Offset;
    world.events.wake();
    assert.equal(world.events.counts.kept, 2, "the first recording is safe");
    await world.makeSafe();
    assert.equal(world.events.counts.kept, 0);
    assert.deepEqual([...world.outbox.disk], []);
  });

  it("lets verdicts go first, and does not wait for them for ever", async () => {
    const world = await World.start();
    world.isJudging = true;
    const keys = world.publish(2);
    await world.clock.advance(5_000);
    assert.deepEqual(world.recorded, []);
    world.isJudging = false;
    await world.clock.advance(100);
    assert.deepEqual(world.recorded, keys);
    world.isJudging = true;
    keys.push(...world.publish(1));
    await world.clock.advance(20_000);
    await world.clock.advance(100);
    assert.deepEqual(world.recorded, keys);
  });

  it("waits for a primary", async () => {
    const world = await World.start();
    world.primaryEpoch = null;
    const keys = world.publish(3);
    await world.clock.advance(10_000);
    assert.deepEqual(world.recorded, []);
    world.primaryEpoch = { node: "east", epoch: epochNamed(1) };
    world.events.wake();
    await settle();
    assert.deepEqual(world.recorded, keys);
  });

  it("is recorded again where a failover has lost it, and not where it has not", async () => {
    const world = await World.start();
    const keys = world.publish(4);
    await settle();
    await world.makeSafe();
    keys.push(...world.publish(3));
    await settle();
    await world.failOver(2);
    assert.deepEqual(world.recorded, keys);
    assert.deepEqual(
      world.store.events.map(({ seq }) => seq),
      [1, 1, 1, 1, 1, 2, 2],
    );
    await world.makeSafe();
    assert.equal(world.events.counts.kept, 0);
  });

  it("survives the death of the process, before its recording and behind it", async () => {
    const world = await World.start();
    world.primaryEpoch = null;
    const keys = world.publish(3);
    world.outbox.flushNow();
    await world.restart();
    assert.equal(world.events.counts.kept, 3);
    world.primaryEpoch = { node: "east", epoch: epochNamed(1) };
    world.events.wake();
    await settle();
    assert.deepEqual(world.recorded, keys);
    // Recorded, and not known to be: the next process does it again, which changes nothing.
    await world.restart();
    keys.push(...world.publish());
    await settle();
    assert.deepEqual(world.recorded, keys);
    await world.makeSafe();
    await world.restart();
    assert.equal(world.events.counts.kept, 0);
  });

  it("is tried again, at growing intervals, while the store fails", async () => {
    const world = await World.start();
    const attempts: number[] = [];
    world.store.hold = () => {
      attempts.push(world.clock.monotonicMs());
      return Promise.reject(new Error("connection refused"));
    };
    const keys = world.publish(2);
    await world.clock.advance(30_000);
    const pauses = attempts.slice(1).map((at, index) => at - (attempts[index] ?? 0));
    assert.deepEqual(pauses.slice(0, 4), [50, 100, 200, 400]);
    assert.equal(Math.max(...pauses), 2_500);
    world.store.hold = () => Promise.resolve();
    await world.clock.advance(5_000);
    assert.deepEqual(world.recorded, keys);
  });

  it("is recorded at once in the next epoch, however long the last one failed", async () => {
    const world = await World.start();
    world.store.hold = () => Promise.reject(new Error("connection refused"));
    const keys = world.publish(2);
    await world.clock.advance(30_000);
    world.store.hold = () => Promise.resolve();
    await world.failOver(0);
    assert.deepEqual(world.recorded, keys);
  });

  it("that the store refuses keeps nothing else waiting, and is tried again in the next epoch", async () => {
    const world = await World.start();
    const bad = event();
    world.store.hold = (events) =>
      events.some(({ key }) => key === bad.key)
        ? Promise.reject(Object.assign(new Error("too long"), { code: "22001" }))
        : Promise.resolve();
    const keys = world.publish(20);
    world.events.publish(bad);
    keys.push(...world.publish(20));
    await world.clock.advance(120_000);
    assert.deepEqual(world.recorded, keys);
    assert.equal(world.events.counts.setAside, 1);
    await world.makeSafe();
    assert.equal(world.events.counts.kept, 1);
    world.store.hold = () => Promise.resolve();
    await world.failOver(0);
    assert.deepEqual(world.recorded, [...keys, bad.key]);
  });

  it("has the store prepared when it lacks the table", async () => {
    const world = await World.start();
    world.store.hold = () =>
      world.prepared > 0
        ? Promise.resolve()
        : Promise.reject(Object.assign(new Error("no such table"), { code: "42P01" }));
    const keys = world.publish();
    await world.clock.advance(1_000);
    assert.deepEqual([world.prepared, world.recorded], [1, keys]);
  });

  it("is read back from disk when there is more than memory may hold", async () => {
    const world = await World.start();
    world.primaryEpoch = null;
    const keys = world.publish(25_000);
    world.outbox.flushNow();
    world.primaryEpoch = { node: "east", epoch: epochNamed(1) };
    world.events.wake();
    while (world.store.events.length < 12_000) await settle();
    keys.push(...world.publish(3_000));
    while (world.store.events.length < keys.length) await settle();
    assert.deepEqual(world.recorded, keys);
    assert.ok(world.outbox.loaded >= 15_000, "what did not fit was on disk alone");
    await world.makeSafe();
    assert.equal(world.outbox.disk.size, 0);
  });

  it("that never gets safe is let go after its time", async () => {
    const world = await World.start();
    world.publish(2);
    await settle();
    await world.clock.advance(3_599_000);
    assert.equal(world.events.counts.kept, 2);
    await world.clock.advance(3_000);
    assert.equal(world.events.counts.kept, 0);
  });
});

/** A generator with a seed, so that a failure can be run again. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

describe("in a world where everything fails", () => {
  for (let seed = 1; seed <= 60; seed++)
    it(`all that was on disk is recorded once in the end (seed ${String(seed)})`, async () => {
      const random = seeded(seed);
      const pick = (below: number): number => Math.floor(random() * below);
      const world = await World.start();
      world.store.hold = () => {
        const chance = random();
        if (chance < 0.2) return Promise.reject(new Error("connection lost"));
        if (chance < 0.25) return Promise.reject(new HighwaterError("epoch_changed"));
        return Promise.resolve();
      };
      const onDisk = new Set<string>();
      let unflushed: string[] = [];
      const flush = (): void => {
        world.outbox.flushNow();
        for (const key of unflushed) onDisk.add(key);
        unflushed = [];
      };
      // How far a failover may cut the log back: what is safe stays.
      let safe = 0;
      for (let round = 0; round < 150; round++) {
        const what = random();
        if (what < 0.4) unflushed.push(...world.publish(1 + pick(5)));
        else if (what < 0.6) await world.clock.advance(pick(300));
        else if (what < 0.7) flush();
        else if (what < 0.8) {
          world.mark = world.store.offset;
          safe = world.store.events.length;
          world.events.wake();
        } else if (what < 0.9) {
          world.primaryEpoch = null;
          await world.clock.advance(pick(50));
          await world.failOver(pick(world.store.events.length - safe + 1));
        } else {
          unflushed = [];
          await world.restart();
        }
      }
      flush();
      world.store.hold = () => Promise.resolve();
      await world.clock.advance(20_000);
      await world.makeSafe();
      const recorded = world.recorded;
      assert.equal(new Set(recorded).size, recorded.length, "nothing twice");
      for (const key of onDisk) assert.ok(recorded.includes(key), `${key} is forgotten`);
      assert.deepEqual([world.events.counts.kept, world.outbox.disk.size], [0, 0]);
      await world.events.stop();
    });
});
