// The limits on open transactions: which one is met first, that a place is free again, and who gets
// it of those that wait.
import assert from "node:assert/strict";
import { test } from "node:test";
import { HighwaterError } from "@highwater/protocol";
import { FakeClock, settle } from "@highwater/runtime/testing";
import { type Config } from "../config.ts";
import { DEFAULT_LIMITS, type Principal } from "@highwater/service";
import { OpenLimits } from "./open-limits.ts";

const CONFIG = { maxOpen: 10, maxOpenPerKey: 3, poolSize: 8, rolePoolSize: 6 } as Config;
/** As long as one waits for a place. */
const WAIT_MS = 5_000;

const principal = (id: string, role: string | null, openTransactions: number | null = null): Principal => ({
  ...{ id, role, owner: 1n, scopes: new Set<never>(), limits: { ...DEFAULT_LIMITS, openTransactions } },
});

type Leave = () => void;

class Bench {
  readonly clock = new FakeClock();
  readonly limits: OpenLimits;

  constructor(config: Partial<Config> = {}) {
    this.limits = new OpenLimits({ ...CONFIG, ...config }, this.clock);
  }

  /** Enters until it is refused; answers how often it could, and what refused it. */
  async fill(who: Principal): Promise<{ leave: Leave[]; limit: unknown }> {
    const leave: Leave[] = [];
    for (;;) {
      const end = this.limits.enter(who).then(
        (free) => leave.push(free),
        (cause: unknown) => {
          assert.ok(cause instanceof HighwaterError && cause.code === "too_many_open");
          return cause.details;
        },
      );
      await this.clock.advance(WAIT_MS);
      const details = await end;
      if (typeof details !== "number") return { leave, limit: details.limit };
    }
  }

  /** Waits, and records the name when it has a place, or its code when it is refused. */
  wait(ends: string[], who: Principal, client?: AbortSignal): void {
    this.limits.enter(who, client).then(
      () => ends.push(who.id),
      (cause: unknown) => ends.push(`${who.id}: ${(cause as HighwaterError).code}`),
    );
  }
}

test("a key's own limit, the default of keys, and the share of a role's sessions", async () => {
  const bench = new Bench();
  const own = await bench.fill(principal("k1", "shop", 1));
  assert.deepEqual([own.leave.length, own.limit], [1, { name: "openTransactions", value: 1 }]);
  const usual = await bench.fill(principal("k2", "bank"));
  assert.deepEqual([usual.leave.length, usual.limit], [3, { name: "openTransactions", value: 3 }]);
  // Three quarters of six; the key before has one of them.
  const wide = await bench.fill(principal("k3", "shop", 100));
  assert.deepEqual([wide.leave.length, wide.limit], [3, { name: "openTransactionsOfRole", value: 4 }]);
  const nobody = await bench.fill(principal("anybody", null));
  assert.deepEqual([nobody.leave.length, nobody.limit], [3, { name: "maxOpen", value: 10 }]);
  for (const leave of [own, usual, wide, nobody].flatMap((one) => one.leave)) leave();
  assert.equal((await bench.fill(principal("anybody", null))).leave.length, 6);
});

test("one key leaves a place of its role to others, and they come to share the places", async () => {
  const bench = new Bench({ maxOpenPerKey: 8, rolePoolSize: 8 });
  const [greedy, other] = [principal("k1", "shop"), principal("k2", "shop")];
  const first = await bench.fill(greedy);
  assert.deepEqual([first.leave.length, first.limit], [5, { name: "openTransactionsShare", value: 5 }]);
  const second = await bench.fill(other);
  assert.deepEqual([second.leave.length, second.limit], [1, { name: "openTransactionsOfRole", value: 6 }]);
  for (const leave of first.leave.splice(0, 2)) {
    leave();
    // What becomes free is the other's: the first one has its half, or more.
    assert.deepEqual((await bench.fill(greedy)).limit, { name: "openTransactionsShare", value: 3 });
    second.leave.push(...(await bench.fill(other)).leave);
  }
  assert.deepEqual([first.leave.length, second.leave.length], [3, 3]);
  for (const leave of second.leave) leave();
  assert.equal((await bench.fill(greedy)).leave.length, 2, "alone again, it has all but one");
  assert.equal((await new Bench({ rolePoolSize: 1 }).fill(greedy)).leave.length, 1, "no one's share");
});

test("a pool of one keeps one", async () => {
  assert.equal((await new Bench({ poolSize: 1 }).fill(principal("k", null))).leave.length, 1);
});

test("a limit of zero admits none, and lets none wait", async () => {
  const { limits, clock } = new Bench({ maxOpen: 0 });
  await assert.rejects(limits.enter(principal("k", null)), { code: "too_many_open" });
  assert.equal(clock.pendingTimers, 0);
});

test("who waits gets the next free place, the first to come first", async () => {
  const bench = new Bench({ maxOpen: 2, maxOpenPerKey: 1, rolePoolSize: 8 });
  const [a, b] = [
    await bench.limits.enter(principal("a", "r")),
    await bench.limits.enter(principal("b", "r")),
  ];
  const ends: string[] = [];
  for (const id of ["a", "c", "d"]) bench.wait(ends, principal(id, "r"));
  await settle();
  assert.deepEqual(ends, []);
  // The first that waits has its own key's limit to wait for, and does not hold up the others.
  b();
  await settle();
  assert.deepEqual(ends, ["c"]);
  a();
  await settle();
  assert.deepEqual(ends, ["c", "a"]);
  assert.equal(bench.clock.pendingTimers, 1, "only the one that still waits");
});

test("a thousand may wait, and the next is refused at once", async () => {
  const bench = new Bench({ maxOpen: 1 });
  await bench.limits.enter(principal("a", null));
  const ends: string[] = [];
  for (let waiting = 0; waiting <= 1_000; waiting++) bench.wait(ends, principal(String(waiting), null));
  await settle();
  assert.deepEqual(ends, ["1000: too_many_open"]);
});

test("the end of a wait: the time, the client, and a shutdown", async () => {
  const bench = new Bench({ maxOpen: 1 });
  const leave = await bench.limits.enter(principal("a", null));
  const ends: string[] = [];
  const client = new AbortController();
  bench.wait(ends, principal("gone", null), client.signal);
  bench.wait(ends, principal("there", null));
  client.abort();
  bench.wait(ends, principal("late", null), AbortSignal.abort());
  await settle();
  assert.deepEqual(ends, ["gone: cancelled", "late: cancelled"]);
  await bench.clock.advance(WAIT_MS - 1);
  assert.equal(ends.length, 2);
  await bench.clock.advance(1);
  assert.deepEqual(ends.slice(2), ["there: too_many_open"]);
  bench.wait(ends, principal("last", null));
  bench.limits.drain();
  leave();
  await settle();
  assert.deepEqual(ends.slice(3), ["last: overloaded"]);
  assert.equal(bench.clock.pendingTimers, 0);
});
