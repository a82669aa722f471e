import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually } from "../src/process/index.ts";

test("returns the condition's last result, whatever it returned or threw before", async () => {
  const answers = [
    () => undefined,
    () => false as const,
    () => assert.fail("not yet"),
    async () => false as const,
  ];
  const found = await eventually("an answer", () => (answers.shift() ?? (async () => 0))());
  assert.equal(found, 0);
  assert.equal(answers.length, 0);
});

test("after its time limit it says what it waited for, the last result and the last error", async ({
  mock,
}) => {
  let asked = 0;
  // The limit is over after three calls, however long they take.
  mock.method(performance, "now", () => (asked < 3 ? 0 : 201));
  const last = new Error("the last");
  const condition = (): boolean => {
    asked += 1;
    if (asked === 1) throw new Error("the first");
    if (asked === 2) throw last;
    return false;
  };
  await assert.rejects(
    eventually(() => `asked ${String(asked)} times`, condition, 200),
    (error: Error) => {
      assert.equal(error.message, `not within 200 ms: asked ${String(asked)} times`);
      assert.equal(error.cause, last);
      return true;
    },
  );
  assert.equal(asked, 3);
});

test("the condition is asked once even if there is no time", async () => {
  assert.equal(await eventually("it is so", () => true, 0), true);
});
