// The header that pins a transaction to its gateway: nobody but the gateways can make one, and only its owner can use it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { newId } from "../../test/support/fakes.ts";
import { SessionHeaders } from "./session-header.ts";

const SECRET = "a secret of sixteen or more";
const OWNER = -7n;

test("is read by every gateway with the secret, which sees whose it is", () => {
  const [ours, theirs] = [new SessionHeaders("g-1.eu", SECRET), new SessionHeaders("g2", SECRET)];
  const id = newId();
  const read = ours.read(ours.of(id, OWNER), OWNER);
  assert.deepEqual(read, { gateway: "g-1.eu", id });
  assert.equal(ours.isOurs(read), true);
  const elsewhere = theirs.read(ours.of(id, OWNER), OWNER);
  assert.ok(elsewhere !== null && !theirs.isOurs(elsewhere));
});

test("is worth nothing in another's hands, with another secret, or changed in any place", () => {
  const headers = new SessionHeaders("g1", SECRET);
  const header = headers.of(newId(), OWNER);
  assert.equal(headers.read(header, 7n), null);
  assert.equal(new SessionHeaders("g1", "another secret of enough").read(header, OWNER), null);
  assert.equal(new SessionHeaders("g1", null).read(new SessionHeaders("g1", null).of(newId(), 0n), 0n), null);
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
