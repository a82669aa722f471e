import assert from "node:assert/strict";
import { test } from "node:test";
import { type JWTPayload } from "jose";
import { HighwaterError } from "@highwater/protocol";
import { jwtPrincipal, type TokenClaims } from "./jwt-claims.ts";
import { ownerTag, type Principal } from "./principal.ts";

const CLAIMS: TokenClaims = {
  issuer: "https://idp.example.com/realms/shop",
  scopePrefix: "",
  roleClaim: "highwater_role",
  roles: ["app_orders", "app_audit"],
  ownerClaim: null,
};

function principal(payload: JWTPayload, claims: Partial<TokenClaims> = {}): Principal {
  return jwtPrincipal({ sub: "alice", highwater_role: "app_orders", ...payload }, { ...CLAIMS, ...claims });
}

const hasCode = (code: string) => (cause: unknown) => cause instanceof HighwaterError && cause.code === code;

test("scopes come from scope or scp, as words or as a list, with a prefix where one is set", () => {
  const scopes = (payload: JWTPayload, scopePrefix = ""): string =>
    [...principal(payload, { scopePrefix }).scopes].join(" ");
  assert.equal(scopes({ scope: "openid write read" }), "read write");
  assert.equal(scopes({ scp: "admin" }), "admin");
  assert.equal(scopes({ scp: ["read", "other", 7] }), "read");
  assert.equal(scopes({ scope: "highwater:read read:all admin" }, "highwater:"), "read");
  assert.equal(scopes({}), "");
  assert.equal(scopes({ scope: { read: true } }), "");
});

test("a role must be named, and be one that tokens may use", () => {
  assert.equal(principal({ highwater_role: "app_audit" }).role, "app_audit");
  assert.equal(principal({ r: "app_audit" }, { roleClaim: "r" }).role, "app_audit");
  for (const role of [undefined, null, "", "postgres", ["app_orders"], { 0: "app_orders" }])
    assert.throws(() => principal({ highwater_role: role }), hasCode("forbidden"));
});

test("the owner is the subject, or the claim that is configured, always within the issuer", () => {
  const { issuer } = CLAIMS;
  assert.equal(principal({}).owner, ownerTag(`jwt:${issuer}#alice`));
  assert.notEqual(principal({}).owner, principal({ sub: "bob" }).owner);
  const team = { ownerClaim: "team" };
  assert.equal(principal({ sub: "bob", team: "x" }, team).owner, principal({ team: "x" }, team).owner);
  assert.notEqual(principal({ sub: "k7m2abcd" }).owner, ownerTag("k7m2abcd"), "a subject is no key's owner");
  assert.throws(() => principal({ team: 7 }, team), hasCode("unauthenticated"));
  assert.throws(() => principal({ sub: "" }), hasCode("unauthenticated"));
});

test("the id is short, plain and unique", () => {
  assert.equal(principal({}).id, "jwt:idp.example.com#alice");
  const long = "x".repeat(200);
  const ids = ["a\nb", "a\tb", `${long}1`, `${long}2`, "jörg", 'a"b', "a~b"].map(
    (sub) => principal({ sub }).id,
  );
  assert.equal(new Set(ids).size, ids.length);
  for (const id of ids) assert.match(id, /^jwt:idp\.example\.com#[\w.@|:/#?-]{1,40}~[0-9a-f]{16}$/);
});
