import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { hashSecret, isSecret, makeKeyText, parseKeyText } from "./key-text.ts";

test("a new key parses into its parts, and no two are alike", () => {
  const made = Array.from({ length: 500 }, makeKeyText);
  for (const { id, secret, text } of made) {
    assert.deepEqual(parseKeyText(text), { id, secret });
    assert.equal(Buffer.from(secret, "base64url").length, 32);
  }
  assert.equal(new Set(made.map(({ id }) => id)).size, made.length);
  assert.equal(new Set(made.map(({ secret }) => secret)).size, made.length);
});

test("anything else is no key", () => {
  const { text } = makeKeyText();
  for (const other of [
    "",
    "hwk_",
    text.slice(1),
    `${text}x`,
    text.slice(0, -1),
    text.toUpperCase(),
    ` ${text}`,
  ])
    assert.equal(parseKeyText(other), null, other);
});

test("the secret is stored as its SHA-256 and compared with it", () => {
  const { secret } = makeKeyText();
  const stored = hashSecret(secret);
  assert.deepEqual(stored, createHash("sha256").update(secret).digest());
  assert.ok(isSecret(secret, stored));
  assert.ok(!isSecret(makeKeyText().secret, stored));
});
