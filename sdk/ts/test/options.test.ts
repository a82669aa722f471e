// Where a client finds its service, and what it says if there is none. Each test sets the variables that it is about.
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Highwater, sql } from "../src/index.ts";
import { service } from "./client-support.ts";

const statement = sql`SELECT 1`;
const URL_VARIABLE = "HIGHWATER_URL";
const KEY_VARIABLE = "HIGHWATER_API_KEY";

function setVariables(context: TestContext, values: Readonly<Record<string, string>>): void {
  const before = { ...process.env };
  for (const name of [URL_VARIABLE, KEY_VARIABLE]) Reflect.deleteProperty(process.env, name);
  Object.assign(process.env, values);
  context.after(() => {
    process.env = before;
  });
}

// First: it prints once for the whole process.
test("an address without a service is printed once, long before the call is over", async (context) => {
  const printed: unknown[][] = [];
  context.mock.method(console, "warn", (...parts: unknown[]) => printed.push(parts));
  const { url } = await service(context, { down: true });
  await using hw = new Highwater({ url, totalTimeoutMs: 1_000 });
  const failed = { name: "NoAnswerError", code: "connection_failed", outcome: "not_applied" };
  await assert.rejects(hw.transaction(statement), failed);
  await assert.rejects(hw.transaction(statement), failed);
  assert.deepEqual(printed, [["Highwater:", `${url}/v1/transactions cannot be reached`]]);
});

test("the variables of the environment: addresses, nearest first, and a key", async (context) => {
  const [near, far] = [
    await service(context, { transactions: { problem: "primary_unavailable" } }),
    await service(context),
  ];
  setVariables(context, {
    [URL_VARIABLE]: `${near.url}, ${far.url}/`,
    [KEY_VARIABLE]: "hwk_of_the_environment",
  });
  await using hw = new Highwater();
  await hw.transaction(statement);
  for (const { calls } of [near, far])
    assert.deepEqual(
      calls.map(({ headers }) => headers.authorization),
      ["Bearer hwk_of_the_environment"],
    );
});

test("options come before the variables, and a client without either says what to set", async (context) => {
  const fake = await service(context);
  setVariables(context, { [URL_VARIABLE]: "http://127.0.0.1:9", [KEY_VARIABLE]: "hwk_of_the_environment" });
  const endpoints = [{ gateway: fake.url, tracker: fake.url }];
  for (const own of [{ url: fake.url }, { endpoints }]) {
    await using hw = new Highwater({ ...own, apiKey: "hwk_own" });
    await hw.transaction(statement);
  }
  assert.deepEqual(
    fake.calls.map(({ headers }) => headers.authorization),
    ["Bearer hwk_own", "Bearer hwk_own"],
  );
  setVariables(context, {});
  assert.throws(() => new Highwater(), {
    code: "invalid_options",
    message: /set url, endpoints or HIGHWATER_URL/,
  });
});
