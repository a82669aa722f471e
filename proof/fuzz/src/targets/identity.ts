// A caller's identity: credentials in the Authorization header, the claims of tokens, and the
// header that pins a transaction.
import assert from "node:assert/strict";
import { type JWTPayload } from "jose";
import { type EpochId, type TxnId } from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import {
  ANYBODY,
  InternalAuthenticator,
  internalCredential,
  parseKeyText,
  type Principal,
} from "@highwater/service";
import { testDeploymentKeys } from "@highwater/service/testing";
import {
  BearerAuthenticator,
  bearerOf,
  JwtAuthenticator,
  jwtPrincipal,
  unauthenticated,
} from "@highwater/service/internals";
import { makeKey, TestIssuer } from "@highwater/service/testing/issuer";
import { authorizationOf, type Begun, SessionHeaders } from "@highwater/txn-gateway/internals";
import { jsonOf, orRefused, orRefusedLater } from "../holds.ts";
import { EPOCH, ID } from "../samples.ts";
import { pure, type Target } from "../target.ts";

const KEY = `hwk_abcdefgh_${"A".repeat(43)}`;
const SECRET = "a secret of the services";
const CLAIMS = {
  issuer: "https://idp.example.com/realms/shop",
  scopePrefix: "hw:",
  roleClaim: "highwater_role",
  roles: ["app_orders"],
  ownerClaim: null,
};

/** Placeholder for a token that is signed when the target is opened. */
const SIGNED = "{{signed}}";
const [HEADER, PAYLOAD] = [
  { alg: "ES256", kid: "one" },
  { sub: "alice", exp: 4e9 },
].map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"));

const credentials: Target = {
  name: "credentials",
  about:
    "an Authorization header is a principal's, or is refused with 401 or 403; only what was issued gets in",
  seeds: [
    ...[`Bearer ${KEY}`, `Bearer ${SIGNED}`, `bearer  ${internalCredential(SECRET)} `, "Basic dTpw", ""],
    ...[`Bearer ${HEADER ?? ""}.${PAYLOAD ?? ""}.`, `Bearer ${HEADER ?? ""}.${PAYLOAD ?? ""}.c2ln`],
  ],
  words: [
    "Bearer ",
    "hwk_",
    "hwi_",
    SIGNED,
    ".",
    "..",
    "eyJhbGciOiJub25lIn0",
    HEADER ?? "",
    PAYLOAD ?? "",
    "=",
  ],
  sliceRuns: 400,
  open: async () => {
    const issuer = new TestIssuer();
    const key = await makeKey("one");
    issuer.keys = [key];
    await issuer.start();
    const token = await issuer.sign(key, Date.now(), { exp: 4_000_000_000 });
    const tokens = new JwtAuthenticator({
      issuer: issuer.name,
      audiences: ["highwater"],
      jwksUrl: issuer.jwksUrl,
      clockToleranceMs: 0,
      jwksTimeoutMs: 5_000,
      jwksCooldownMs: 0,
      jwksMaxAgeMs: 600_000,
      cacheSize: 10,
      clock: realClock,
      scopePrefix: "",
      roleClaim: "highwater_role",
      roles: ["app_orders"],
      ownerClaim: null,
    });
    const keys = {
      authenticate: async (authorization: string | undefined) => {
        parseKeyText(bearerOf(authorization));
        throw unauthenticated("The key is unknown.");
      },
      start: () => undefined,
      stop: () => undefined,
    };
    const others = new BearerAuthenticator({ keys, tokens });
    const all = new InternalAuthenticator({ secrets: [SECRET], others });
    return {
      run: async (input) => {
        const text = input.toString("latin1").replaceAll(SIGNED, token);
        const principal = await orRefusedLater(
          () => all.authenticate(text),
          ["unauthenticated", "forbidden"],
        );
        if (principal === null) return;
        const isIssued = [token, internalCredential(SECRET)].some((known) => text.includes(known));
        assert.ok(isIssued, "a caller got in with a credential that was never issued");
        assert.ok(tokens.cached <= 10);
      },
      close: () => issuer.stop(),
    };
  },
};

const claims = pure({
  name: "claims",
  about: "whatever a signed token claims: a principal whose role tokens may use, or a refusal",
  seeds: [
    JSON.stringify({ sub: "alice", highwater_role: "app_orders", scope: "hw:read hw:write" }),
    JSON.stringify({ sub: "a\nb", highwater_role: "app_orders", scp: ["hw:admin", 7], team: "red" }),
  ],
  words: ["sub", "scope", "scp", "highwater_role", "app_orders", "hw:admin", "postgres", "team", "\ud800"],
  sliceRuns: 2_000,
  run: (input) => {
    const payload = jsonOf(input) as JWTPayload | null | undefined;
    if (typeof payload !== "object" || payload === null || Array.isArray(payload)) return;
    for (const ownerClaim of [null, "team"]) {
      const made: Principal | null = orRefused(
        (): Principal => jwtPrincipal(payload, { ...CLAIMS, ownerClaim }),
        ["unauthenticated", "forbidden"],
      );
      if (made === null) continue;
      assert.equal(made.role, "app_orders");
      assert.match(made.id, /^[\w.@|:/#?~-]{1,200}$/, "it may stand in a log");
      assert.equal(BigInt.asUintN(128, made.owner), made.owner);
    }
  },
});

const OWNERS = [0n, 5n, 2n ** 128n - 1n];
const HEADERS = new SessionHeaders("gateway-1", testDeploymentKeys());
const BEGUN: Begun = {
  id: ID as TxnId,
  access: "write",
  epoch: EPOCH as EpochId,
  digest: "0123456789abcdef",
  deadlineMs: 1_800_000_000_000,
  holder: "4711/1800000000000000",
};

const session = pure({
  name: "session-header",
  about: "only a header that a gateway of the deployment wrote for this principal names a transaction",
  seeds: [HEADERS.of(BEGUN, ANYBODY), "gateway-1..", "..", ID],
  words: [".", "gateway-1", ID, "==", "gateway-2.x"],
  sliceRuns: 2_000,
  run: (input) => {
    const text = input.toString("latin1");
    for (const owner of OWNERS) {
      const read = HEADERS.read(text, { ...ANYBODY, owner });
      if (read === null) continue;
      assert.equal(owner, 0n, "another's header is good");
      assert.equal(read.id, ID);
      assert.equal(text, HEADERS.of(read, ANYBODY), "the header has another spelling");
      assert.ok(HEADERS.isOurs(read));
    }
    const name = input.toString("hex").slice(0, 40);
    const own = new SessionHeaders(name, testDeploymentKeys());
    const read = own.read(own.of(BEGUN, ANYBODY), ANYBODY);
    assert.deepEqual({ ...read, boot: "" }, { ...BEGUN, gateway: name, boot: "" });
  },
});

const connectionString = pure({
  name: "connection-string",
  about: "the credential in a Neon connection string is found or refused, and never quoted",
  seeds: [
    "postgresql://u:hwk_secret@host/db?sslmode=require",
    "postgres://u@h/d",
    "postgres://u:%E0%A4%A@h/d",
  ],
  words: ["postgresql://", ":", "@", "%", "%00", "%20", "[::1]", "?", "#"],
  sliceRuns: 2_000,
  run: (input) => {
    const text = input.toString("latin1");
    orRefused(() => authorizationOf({ "neon-connection-string": text }), ["invalid_request"]);
    orRefused(() => authorizationOf({ "neon-connection-string": [text, text] }), ["invalid_request"]);
  },
});

export const targets: readonly Target[] = [credentials, claims, session, connectionString];
