// When receipts are maintained: at once in each epoch, and then in turns; what fails is tried again.
import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock, settle } from "@highwater/runtime/testing";
import { MemoryLog } from "@highwater/service/testing";
import { type Store } from "@highwater/store";
import { Driven, epochId, off, record } from "../../test/support/core.ts";
import { runRetention } from "./retention.ts";

const EVERY_MS = 600_000;

class World implements AsyncDisposable {
  readonly clock = new FakeClock();
  readonly core = new Driven();
  readonly maintained: string[] = [];
  isReachable = true;
  /** Calls at this node have no end. */
  hanging: string | null = null;
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;

  constructor() {
    this.core.follow(record(1));
    const store: Pick<Store, "maintain"> = {
      maintain: (node) => {
        if (node === this.hanging) return new Promise(() => undefined);
        if (!this.isReachable) return Promise.reject(new Error("cut off"));
        this.maintained.push(node);
        const position = { epoch: epochId(1), offset: off(1) };
        return Promise.resolve({ position, expiredBeforeMs: 0, ceilingMs: 0, serverTimeMs: 0 });
      },
    };
    this.#ended = runRetention({
      ...{ store: store as Store, clock: this.clock, log: new MemoryLog(), signal: this.#stop.signal },
      ...{ retentionMs: 86_400_000, everyMs: EVERY_MS },
      ...{ state: () => this.core.state, readTime: () => Promise.resolve(null) },
    });
  }

  async pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 1_000) {
      await this.clock.advance(1_000);
      await settle();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.clock.advance(1_000);
    await this.#ended;
  }
}

test("a new epoch has room for receipts at once, and then again in every turn", async () => {
  await using world = new World();
  await world.pass(2_000);
  assert.deepEqual(world.maintained, ["a"]);
  world.core.follow(record(1), record(2, { node: "b", fork: 10, start: 20, limit: 10 }));
  await world.pass(1_000);
  assert.deepEqual(world.maintained, ["a", "b"]);
  await world.pass(EVERY_MS - 1_000);
  assert.deepEqual(world.maintained, ["a", "b"]);
  await world.pass(1_000);
  assert.deepEqual(world.maintained, ["a", "b", "b"]);
});

test("a round that failed is tried again soon", async () => {
  await using world = new World();
  await settle();
  world.isReachable = false;
  world.core.follow(record(1), record(2, { node: "b", fork: 10, start: 20, limit: 10 }));
  await world.pass(3_000);
  assert.deepEqual(world.maintained, ["a"]);
  world.isReachable = true;
  await world.pass(1_000);
  assert.deepEqual(world.maintained, ["a", "b"]);
});

test("a round that hangs at the old primary does not hold up the next epoch", async () => {
  await using world = new World();
  await world.pass(1_000);
  world.hanging = "a";
  await world.pass(EVERY_MS);
  world.core.follow(record(1), record(2, { node: "b", fork: 10, start: 20, limit: 10 }));
  await world.pass(1_000);
  assert.deepEqual(world.maintained, ["a", "b"]);
});
