// Goal: the console asks for a key only where the tracker does, and shows what the key's scopes allow.
import assert from "node:assert/strict";
import { test } from "node:test";
import { enter } from "./access.ts";
import { ApiError } from "./api.ts";

type Answers = Readonly<Record<string, number>>;

const callerOf = (answers: Answers) => {
  const answer = (path: string): Promise<never> => {
    const status = answers[path] ?? 200;
    if (status === 200) return Promise.resolve({} as never);
    return Promise.reject(new ApiError(status, `code_${String(status)}`, `refused with ${String(status)}`));
  };
  return { get: answer, send: (_method: string, path: string) => answer(path) };
};
const MARKS = "/v1/durability/marks";
const PREVIEW = "/v1/durability/failover-preview";
const WEBHOOKS = "/v1/webhooks";
const CONTENTS = "/v1/lost/none";
const REPLAY = "/v1/lost/replay";

test("a tracker without authentication needs no key, and all is allowed", async () => {
  const access = await enter(callerOf({ [PREVIEW]: 400 }), false);
  assert.ok(access.kind === "open");
  assert.deepEqual(
    [[...access.scopes], access.hasKey],
    [["read", "admin", "webhooks", "contents:read", "contents:replay"], false],
  );
});

test("a tracker with authentication is asked for a key, first without a complaint", async () => {
  const all = callerOf({ [MARKS]: 401, [PREVIEW]: 401, [WEBHOOKS]: 401 });
  assert.deepEqual(await enter(all, false), { kind: "asked", refusal: "" });
  assert.deepEqual(await enter(all, true), { kind: "asked", refusal: "refused with 401" });
});

test("a key sees the views of its scopes", async () => {
  const read = await enter(
    callerOf({ [PREVIEW]: 403, [WEBHOOKS]: 403, [CONTENTS]: 403, [REPLAY]: 403 }),
    true,
  );
  assert.ok(read.kind === "open");
  assert.deepEqual([...read.scopes], ["read"]);
  const none = await enter(callerOf({ [MARKS]: 403, [PREVIEW]: 403, [WEBHOOKS]: 403 }), true);
  assert.equal(none.kind, "asked");
});

test("a tracker that cannot answer is unavailable; one without a primary keeps its scopes", async () => {
  assert.equal((await enter(callerOf({ [MARKS]: 0 }), true)).kind, "unavailable");
  const access = await enter(callerOf({ [WEBHOOKS]: 503, [PREVIEW]: 400 }), true);
  assert.ok(access.kind === "open" && access.scopes.has("webhooks"));
});
