// The limits on open transactions: which one is met first, and that a place is free again.
import assert from "node:assert/strict";
import { test } from "node:test";
import { HighwaterError } from "@highwater/protocol";
import { type Config } from "../config.ts";
import { DEFAULT_LIMITS, type Principal } from "@highwater/service";
import { OpenLimits } from "./open-limits.ts";

const CONFIG = { maxOpen: 10, maxOpenPerKey: 3, poolSize: 8, rolePoolSize: 6 } as Config;

const principal = (id: string, role: string | null, openTransactions: number | null = null): Principal => ({
  ...{ id, role, owner: 1n, scopes: new Set<never>(), limits: { ...DEFAULT_LIMITS, openTransactions } },
});

/** Enters until it is refused; answers how often it could, and what refused it. */
function fill(limits: OpenLimits, who: Principal): { leave: (() => void)[]; limit: unknown } {
  const leave: (() => void)[] = [];
  for (;;) {
    try {
      leave.push(limits.enter(who));
    } catch (cause) {
      assert.ok(cause instanceof HighwaterError && cause.code === "too_many_open");
      return { leave, limit: cause.details.limit };
    }
  }
}

test("a key's own limit, the default of keys, and the share of a role's sessions", () => {
  const limits = new OpenLimits(CONFIG);
  const own = fill(limits, principal("k1", "shop", 1));
  assert.deepEqual([own.leave.length, own.limit], [1, { name: "openTransactions", value: 1 }]);
  const usual = fill(limits, principal("k2", "bank"));
  assert.deepEqual([usual.leave.length, usual.limit], [3, { name: "openTransactions", value: 3 }]);
  // Three quarters of six; the key before has one of them.
  const wide = fill(limits, principal("k3", "shop", 100));
  assert.deepEqual([wide.leave.length, wide.limit], [3, { name: "openTransactionsOfRole", value: 4 }]);
  const nobody = fill(limits, principal("anybody", null));
  assert.deepEqual([nobody.leave.length, nobody.limit], [3, { name: "maxOpen", value: 10 }]);
  for (const leave of [own, usual, wide, nobody].flatMap((one) => one.leave)) leave();
  assert.equal(fill(limits, principal("anybody", null)).leave.length, 6);
});

test("one key leaves a place of its role to others, and they come to share the places", () => {
  const limits = new OpenLimits({ ...CONFIG, maxOpenPerKey: 8, rolePoolSize: 8 });
  const [greedy, other] = [principal("k1", "shop"), principal("k2", "shop")];
  const first = fill(limits, greedy);
  assert.deepEqual([first.leave.length, first.limit], [5, { name: "openTransactionsShare", value: 5 }]);
  const second = fill(limits, other);
  assert.deepEqual([second.leave.length, second.limit], [1, { name: "openTransactionsOfRole", value: 6 }]);
  for (const leave of first.leave.splice(0, 2)) {
    leave();
    // What becomes free is the other's: the first one has its half, or more.
    assert.deepEqual(fill(limits, greedy).limit, { name: "openTransactionsShare", value: 3 });
    second.leave.push(...fill(limits, other).leave);
  }
  assert.deepEqual([first.leave.length, second.leave.length], [3, 3]);
  for (const leave of second.leave) leave();
  assert.equal(fill(limits, greedy).leave.length, 2, "alone again, it has all but one");
  const single = new OpenLimits({ ...CONFIG, rolePoolSize: 1 });
  assert.equal(fill(single, greedy).leave.length, 1, "one place is no one's share");
});

test("a limit of zero admits none, and a pool of one keeps one", () => {
  assert.equal(fill(new OpenLimits({ ...CONFIG, maxOpen: 0 }), principal("k", null)).leave.length, 0);
  assert.equal(fill(new OpenLimits({ ...CONFIG, poolSize: 1 }), principal("k", null)).leave.length, 1);
});
