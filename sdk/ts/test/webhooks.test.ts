// The verification of webhooks, against signatures of the library that the standard's authors publish.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Webhook } from "standardwebhooks";
import { verifyWebhook, type WebhookRequest } from "../src/webhooks.ts";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER = "whsec_c2VjcmV0IG9mIHNvbWVib2R5IGVsc2UgYXRhbGw=";
const EVENT = {
  type: "transaction.lost",
  timestamp: "2026-01-01T00:00:00Z",
  data: { id: "x", text: "größer" },
};
const AT = new Date("2026-01-01T00:00:05Z");

function signed(changes: Partial<WebhookRequest> = {}, by = SECRET): WebhookRequest {
  const body = JSON.stringify(EVENT);
  const headers = {
    "webhook-id": "msg_1",
    "webhook-timestamp": String(AT.getTime() / 1_000),
    "webhook-signature": new Webhook(by).sign("msg_1", AT, body),
  };
  return { body, headers, secret: SECRET, now: () => AT.getTime() + 1_000, ...changes };
}

test("the library's signatures are verified: as text and bytes, with headers of any kind", async () => {
  const expected = { id: "msg_1", event: EVENT };
  assert.deepEqual(await verifyWebhook(signed()), expected);
  const { body, headers } = signed();
  assert.deepEqual(await verifyWebhook(signed({ body: new TextEncoder().encode(body as string) })), expected);
  assert.deepEqual(
    await verifyWebhook(signed({ headers: new Headers(headers as Record<string, string>) })),
    expected,
  );
  const upper = Object.entries(headers).map(
    ([name, value]) => [name.toUpperCase(), [String(value)]] as const,
  );
  assert.deepEqual(await verifyWebhook(signed({ headers: Object.fromEntries(upper) })), expected);
});

test("of several signatures and secrets one that fits is enough, as while a secret is replaced", async () => {
  assert.equal((await verifyWebhook(signed({ secret: [OTHER, SECRET] }))).id, "msg_1");
  const request = signed();
  const headers = request.headers as Record<string, string>;
  const both = `v1a,${"A".repeat(88)} v1,@@@ ${new Webhook(OTHER).sign("msg_1", AT, request.body as string)} ${headers["webhook-signature"] ?? ""}`;
  assert.equal(
    (await verifyWebhook({ ...request, headers: { ...headers, "webhook-signature": both } })).id,
    "msg_1",
  );
});

test("anything changed, missing or old is refused", async () => {
  const { headers } = signed() as { headers: Record<string, string> };
  const refused: [string, WebhookRequest][] = [
    ["no_matching_signature", signed({ body: JSON.stringify({ ...EVENT, type: "transaction.durable" }) })],
    ["no_matching_signature", signed({ headers: { ...headers, "webhook-id": "msg_2" } })],
    ["no_matching_signature", signed({}, OTHER)],
    ["no_matching_signature", signed({ secret: [] })],
    ["no_matching_signature", signed({ headers: { ...headers, "webhook-signature": "v1," } })],
    ["missing_headers", signed({ headers: { ...headers, "webhook-signature": undefined } })],
    ["missing_headers", signed({ headers: { ...headers, "webhook-timestamp": "now" } })],
    ["stale_timestamp", signed({ now: () => AT.getTime() + 301_000 })],
    ["stale_timestamp", signed({ now: () => AT.getTime() - 301_000 })],
    ["invalid_secret", signed({ secret: "whsec_" })],
    ["invalid_secret", signed({ secret: "whsec_***" })],
  ];
  for (const [code, request] of refused)
    await assert.rejects(verifyWebhook(request), { name: "WebhookVerificationError", code }, code);
  const body = "no json";
  const signature = new Webhook(SECRET).sign("msg_1", AT, body);
  await assert.rejects(
    verifyWebhook(signed({ body, headers: { ...headers, "webhook-signature": signature } })),
    {
      code: "invalid_body",
    },
  );
});
