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
  // Three quarters of six, of which the key before has one.
  const wide = fill(limits, principal("k3", "shop", 100));
  assert.deepEqual([wide.leave.length, wide.limit], [3, { name: "openTransactionsOfRole", value: 4 }]);
  const nobody = fill(limits, principal("anybody", null));
  assert.deepEqual([nobody.leave.length, nobody.limit], [3, { name: "maxOpen", value: 10 }]);
  for (const leave of [own, usual, wide, nobody].flatMap((one) => one.leave)) leave();
  assert.equal(fill(limits, principal("anybody", null)).leave.length, 6);
});

test("a limit of zero lets nobody in, and a pool of one keeps one", () => {
  assert.equal(fill(new OpenLimits({ ...CONFIG, maxOpen: 0 }), principal("k", null)).leave.length, 0);
  assert.equal(fill(new OpenLimits({ ...CONFIG, poolSize: 1 }), principal("k", null)).leave.length, 1);
});
