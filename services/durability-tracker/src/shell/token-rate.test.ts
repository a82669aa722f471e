// Goal: one key's questions take a bounded share of a tracker's thread, whatever it sends; those of others go on.
import assert from "node:assert/strict";
import { test } from "node:test";
import { HighwaterError } from "@highwater/protocol";
import { FakeClock } from "@highwater/runtime/testing";
import { NOBODY, type Principal } from "@highwater/service";
import { TokenRate } from "./token-rate.ts";

const principal = (id: string, others: Partial<Principal> = {}): Principal =>
  ({ id, owner: 7n, ...others }) as Principal;
const REQUEST = 10_000;

test("a key asks for ten seconds' worth at once and then steadily, and takes nothing from another", async () => {
  const clock = new FakeClock();
  const rate = new TokenRate(clock, 1_000);
  const one = principal("one");
  rate.spend(one, REQUEST);
  const refused = (): number => {
    try {
      rate.spend(one, REQUEST);
    } catch (cause) {
      assert.ok(cause instanceof HighwaterError && cause.code === "rate_limited");
      assert.deepEqual(cause.details.limit, { name: "tokensPerSecondPerKey", value: 1_000 });
      return cause.details.retryAfterMs ?? 0;
    }
    return 0;
  };
  assert.equal(refused(), 10_000);
  await clock.advance(4_000);
  // A refusal costs nothing.
  assert.equal(refused(), 6_000);
  rate.spend(principal("two"), REQUEST);
  await clock.advance(6_000);
  assert.equal(refused(), 0);
});

test("services, and everybody where there is no authentication, are not counted", () => {
  const rate = new TokenRate(new FakeClock(), 1_000);
  for (let count = 0; count < 5; count++) {
    rate.spend(principal("gateway", { isService: true }), REQUEST);
    rate.spend(principal("anyone", { owner: NOBODY }), REQUEST);
  }
});
