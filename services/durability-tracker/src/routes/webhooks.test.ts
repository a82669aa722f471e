// Goal: calls about webhooks of one owner take turns, whatever they ask, so that they leave connections to other owners and to the
// deliveries. Method: requests to the routes alone; what runs at the same time is counted.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Problem } from "@highwater/protocol";
import { settle } from "@highwater/runtime/testing";
import { appWith } from "../../test/support/callers.ts";
import { type WebhookAdmin } from "../webhooks/admin.ts";
import { registerWebhookRoutes } from "./webhooks.ts";

const ONE = "/v1/webhooks/ep_1";
const CALLS = [
  ["create", "POST", "/v1/webhooks", { url: "https://a.example/", events: ["transaction.lost"] }],
  ["list", "GET", "/v1/webhooks"],
  ["read", "GET", ONE],
  ["change", "PATCH", ONE, { disabled: true }],
  ["remove", "DELETE", ONE],
  ["secret", "GET", `${ONE}/secret`],
  ["rotate", "POST", `${ONE}/secret/rotate`],
  ["test", "POST", `${ONE}/test`],
  ["recover", "POST", `${ONE}/recover`, { since: "2030-01-31T12:00:00Z" }],
  ["deliveries", "GET", `${ONE}/deliveries`],
  ["delivery", "GET", `${ONE}/deliveries/d1`],
  ["redeliver", "POST", `${ONE}/deliveries/d1/redeliver`],
] as const;

test("one call of an owner is under way, and more than 16 are refused", async () => {
  const begun: string[] = [];
  let gate: Promise<undefined> = Promise.resolve(undefined);
  let running = 0;
  const runningMost: number[] = [];
  const stub = (name: string) => async (): Promise<unknown> => {
    begun.push(name);
    runningMost.push(++running);
    await settle();
    await gate;
    running--;
    return {};
  };
  const admin = Object.fromEntries(CALLS.map(([name]) => [name, stub(name)])) as unknown as WebhookAdmin;
  const app = appWith((scope) => {
    registerWebhookRoutes(scope, { admin });
  });
  const call = async ([, method, url, payload]: (typeof CALLS)[number]): Promise<string> => {
    const headers = { authorization: "webhooks" };
    const answer = await app.inject({ method, url, headers, ...(payload !== undefined && { payload }) });
    return answer.statusCode < 300 ? "ok" : (JSON.parse(answer.body) as Problem).code;
  };
  assert.deepEqual(await Promise.all(CALLS.map(call)), new Array<string>(CALLS.length).fill("ok"));
  assert.deepEqual(begun.sort(), CALLS.map(([name]) => name).sort());
  assert.equal(Math.max(...runningMost), 1);

  const { promise, resolve: open } = Promise.withResolvers<undefined>();
  gate = promise;
  let refused = 0;
  const many = Array.from({ length: 30 }, async () => {
    const code = await call(CALLS[7]);
    // From here on nothing else arrives.
    if (code === "concurrency_limited" && ++refused === 14) open(undefined);
    return code;
  });
  const codes = await Promise.all(many);
  assert.equal(codes.filter((code) => code === "ok").length, 16);
  assert.equal(refused, 14);
  assert.equal(Math.max(...runningMost), 1);
  await app.close();
});
