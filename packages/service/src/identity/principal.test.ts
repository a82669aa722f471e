import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { HighwaterError, OwnerText, validate } from "@highwater/protocol";
import { ANYBODY, AnonymousAuthenticator } from "./anonymous.ts";
import { BearerAuthenticator } from "./bearer.ts";
import { type Authenticator, bearerOf, NOBODY, ownerTag, type Principal, requireScope } from "./principal.ts";

const hasCode = (code: string) => (cause: unknown) => cause instanceof HighwaterError && cause.code === code;

test("an owner's tag is the first 128 bits of the name's SHA-256", () => {
  for (const name of ["orders", "k7m2", "naïve", ""]) {
    const digest = createHash("sha256").update(name).digest();
    const expected = (digest.readBigUInt64BE(0) << 64n) | digest.readBigUInt64BE(8);
    assert.equal(ownerTag(name), expected);
    assert.ok(validate(OwnerText, String(expected)).ok);
  }
  assert.ok(ownerTag("orders") !== ownerTag("order") && ownerTag("orders") !== NOBODY);
});

test("a bearer credential, and what is none", () => {
  assert.equal(bearerOf("Bearer abc.d-e_f~g+h/i=="), "abc.d-e_f~g+h/i==");
  assert.equal(bearerOf("bearer  x "), "x");
  for (const header of [
    undefined,
    "",
    "Bearer",
    "Bearer ",
    "Basic YTpi",
    "Bearer a b",
    "Bearer a\nb",
    "Bearerx",
  ])
    assert.throws(() => bearerOf(header), hasCode("unauthenticated"), String(header));
});

test("a scope stands for itself", () => {
  const admin: Principal = { ...ANYBODY, scopes: new Set(["admin"] as const) };
  requireScope(admin, "admin");
  assert.throws(() => {
    requireScope(admin, "read");
  }, hasCode("forbidden"));
});

test("without authentication all callers are the same principal, which may do everything", async () => {
  const principal = await new AnonymousAuthenticator().authenticate();
  assert.equal(principal.owner, NOBODY);
  assert.equal(principal.role, null);
  for (const scope of ["read", "write", "admin"] as const) requireScope(principal, scope);
});

test("keys and tokens go to their own authenticator, or are refused where there is none", async () => {
  const accepting = (id: string): Authenticator => ({
    authenticate: () => Promise.resolve({ ...ANYBODY, id }),
    start: () => undefined,
    stop: () => undefined,
  });
  const both = new BearerAuthenticator({ keys: accepting("key"), tokens: accepting("token") });
  assert.equal((await both.authenticate("Bearer hwk_x")).id, "key");
  assert.equal((await both.authenticate("Bearer eyJ.e30.x")).id, "token");
  const neither = new BearerAuthenticator({ keys: null, tokens: null });
  await assert.rejects(neither.authenticate("Bearer hwk_x"), /no API keys/);
  await assert.rejects(neither.authenticate("Bearer eyJ.e30.x"), /no JSON Web Tokens/);
});
