import assert from "node:assert/strict";
import { test } from "node:test";
import { HighwaterError } from "@highwater/protocol";
import { AnonymousAuthenticator, ANYBODY } from "./anonymous.ts";
import { FELLOW_SERVICE, InternalAuthenticator, internalCredential } from "./internal.ts";
import { type Authenticator, mayReadOf, unauthenticated } from "./principal.ts";

const OLD = "the secret of last year";
const NEW = "the secret of this year";

const nobody: Authenticator = {
  authenticate: () => Promise.reject(unauthenticated("not one of the others")),
  start: () => undefined,
  stop: () => undefined,
};

async function ask(authenticator: Authenticator, authorization: string | undefined): Promise<string> {
  try {
    return (await authenticator.authenticate(authorization)).id;
  } catch (cause) {
    assert.ok(cause instanceof HighwaterError);
    return cause.code;
  }
}

const bearer = (secret: string): string => `Bearer ${internalCredential(secret)}`;

test("a caller with the secret is a service; while the secret is replaced, the old one is valid, too", async () => {
  const during = new InternalAuthenticator({ secrets: [NEW, OLD], others: nobody });
  assert.equal(await ask(during, bearer(NEW)), "service");
  assert.equal(await ask(during, bearer(OLD)), "service");
  const afterwards = new InternalAuthenticator({ secrets: [NEW], others: nobody });
  assert.equal(await ask(afterwards, bearer(NEW)), "service");
  assert.equal(await ask(afterwards, bearer(OLD)), "unauthenticated");
});

test("nothing that is nearly right is right, nor is anything where no secret is known", async () => {
  const authenticator = new InternalAuthenticator({ secrets: [NEW], others: nobody });
  const right = internalCredential(NEW);
  const other = right.endsWith("A") ? "B" : "A";
  for (const wrong of [
    right.slice(0, -1),
    `${right}A`,
    right.slice(0, -1) + other,
    right.toLowerCase(),
    "hwi_",
    NEW,
  ])
    assert.equal(await ask(authenticator, `Bearer ${wrong}`), "unauthenticated", wrong);
  assert.equal(await ask(authenticator, undefined), "unauthenticated");
  const open = new InternalAuthenticator({ secrets: [], others: new AnonymousAuthenticator() });
  assert.equal(await ask(open, bearer(NEW)), "unauthenticated");
  assert.equal(await ask(open, undefined), "anybody");
});

test("what is sent is not the secret, is the same on every service, and fits in a header", () => {
  const credential = internalCredential("any characters: é, \n, 🌊");
  assert.match(credential, /^hwi_[A-Za-z0-9_-]{43}$/);
  assert.equal(internalCredential(NEW), internalCredential(NEW));
  assert.notEqual(internalCredential(NEW), internalCredential(OLD));
});

test("a service may read data that belongs to no owner and nothing else; without authentication all callers may", () => {
  assert.ok(mayReadOf(FELLOW_SERVICE, 7n));
  assert.deepEqual([...FELLOW_SERVICE.scopes], ["read"]);
  assert.ok(mayReadOf(ANYBODY, 7n));
  const { isEveryOwner: _, ...one } = { ...ANYBODY, owner: 7n };
  assert.ok(mayReadOf(one, 7n));
  assert.ok(!mayReadOf(one, 8n));
  assert.ok(!mayReadOf(one, 0n));
});
