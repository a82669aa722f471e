// Goal: the published library accepts each signature, also during a rotation of the secret.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Webhook } from "standardwebhooks";
import { makeSecret, signatureHeaders } from "./signature.ts";

const body = JSON.stringify({
  type: "webhook.test",
  timestamp: "2026-01-02T03:04:05Z",
  data: { text: "grüße 🙂" },
});
const message = { id: "msg_1", body };

test("a secret is whsec_ and 24 to 64 random bytes", () => {
  const secret = makeSecret();
  assert.match(secret, /^whsec_[A-Za-z0-9+/]+=*$/);
  const bytes = Buffer.from(secret.slice(6), "base64").length;
  assert.ok(bytes >= 24 && bytes <= 64);
  assert.notEqual(makeSecret(), secret);
});

test("the published library verifies, and refuses another body, id, time or secret", () => {
  const secret = makeSecret();
  const headers = signatureHeaders({ current: secret, previous: null }, message, Date.now());
  const library = new Webhook(secret);
  assert.deepEqual(library.verify(body, headers), JSON.parse(body));
  assert.throws(() => library.verify(body + " ", headers));
  assert.throws(() => library.verify(body, { ...headers, "webhook-id": "msg_2" }));
  const later = String(Number(headers["webhook-timestamp"]) + 1);
  assert.throws(() => library.verify(body, { ...headers, "webhook-timestamp": later }));
  assert.throws(() => new Webhook(makeSecret()).verify(body, headers));
});

test("both secrets sign during the overlap; at its end only the new one", () => {
  const [before, current] = [makeSecret(), makeSecret()];
  const nowMs = Date.now();
  const during = signatureHeaders(
    { current, previous: { secret: before, untilMs: nowMs + 1 } },
    message,
    nowMs,
  );
  assert.equal(during["webhook-signature"].split(" ").length, 2);
  for (const secret of [before, current]) assert.ok(new Webhook(secret).verify(body, during));
  const behind = signatureHeaders({ current, previous: { secret: before, untilMs: nowMs } }, message, nowMs);
  assert.ok(new Webhook(current).verify(body, behind));
  assert.throws(() => new Webhook(before).verify(body, behind));
});
