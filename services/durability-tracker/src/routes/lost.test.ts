// Goal: who may list what was lost, read contents and erase them. Method: requests to the routes alone, by callers of one owner with
// one scope each; what the routes ask of the contents is recorded.
import assert from "node:assert/strict";
import { test } from "node:test";
import { SCOPES, type Scope } from "@highwater/service";
import { appWith, OWNER } from "../../test/support/callers.ts";
import { lostRoutes } from "./lost.ts";

const OTHER = 8n;
const LIST = "/v1/lost";
const ID = "01a2199f-bad1-7d6c-8000-000000000000";
const ERASE = `${LIST}/contents?owner=${String(OTHER)}`;

function start() {
  const asked: unknown[] = [];
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
  const app = appWith((scope) => {
    lostRoutes(scope, { contents });
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
  assert.deepEqual(asked, [{ list: String(OWNER) }, { list: String(OTHER) }]);
  await app.close();
});

test("contents are read with a scope of their own, and those of the caller's owner alone", async () => {
  const { app, asked, status } = start();
  for (const scope of SCOPES) {
    const found = await status(scope, `${LIST}/${ID}`);
    assert.equal(found === 403, scope !== "contents:read", scope);
  }
  assert.deepEqual(asked, [{ read: OWNER }]);
  await app.close();
});

test("erasing needs admin", async () => {
  const { app, asked, status } = start();
  for (const scope of SCOPES)
    assert.equal((await status(scope, ERASE, "DELETE")) === 403, scope !== "admin", scope);
  assert.deepEqual(asked, [{ erase: OTHER }]);
  await app.close();
});
