// Goal: no attack with another tenant's key succeeds, and the suite would report one that did.
// Method: every recipe runs against a whole system with two tenants; one recipe that does succeed
// must be counted.
import assert from "node:assert/strict";
import { test } from "node:test";
import { attack, attackAll, chosen } from "../run.ts";
import { Target } from "../target.ts";

test("every attack is refused or harmless but those known as open, and one that is not would be seen", async (t) => {
  const recipes = chosen([]);
  const outcomes = await attackAll(recipes, ({ item, title, hit }) => {
    t.diagnostic(`${hit ?? "held"}: ${item} ${title}`);
  });
  // An attack that no longer works has to leave the list, so that it stays closed.
  assert.deepEqual(
    outcomes.flatMap(({ title, hit }) => (hit === null ? [] : [title])),
    recipes.flatMap(({ title, isOpen }) => (isOpen === true ? [title] : [])),
    JSON.stringify(outcomes.filter(({ hit }) => hit !== null)),
  );

  await using target = await Target.start();
  const failing = { item: "0", title: "an attack that works" };
  const seen = await attack(
    target,
    [
      { ...failing, run: () => Promise.resolve("it worked") },
      { ...failing, run: () => Promise.reject(new Error("no way in")) },
    ],
    () => undefined,
  );
  assert.deepEqual(
    seen.map(({ hit }) => hit),
    ["it worked", "the attack broke off: no way in"],
  );
});

test("an item without a recipe is refused", () => {
  assert.throws(() => chosen(["8", "99"]), /there is no recipe for item 99: ONLY takes some of 8,/);
});
