// Goal: the MAC equals that of Node's own HMAC for every key and message, also when they follow
// each other.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import fc from "fast-check";
import { Hmac } from "./hmac.ts";

const bytes = (maxLength: number): fc.Arbitrary<Uint8Array> => fc.uint8Array({ maxLength, size: "max" });

test("it makes the MACs that Node makes, of bytes and texts of any length", () => {
  const messages = fc.array(fc.oneof(bytes(3_000), fc.string({ unit: "grapheme" })), {
    minLength: 1,
    maxLength: 6,
  });
  fc.assert(
    fc.property(bytes(64), messages, (key, all) => {
      const hmac = new Hmac(key);
      for (const message of all)
        assert.equal(hmac.of(message), createHmac("sha256", key).update(message).digest("hex"));
    }),
  );
});

test("a key longer than a block is refused", () => {
  assert.throws(() => new Hmac(new Uint8Array(65)), /65 bytes/);
});
