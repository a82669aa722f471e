// The header that pins a transaction to its gateway: only a gateway of the deployment can make one, and only the principal that began
// the transaction can use it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type EpochId } from "@highwater/protocol";
import { ANYBODY, DeploymentKeys, type Principal } from "@highwater/service";
import { testDeploymentKeys } from "@highwater/service/testing";
import { EPOCH_A, newId } from "../../test/support/fakes.ts";
import { type Begun, SessionHeaders } from "./session-header.ts";

const SECRET = "a secret of thirty-two characters or more";
const OWNER: Principal = {
  ...ANYBODY,
  ...{ id: "key-1", owner: -7n, role: "app_orders", scopes: new Set(["read", "write"] as const) },
};
const headersOf = (gateway: string): SessionHeaders => new SessionHeaders(gateway, testDeploymentKeys());

function begunNow(more: Partial<Begun> = {}): Begun {
  return {
    ...{ id: newId(), access: "write", epoch: EPOCH_A as EpochId, digest: "0123456789abcdef" },
    ...{ deadlineMs: 1_800_000_000_000, holder: "4711/1800000000000000" },
    ...more,
  };
}

test("is read by every gateway of the deployment, which sees the begin that it belongs to", () => {
  const [ours, theirs] = [headersOf("g-1.eu"), headersOf("g2")];
  for (const begun of [begunNow(), begunNow({ access: "read", holder: "" })]) {
    const read = ours.read(ours.of(begun, OWNER), OWNER);
    assert.ok(read !== null);
    const { boot, ...rest } = read;
    assert.match(boot, /^[\w-]{11}$/);
    assert.deepEqual(rest, { gateway: "g-1.eu", ...begun });
    assert.equal(ours.isOurs(read), true);
    const elsewhere = theirs.read(ours.of(begun, OWNER), OWNER);
    assert.ok(elsewhere !== null && !theirs.isOurs(elsewhere));
  }
});

test("is worth nothing to another principal: another owner, key, role or access", () => {
  const headers = headersOf("g1");
  const header = headers.of(begunNow(), OWNER);
  assert.ok(headers.read(header, { ...OWNER }) !== null);
  for (const other of [
    { owner: 7n },
    { id: "key-2" },
    { role: "app_other" },
    { role: null },
    { scopes: new Set(["read"] as const) },
  ])
    assert.equal(headers.read(header, { ...OWNER, ...other }), null, JSON.stringify(Object.keys(other)));
});

test("is worth nothing in another deployment, with another key, or changed in any place", () => {
  const headers = headersOf("g1");
  const header = headers.of(begunNow(), OWNER);
  const schedule = [{ kid: 1, validFromMs: 0, secret: SECRET }];
  const keysOf = (deployment: string): DeploymentKeys =>
    new DeploymentKeys({ deployment, schedule, wallMs: () => 0 });
  const others = ["development", "production"].map((name) => new SessionHeaders("g1", keysOf(name)));
  const [first, second] = others;
  assert.ok(first !== undefined && second !== undefined);
  for (const other of others) assert.equal(other.read(header, OWNER), null);
  assert.equal(second.read(first.of(begunNow(), OWNER), OWNER), null);
  for (let at = 0; at < header.length; at++) {
    // Another character in every bit pattern, the last one's unused bits excepted.
    const other = header[at] === "A" ? "z" : "A";
    const changed = `${header.slice(0, at)}${other}${header.slice(at + 1)}`;
    assert.equal(headers.read(changed, OWNER), null, changed);
  }
  for (const noise of ["=", "\u00c1", " ", "~"])
    assert.equal(headers.read(`${header.slice(0, -3)}${noise}${header.slice(-3)}`, OWNER), null, noise);
  for (const text of ["", ".", "..", header.slice(0, -1), header.slice(1), `${header}AAAA`])
    assert.equal(headers.read(text, OWNER), null, text);
});
