// Goal: the service accepts only tokens that the issuer has signed for this service and that are
// valid now. Method: a real issuer with real keys and a key set over HTTP, a clock that only the
// test moves, and forgeries.
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import { type JWTPayload, SignJWT, UnsecuredJWT } from "jose";
import { HighwaterError } from "@highwater/protocol";
import { FakeClock } from "@highwater/runtime/testing";
import { JwtAuthenticator, type JwtOptions } from "../src/identity/jwt.ts";
import { type Claims, type IssuerKey, makeKey, TestIssuer } from "../src/testing/issuer.ts";

const issuer = new TestIssuer();
let clock: FakeClock;
let key: IssuerKey;
let stranger: IssuerKey;

before(async () => {
  await issuer.start();
  key = await makeKey("one");
  stranger = await makeKey("one");
});

after(() => issuer.stop());

beforeEach(() => {
  clock = new FakeClock();
  issuer.keys = [key];
  issuer.mode = "well";
  issuer.reads = 0;
});

function make(more: Partial<JwtOptions> = {}): JwtAuthenticator {
  return new JwtAuthenticator({
    jwksUrl: issuer.jwksUrl,
    issuer: issuer.name,
    audiences: ["other", "highwater"],
    clockToleranceMs: 5_000,
    scopePrefix: "",
    roleClaim: "highwater_role",
    roles: ["app_orders"],
    ownerClaim: null,
    jwksTimeoutMs: 30_000,
    jwksCooldownMs: 600_000,
    jwksMaxAgeMs: 600_000,
    cacheSize: 100,
    clock,
    ...more,
  });
}

const sign = (by: IssuerKey, claims: Claims = {}): Promise<string> => issuer.sign(by, clock.wallMs(), claims);

/** The principal's id, or the error's code. */
async function ask(authenticator: JwtAuthenticator, token: string): Promise<string> {
  try {
    return (await authenticator.authenticate(`Bearer ${token}`)).id;
  } catch (cause) {
    assert.ok(cause instanceof HighwaterError, String(cause));
    assert.ok(!JSON.stringify(cause.toProblem()).includes(token), "an error must not repeat the token");
    return cause.code;
  }
}

const ALICE = "jwt:idp.example.com#alice";

describe("a good token", () => {
  it("gets in by every asymmetric algorithm", async () => {
    for (const algorithm of ["RS256", "PS512", "ES256", "ES384", "EdDSA", "Ed25519"]) {
      const signer = await makeKey(algorithm, algorithm);
      issuer.keys = [key, signer];
      const principal = await make().authenticate(`Bearer ${await sign(signer)}`);
      assert.equal(principal.id, ALICE);
      assert.equal(principal.role, "app_orders");
      assert.deepEqual([...principal.scopes], ["read", "write"]);
    }
  });

  it("is verified once, also when many requests bring it at once, and forgotten when it expires", async () => {
    const authenticator = make();
    const token = await sign(key);
    const answers = await Promise.all(Array.from({ length: 50 }, () => ask(authenticator, token)));
    assert.deepEqual(new Set(answers), new Set([ALICE]));
    assert.equal(issuer.reads, 1);
    await issuer.stop();
    try {
      await clock.advance(64_000);
      assert.equal(await ask(authenticator, token), ALICE, "within the tolerance of 5 s");
      assert.equal(authenticator.cached, 1);
      await clock.advance(2_000);
      assert.equal(await ask(authenticator, token), "unauthenticated");
      assert.equal(authenticator.cached, 0);
    } finally {
      await issuer.start();
    }
  });

  it("is not trusted longer than the key set, however long it says to live", async () => {
    const authenticator = make({ jwksMaxAgeMs: 30_000 });
    const token = await sign(key, { exp: Math.floor(clock.wallMs() / 1_000) + 86_400 });
    assert.equal(await ask(authenticator, token), ALICE);
    await clock.advance(29_000);
    await ask(authenticator, token);
    assert.equal(authenticator.cached, 1);
    await clock.advance(2_000);
    const again = ask(authenticator, token);
    assert.equal(authenticator.cached, 0, "its signature is checked again");
    assert.equal(await again, ALICE);
  });
});

describe("a token of another kind", () => {
  it("is refused, and an access token is taken under the names that issuers give it", async () => {
    const typed = (typ: string): Promise<string> => issuer.sign(key, clock.wallMs(), {}, typ);
    const authenticator = make();
    for (const typ of ["JWT", "at+jwt", "application/at+jwt", "AT+JWT"])
      assert.equal(await ask(authenticator, await typed(typ)), ALICE, typ);
    for (const typ of ["logout+jwt", "dpop+jwt", "secevent+jwt", "application/rt+jwt", "JOSE"])
      assert.equal(await ask(authenticator, await typed(typ)), "unauthenticated", typ);
  });
});

describe("a flood of tokens", () => {
  it("has at most 64 checked at once, and only known ones where too many were refused", async () => {
    const authenticator = make();
    const known = await sign(key);
    assert.equal(await ask(authenticator, known), ALICE);
    const tokens = await Promise.all(Array.from({ length: 80 }, (_, at) => sign(key, { sub: String(at) })));
    const answers = await Promise.all(tokens.map((token) => ask(authenticator, token)));
    const refused = answers.filter((answer) => answer === "authentication_unavailable");
    assert.equal(refused.length, 16);
    assert.equal((await authenticator.authenticate(`Bearer ${known}`, true)).id, ALICE);
    await assert.rejects(authenticator.authenticate(`Bearer ${tokens[79] ?? ""}`, true), {
      code: "rate_limited",
    });
  });
});

describe("a bad token", () => {
  it("with claims for another audience or time, or without them", async () => {
    const seconds = Math.floor(clock.wallMs() / 1_000);
    const bad: Claims[] = [
      { iss: "https://elsewhere.example.com" },
      { iss: `${issuer.name}/` },
      { aud: "somebody" },
      { aud: [] },
      { aud: undefined },
      { exp: seconds - 60 },
      { exp: undefined },
      { nbf: seconds + 60 },
      { sub: undefined },
    ];
    const authenticator = make();
    for (const claims of bad)
      assert.equal(
        await ask(authenticator, await sign(key, claims)),
        "unauthenticated",
        JSON.stringify(claims),
      );
    assert.equal(await ask(authenticator, await sign(key, { exp: seconds - 2, nbf: seconds + 2 })), ALICE);
    assert.equal(authenticator.cached, 1, "only what was good is remembered");
    await assert.rejects(
      authenticator.authenticate(`Bearer ${await sign(key, { aud: "somebody" })}`),
      /claim aud is missing or not/,
    );
  });

  it("with a role that tokens may not use gets an error that says so", async () => {
    assert.equal(await ask(make(), await sign(key, { highwater_role: "postgres" })), "forbidden");
    assert.equal(await ask(make(), await sign(key, { highwater_role: undefined })), "forbidden");
  });

  it("that is unsigned, or signed by another issuer", async () => {
    const authenticator = make();
    const good = await sign(key);
    const [header = "", payload = "", signature = ""] = good.split(".");
    const unsigned = new UnsecuredJWT(JSON.parse(Buffer.from(payload, "base64url").toString()) as JWTPayload);
    const forged = { ...(JSON.parse(Buffer.from(payload, "base64url").toString()) as object), sub: "root" };
    const bad = [
      unsigned.encode(),
      `${Buffer.from('{"alg":"none"}').toString("base64url")}.${payload}.${signature}`,
      `${header}.${payload}.`,
      `${header}.${Buffer.from(JSON.stringify(forged)).toString("base64url")}.${signature}`,
      `${header}.${payload}`,
      "not-a-token",
      await sign(stranger),
      await sign(await makeKey("unheard")),
    ];
    for (const token of bad) assert.equal(await ask(authenticator, token), "unauthenticated", token);
    assert.equal(await ask(authenticator, good), ALICE);
  });

  it("with the public key passed off as a shared secret", async () => {
    const rsa = await makeKey("rsa", "RS256");
    issuer.keys = [rsa];
    const secrets = [rsa.publicPem, rsa.publicPem.trim(), JSON.stringify(rsa.jwk), rsa.jwk.n ?? ""];
    const claims = JSON.parse(
      Buffer.from((await sign(rsa)).split(".")[1] ?? "", "base64url").toString(),
    ) as JWTPayload;
    for (const secret of secrets) {
      const token = await new SignJWT(claims)
        .setProtectedHeader({ alg: "HS256", kid: "rsa" })
        .sign(new TextEncoder().encode(secret));
      assert.equal(await ask(make(), token), "unauthenticated");
    }
    assert.equal(await ask(make(), await sign(rsa)), ALICE);
  });
});

describe("the issuer's keys", () => {
  it("are read again for a key that is new, and the old one is no longer good", async () => {
    const authenticator = make({ jwksCooldownMs: 0 });
    assert.equal(await ask(authenticator, await sign(key)), ALICE);
    const next = await makeKey("two");
    issuer.keys = [next];
    assert.equal(await ask(authenticator, await sign(next)), ALICE);
    assert.equal(issuer.reads, 2);
    assert.equal(await ask(authenticator, await sign(key, { jti: "another token" })), "unauthenticated");
  });

  it("are not read for every forged key within the cooldown", async () => {
    const authenticator = make();
    assert.equal(await ask(authenticator, await sign(key)), ALICE);
    for (let count = 0; count < 20; count++)
      assert.equal(
        await ask(authenticator, await sign(await makeKey(`forged${String(count)}`))),
        "unauthenticated",
      );
    assert.equal(issuer.reads, 1);
  });

  it("that cannot be read are no fault of the token, and are not asked for again at once", async () => {
    for (const mode of ["error", "garbage", "redirect", "hang"] as const) {
      const authenticator = make({ jwksTimeoutMs: mode === "hang" ? 2_000 : 30_000 });
      const token = await sign(key);
      issuer.mode = mode;
      issuer.reads = 0;
      for (let count = 0; count < 10; count++)
        assert.equal(await ask(authenticator, token), "authentication_unavailable", mode);
      assert.equal(issuer.reads, 1, mode);
      issuer.mode = "well";
      await clock.advance(1_000);
      assert.equal(await ask(authenticator, token), ALICE, mode);
    }
    await issuer.stop();
    const answer = make().authenticate(`Bearer ${await sign(key)}`);
    await assert.rejects(answer, (cause: unknown) => {
      assert.ok(cause instanceof HighwaterError && cause.code === "authentication_unavailable");
      return (cause.details.retryAfterMs ?? 0) > 0;
    });
    await issuer.start();
  });

  it("that cannot be read for a new key do not shut out the known ones", async () => {
    const authenticator = make({ jwksCooldownMs: 0 });
    assert.equal(await ask(authenticator, await sign(key)), ALICE);
    issuer.mode = "error";
    assert.equal(await ask(authenticator, await sign(await makeKey("two"))), "authentication_unavailable");
    assert.equal(await ask(authenticator, await sign(key, { jti: "another token" })), ALICE);
  });
});
