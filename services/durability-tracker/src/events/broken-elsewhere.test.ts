// What one tracker records as broken reaches the others, through failovers and when their histories part.
import assert from "node:assert/strict";
import { test } from "node:test";
import { EpochGraph, type EpochId, type EpochRecord, type TxnId } from "@highwater/protocol";
import { FakeClock, settle } from "@highwater/runtime/testing";
import { MemoryLog } from "@highwater/service/testing";
import { MemoryEventLog, MemoryEvents } from "@highwater/store/memory";
import { epochId, record } from "../../test/support/core.ts";
import { type Published } from "../core/index.ts";
import { BrokenElsewhere } from "./broken-elsewhere.ts";
import { type PrimaryEpoch } from "./event-log.ts";
import { lostEvent } from "./new-events.ts";

let made = 0;
const brokenElsewhere = (more: Partial<Published> = {}): Published => ({
  ...{ id: `0190a000-0000-7000-8000-${String(++made).padStart(12, "0")}` as TxnId, attempt: epochId(1) },
  ...{ kind: "write", origin: null, owner: 7n, verdicts: { disk: "durable", region: "broken" } },
  ...{ rule: "R7 broken", settledAt: "region", retriedIn: null, metadata: { order: "1" } },
  ...more,
});

class World {
  readonly clock = new FakeClock();
  readonly received: Published[] = [];
  ancestry: readonly EpochRecord[] = [record(1)];
  log = new MemoryEventLog(epochId(1));
  readonly #epochs = new EpochGraph();
  #reader: BrokenElsewhere;

  constructor() {
    this.#reader = this.#make();
  }

  #make(): BrokenElsewhere {
    const events = (): MemoryEvents => new MemoryEvents(this.log);
    const reader = new BrokenElsewhere({
      events: {
        ...{ record: (...all) => events().record(...all), read: (...all) => events().read(...all) },
        ...{ extent: (...all) => events().extent(...all), expire: (...all) => events().expire(...all) },
        close: () => undefined,
      },
      ...{ clock: this.clock, log: new MemoryLog(), primaryEpoch: () => this.primaryEpoch },
      epochs: () => this.#epochs,
      onPeerVerdicts: (peerVerdicts) => this.received.push(...peerVerdicts),
    });
    reader.start();
    return reader;
  }

  get primaryEpoch(): PrimaryEpoch {
    return { node: "a", epoch: this.ancestry.at(-1)?.id as EpochId };
  }

  async look(): Promise<void> {
    this.#epochs.add(this.ancestry);
    await settle();
    this.#reader.wake();
    await settle();
  }

  [Symbol.dispose](): void {
    this.#reader.stop();
  }
}

test("a peer verdict is passed on as it was recorded, once, and losses are no verdicts on broken promises", async () => {
  using world = new World();
  const origin = { epoch: epochId(1), offset: 80n as never };
  const peerVerdicts = [
    brokenElsewhere({ kind: "read", origin }),
    brokenElsewhere({ retriedIn: epochId(2), metadata: null }),
  ];
  for (const one of peerVerdicts) world.log.append(lostEvent(one));
  world.log.append(lostEvent(brokenElsewhere({ verdicts: { disk: "lost" } })));
  await world.look();
  assert.deepEqual(world.received, peerVerdicts);
  await world.look();
  assert.equal(world.received.length, 2);
});

test("more peer verdicts than one page holds are all passed on", async () => {
  using world = new World();
  for (let i = 0; i < 2_500; i++) world.log.append(lostEvent(brokenElsewhere()));
  await world.look();
  await world.look();
  await world.look();
  assert.equal(new Set(world.received.map(({ id }) => id)).size, 2_500);
});

test("where histories part, what the current one had recorded since is read, whatever its number", async () => {
  using world = new World();
  world.ancestry = [record(1), record(2)];
  world.log.begin(epochId(2));
  for (let i = 0; i < 3; i++) world.log.append(lostEvent(brokenElsewhere()));
  await world.look();
  assert.equal(world.received.length, 3);
  // Another node had begun a second epoch too, and has fewer events in it.
  const third = { ...record(2), id: epochId(9) };
  world.log = new MemoryEventLog(epochId(9));
  world.log.seq = 2;
  const there = brokenElsewhere();
  world.log.append(lostEvent(there));
  world.ancestry = [record(1), third];
  await world.look();
  assert.deepEqual(world.received.slice(3), [there]);
});
