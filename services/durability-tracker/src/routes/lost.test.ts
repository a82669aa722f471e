// Goal: who may list what was lost, read contents and erase them. Method: requests to the routes alone, by callers of one owner with
// one scope each; what the routes ask of the contents is recorded.
import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "@highwater/runtime/testing";
import {
  Admission,
  ANYBODY,
  type Authenticator,
  Callers,
  installCallers,
  makeServer,
  SCOPES,
  type Scope,
} from "@highwater/service";
import { MemoryLog } from "@highwater/service/testing";
import { lostRoutes } from "./lost.ts";

const [OWN, OTHER] = [7n, 8n];
const LIST = "/v1/lost";
const ID = "01a2199f-bad1-7d6c-8000-000000000000";
const ERASE = `${LIST}/contents?owner=${String(OTHER)}`;

/** The credential of a request is the scope that it has. */
const byScope: Authenticator = {
  authenticate: (authorization) =>
    Promise.resolve({
      id: "k",
      owner: OWN,
      role: null,
      scopes: new Set([authorization as Scope]),
      limits: ANYBODY.limits,
    }),
  start: () => undefined,
  stop: () => undefined,
};

function start() {
  const asked: unknown[] = [];
  const clock = new FakeClock();
  const app = makeServer({ bodyLimitBytes: 1_000, log: new MemoryLog() });
  const defaults = { ratePerSecond: null, burst: null, concurrency: null };
  const contents: Parameters<typeof lostRoutes>[1]["contents"] = {
    list: ({ owner }) => {
      asked.push({ list: owner });
      return Promise.resolve({ lost: [], next: null });
    },
    read: ({ owner }) => {
      asked.push({ read: owner });
      return Promise.reject(new Error("read"));
    },
    erase: (owner) => {
      asked.push({ erase: owner });
      return Promise.reject(new Error("erase"));
    },
  };
  void app.register((scope, _options, done) => {
    const admission = new Admission({ clock, defaults });
    installCallers(
      scope,
      new Callers({ authenticator: byScope, admission, clock, onRefused: () => undefined }),
    );
    lostRoutes(scope, { contents });
    done();
  });
  const status = async (scope: Scope, url: string, method: "GET" | "DELETE" = "GET"): Promise<number> =>
    (await app.inject({ url, method, headers: { authorization: scope } })).statusCode;
  return { app, asked, status };
}

test("a list is the caller's own, and another owner's needs admin", async () => {
  const { app, asked, status } = start();
  for (const scope of SCOPES) assert.equal(await status(scope, LIST), scope === "read" ? 200 : 403, scope);
  for (const scope of SCOPES) {
    const found = await status(scope, `${LIST}?owner=${String(OTHER)}`);
    assert.equal(found, scope === "admin" ? 200 : 403, scope);
  }
  assert.deepEqual(asked, [{ list: String(OWN) }, { list: String(OTHER) }]);
  await app.close();
});

test("contents are read with a scope of their own, and those of the caller's owner alone", async () => {
  const { app, asked, status } = start();
  for (const scope of SCOPES) {
    const found = await status(scope, `${LIST}/${ID}`);
    assert.equal(found === 403, scope !== "contents:read", scope);
  }
  assert.deepEqual(asked, [{ read: OWN }]);
  await app.close();
});

test("erasing needs admin", async () => {
  const { app, asked, status } = start();
  for (const scope of SCOPES)
    assert.equal((await status(scope, ERASE, "DELETE")) === 403, scope !== "admin", scope);
  assert.deepEqual(asked, [{ erase: OTHER }]);
  await app.close();
});
