// Goal: an operator sees the keys of the primary, newest first and without what is secret, or learns why not. Method: a store of keys whose
// answers the test gives.
import assert from "node:assert/strict";
import { test } from "node:test";
import { HighwaterError, KeyList, OPERATOR_LIMITS, validate } from "@highwater/protocol";
import { FakeClock } from "@highwater/runtime/testing";
import { type ApiKey, DEFAULT_LIMITS, type KeyReader } from "@highwater/store";
import { KeyListing } from "./key-listing.ts";

const keyOf = (n: number, more: Partial<ApiKey> = {}): ApiKey => ({
  ...{ id: `key${String(n)}`, name: "orders", owner: "shop", role: "app_orders" },
  ...{ secretHash: new Uint8Array(32).fill(0xab), scopes: ["read"], limits: DEFAULT_LIMITS },
  ...{ createdAtMs: n, expiresAtMs: null, revokedAtMs: null, changed: BigInt(n) },
  ...more,
});

function makeListing(keys: () => Promise<readonly ApiKey[]>) {
  const clock = new FakeClock();
  const state = { primary: "a" as string | null, opened: 0, closed: 0, asked: [] as string[] };
  const reader: KeyReader = {
    nodes: [],
    readKeys: (node) => {
      state.asked.push(node);
      return keys();
    },
    close: () => {
      state.closed++;
    },
  };
  const open = (): KeyReader => {
    state.opened++;
    return reader;
  };
  return { clock, state, listing: new KeyListing({ clock, keys: open, primary: () => state.primary }) };
}

const refusal = (cause: unknown): string => (cause instanceof HighwaterError ? cause.code : String(cause));

test("keys come newest first, with their state and nothing of their secrets", async () => {
  const { clock, listing, state } = makeListing(() =>
    Promise.resolve([keyOf(1, { expiresAtMs: 1 }), keyOf(2, { revokedAtMs: 5 }), keyOf(3)]),
  );
  assert.equal(state.opened, 0, "no connection before anyone asks");
  const list = await listing.list();
  assert.ok(validate(KeyList, list).ok);
  assert.deepEqual(
    list.keys.map((key) => [key.id, key.state]),
    [
      ["key3", "active"],
      ["key2", "revoked"],
      ["key1", "expired"],
    ],
  );
  assert.doesNotMatch(JSON.stringify(list), /abab|171,171|secret/i);
  assert.ok(clock.wallMs() > 1);
  listing.close();
  assert.deepEqual([state.opened, state.closed], [1, 1]);
});

test("of very many keys the newest are listed, and all are counted", async () => {
  const many = Array.from({ length: OPERATOR_LIMITS.keysListed + 5 }, (_, n) => keyOf(n));
  const { keys, total } = await makeListing(() => Promise.resolve(many)).listing.list();
  assert.deepEqual(
    [keys.length, total, keys[0]?.id],
    [OPERATOR_LIMITS.keysListed, many.length, `key${String(many.length - 1)}`],
  );
});

test("callers at the same time share one reading of the database", async () => {
  const { promise, resolve } = Promise.withResolvers<readonly ApiKey[]>();
  const { listing, state } = makeListing(() => promise);
  const both = [listing.list(), listing.list()];
  resolve([keyOf(1)]);
  assert.deepEqual(
    (await Promise.all(both)).map(({ total }) => total),
    [1, 1],
  );
  assert.deepEqual(state.asked, ["a"]);
  await listing.list();
  assert.deepEqual(state.asked, ["a", "a"], "a later caller reads anew");
});

test("without a primary, or when it does not answer, the answer says to try again", async () => {
  const { listing, state } = makeListing(() => Promise.reject(new Error("connection refused")));
  assert.equal(await listing.list().catch(refusal), "primary_unavailable");
  state.primary = null;
  assert.equal(await listing.list().catch(refusal), "primary_unavailable");
  assert.deepEqual(state.asked, ["a"]);
});
