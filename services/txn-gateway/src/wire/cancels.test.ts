// Goal: a cancel reaches the one session whose whole key it has, here or at another gateway, and
// strangers can make a gateway do only so much. Method: keys that differ in one byte, and scripted
// peers and servers that count what reaches them.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FakeClock, settle } from "@highwater/runtime/testing";
import { Cancels } from "./cancels.ts";

const SECRET_3_2 = Buffer.alloc(32, 7);

function keyOf(process: number, secret: Buffer | number): Buffer {
  const head = Buffer.alloc(4);
  head.writeUInt32BE(process);
  if (typeof secret !== "number") return Buffer.concat([head, secret]);
  const tail = Buffer.alloc(4);
  tail.writeUInt32BE(secret);
  return Buffer.concat([head, tail]);
}

class Session {
  readonly node: string;
  readonly isWaiting: boolean;
  cancelled = 0;
  constructor(node: string, isWaiting: boolean) {
    this.node = node;
    this.isWaiting = isWaiting;
  }
  cancel(): boolean {
    this.cancelled++;
    return this.isWaiting;
  }
}

class Bench {
  readonly clock = new FakeClock();
  readonly asked: string[] = [];
  readonly servers: string[] = [];
  readonly refusals: string[] = [];
  answer: () => Promise<boolean> = () => Promise.resolve(false);
  readonly cancels = new Cancels({
    clock: this.clock,
    metrics: { refusals: { add: (code: string) => this.refusals.push(code) } } as never,
    askPeers: (key) => {
      this.asked.push(key.toString("hex"));
      return this.answer();
    },
    toServer: (node, key) => {
      this.servers.push(`${node} ${key.toString("hex")}`);
      return Promise.resolve();
    },
  });

  anywhere(key: Buffer, address = "192.0.2.1"): Promise<void> {
    return this.cancels.anywhere(key, { address, fallback: "primary" });
  }
}

describe("a cancel at the gateway of its session", () => {
  for (const [version, secret, wrong] of [
    ["3.0", 0x12345678, 0x12345679],
    ["3.2", SECRET_3_2, Buffer.concat([SECRET_3_2.subarray(0, 31), Buffer.from([8])])],
  ] as const)
    it(`needs the whole key of protocol ${version}`, async () => {
      const bench = new Bench();
      const session = new Session("east", true);
      bench.cancels.add(keyOf(5, secret), session);
      assert.equal(await bench.cancels.here(keyOf(5, wrong)), false);
      assert.equal(await bench.cancels.here(keyOf(6, secret)), false);
      assert.equal(await bench.cancels.here(Buffer.concat([keyOf(5, secret), Buffer.from([0])])), false);
      assert.equal(session.cancelled, 0);
      assert.equal(await bench.cancels.here(keyOf(5, secret)), true);
      assert.equal(session.cancelled, 1);
      assert.deepEqual([bench.asked, bench.servers], [[], []]);
    });

  it("goes to the session's own server if nothing waits", async () => {
    const bench = new Bench();
    const key = keyOf(5, 1);
    bench.cancels.add(key, new Session("west", false));
    await bench.anywhere(key);
    assert.deepEqual([bench.asked, bench.servers], [[], [`west ${key.toString("hex")}`]]);
  });

  it("finds the right one of two sessions with the same process number, until it has ended", async () => {
    const bench = new Bench();
    const [east, west] = [new Session("east", true), new Session("west", true)];
    const forget = bench.cancels.add(keyOf(5, 1), east);
    bench.cancels.add(keyOf(5, 2), west);
    assert.equal(await bench.cancels.here(keyOf(5, 2)), true);
    assert.deepEqual([east.cancelled, west.cancelled], [0, 1]);
    forget();
    assert.equal(await bench.cancels.here(keyOf(5, 1)), false);
    assert.equal(await bench.cancels.here(keyOf(5, 2)), true);
  });
});

describe("a cancel whose session is elsewhere", () => {
  it("ends at the gateway that has it, and else goes to the server", async () => {
    const bench = new Bench();
    bench.answer = () => Promise.resolve(true);
    await bench.anywhere(keyOf(5, 1));
    assert.deepEqual([bench.asked.length, bench.servers], [1, []]);
    bench.answer = () => Promise.resolve(false);
    await bench.anywhere(keyOf(5, 1));
    assert.deepEqual(bench.servers, [`primary ${keyOf(5, 1).toString("hex")}`]);
  });

  it("goes no further if another gateway has sent it", async () => {
    const bench = new Bench();
    assert.equal(await bench.cancels.here(keyOf(5, 1)), false);
    assert.deepEqual([bench.asked, bench.servers], [[], []]);
  });

  it("goes nowhere if no session can have its key", async () => {
    const bench = new Bench();
    for (const bytes of [0, 4, 7, 261, 9_000]) await bench.anywhere(Buffer.alloc(bytes));
    assert.deepEqual([bench.asked, bench.servers], [[], []]);
    await bench.anywhere(Buffer.alloc(260));
    assert.equal(bench.asked.length, 1);
  });

  it("is dropped after too many of its address that found nothing, and those of sessions here are not", async () => {
    const bench = new Bench();
    for (let secret = 0; secret < 1_000; secret++) await bench.anywhere(keyOf(5, secret));
    assert.equal(bench.asked.length, 100);
    assert.equal(bench.servers.length, 100);
    assert.deepEqual(new Set(bench.refusals), new Set(["rate_limited"]));
    await bench.anywhere(keyOf(5, 1), "192.0.2.2");
    assert.equal(bench.asked.length, 101);
    const session = new Session("east", true);
    bench.cancels.add(keyOf(5, 1), session);
    await bench.anywhere(keyOf(5, 1));
    assert.equal(session.cancelled, 1);
    await bench.clock.advance(60_000);
    await bench.anywhere(keyOf(5, 2));
    assert.equal(bench.asked.length, 102);
  });

  it("is dropped while too many others are on their way", async () => {
    const bench = new Bench();
    const { promise, resolve } = Promise.withResolvers<boolean>();
    bench.answer = () => promise;
    const sent = Array.from({ length: 70 }, (_, at) => bench.anywhere(keyOf(at, 1), `192.0.2.${String(at)}`));
    await settle();
    assert.equal(bench.asked.length, 64);
    assert.deepEqual(
      bench.refusals,
      Array.from({ length: 6 }, () => "overloaded"),
    );
    resolve(true);
    await Promise.all(sent);
    await bench.anywhere(keyOf(1, 1));
    assert.equal(bench.asked.length, 65);
  });
});
