// Goal: a token survives the round trip and has one spelling, no other text is accepted as a token, and a token without a
// valid MAC is refused.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import fc from "fast-check";
import {
  decodeToken,
  encodeToken,
  type EpochId,
  makeUuidV7,
  type Offset,
  openToken,
  OwnerText,
  parseOffset,
  parseTxnId,
  type TokenContent,
  type TokenSigner,
  type TokenVerifier,
  txnTimestampMs,
  validate,
} from "./index.ts";

const epochs = fc.uuid().map((id) => id as EpochId);
const offsets = fc.bigInt({ min: 0n, max: 10n ** 64n - 1n }).map((offset) => offset as Offset);
const ids = fc
  .tuple(fc.integer({ min: 0, max: 2 ** 48 - 1 }), fc.uint8Array({ minLength: 10, maxLength: 10 }))
  .map(([ms, random]) => makeUuidV7(ms, random));
const contents: fc.Arbitrary<TokenContent> = fc
  .record({
    kind: fc.constantFrom("write" as const, "read" as const, "position" as const),
    id: ids,
    epoch: epochs,
    offset: offsets,
    other: fc.option(epochs, { nil: null }),
    parent: fc.option(epochs, { nil: null }),
    owner: fc.option(fc.bigInt({ min: 0n, max: 2n ** 128n - 1n }), { nil: 0n }),
  })
  .map(({ other, ...content }) => ({
    ...content,
    attempt: content.kind === "position" ? content.epoch : (other ?? content.epoch),
  }));

/** As the services' keys, with a key for every number. */
class Keys implements TokenSigner, TokenVerifier {
  readonly signingKid: number;
  readonly #secret: string;

  constructor(secret: string, signingKid = 1) {
    this.#secret = secret;
    this.signingKid = signingKid;
  }

  tokenMac(kid: number, signed: Uint8Array): Buffer {
    return createHmac("sha256", `${this.#secret}${String(kid)}`)
      .update(signed)
      .digest()
      .subarray(0, 16);
  }

  isTokenMac(kid: number, signed: Uint8Array, mac: Uint8Array): boolean {
    return this.tokenMac(kid, signed).equals(mac);
  }
}

const KEYS = new Keys("ours");
const encode = (content: TokenContent): string => encodeToken(content, KEYS);
/** A text whose MAC is right, whatever it says. */
const signed = (bytes: readonly number[]): string => {
  const body = Buffer.from(bytes);
  return `hw2_${Buffer.concat([body, KEYS.tokenMac(body[1] ?? 0, body)]).toString("base64url")}`;
};

test("a decoded token has the fields it was made from", () => {
  fc.assert(
    fc.property(contents, (content) => {
      assert.deepEqual(openToken(encode(content), KEYS), content);
      assert.deepEqual(decodeToken(encode(content)), content);
    }),
  );
});

test("only the deployment's own MAC opens a token", () => {
  const kids = fc.integer({ min: 1, max: 255 });
  fc.assert(
    fc.property(contents, kids, kids, (content, kid, other) => {
      const token = encodeToken(content, new Keys("ours", kid));
      assert.deepEqual(openToken(token, KEYS), content);
      assert.equal(openToken(token, new Keys("theirs", kid)), undefined);
      // The number of the key is signed as well.
      const body = Buffer.from(token.slice(4), "base64url");
      body[1] = other;
      if (other !== kid) assert.equal(openToken(`hw2_${body.toString("base64url")}`, KEYS), undefined);
    }),
  );
});

test("a token with any one bit changed is none", () => {
  fc.assert(
    fc.property(contents, fc.nat(), (content, at) => {
      const body = Buffer.from(encode(content).slice(4), "base64url");
      const bit = at % (8 * body.length);
      body[bit >> 3] = (body[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      assert.equal(openToken(`hw2_${body.toString("base64url")}`, KEYS), undefined);
    }),
    { numRuns: 2_000 },
  );
});

test("a text that was changed anywhere is no token", () => {
  fc.assert(
    fc.property(contents, fc.nat(), fc.constantFrom(..."Az09-_=. "), (content, at, char) => {
      const token = encode(content);
      const index = at % token.length;
      const changed = token.slice(0, index) + char + token.slice(index + 1);
      if (changed === token) return;
      assert.equal(openToken(changed, KEYS), undefined);
      const claimed = decodeToken(changed);
      if (claimed !== undefined) assert.ok(changed.length === token.length);
    }),
  );
});

test("arbitrary text is no token and does no harm", () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.string().map((text) => `hw2_${text}`),
      ),
      (text) => {
        assert.equal(openToken(text, KEYS), undefined);
        decodeToken(text);
      },
    ),
  );
});

test("whatever its bytes, each accepted token has only one spelling", () => {
  // Zeros, because they make flags that say nothing and offsets that begin with nothing.
  const byte = fc.oneof(fc.constant(0), fc.nat(255));
  const bodies = fc.tuple(fc.nat(5), fc.array(byte, { minLength: 64, maxLength: 110 }), fc.nat(3));
  let tokens = 0;
  fc.assert(
    fc.property(bodies, ([flags, rest, like]) => {
      // The same epoch twice, as no token has it.
      if (like === 0) rest.splice(64, 16, ...rest.slice(16, 32));
      const text = signed([flags, KEYS.signingKid, ...rest]);
      const content = openToken(text, KEYS);
      if (content === undefined) return;
      tokens++;
      assert.equal(encode(content), text);
    }),
    { numRuns: 2_000 },
  );
  assert.ok(tokens > 100);
});

test("an offset that nothing else could carry makes no token", () => {
  const id = makeUuidV7(1, new Uint8Array(10));
  const content = { kind: "write", id, parent: null, owner: 0n } as const;
  const epoch = "6f1c9c52-8f11-4c2e-9d43-2f6f7a1f0b11" as EpochId;
  const at = (offset: bigint): string =>
    encode({ ...content, epoch, attempt: epoch, offset: offset as Offset });
  assert.equal(decodeToken(at(10n ** 64n - 1n))?.offset, 10n ** 64n - 1n);
  assert.equal(decodeToken(at(10n ** 64n)), undefined);
});

test("an owner is an unsigned number of 128 bits", () => {
  const most = 2n ** 128n - 1n;
  for (const text of ["0", "7", "18446744073709551616", String(most), String(most - 1n), "3".repeat(39)])
    assert.ok(validate(OwnerText, text).ok, text);
  for (const text of ["-0", "-7", "01", "", String(most + 1n), "9".repeat(39), `1${String(most)}`])
    assert.ok(!validate(OwnerText, text).ok, text);
});

test("a UUIDv7 carries its time, and only UUIDv7 are ids", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 2 ** 48 - 1 }),
      fc.uint8Array({ minLength: 10, maxLength: 10 }),
      (ms, random) => {
        const id = makeUuidV7(ms, random);
        assert.equal(parseTxnId(id), id);
        assert.equal(parseTxnId(id.toUpperCase()), id);
        assert.equal(txnTimestampMs(id), ms);
      },
    ),
  );
  for (const text of [
    "",
    "x",
    "01a1fc32-3ea4-4303-aeff-248b65d1b72b",
    "01a1fc323ea47303aeff248b65d1b72b",
    "01a1fc32-3ea4-7303-1eff-248b65d1b72b",
  ])
    assert.equal(parseTxnId(text), undefined, text);
});

test("offsets are plain decimal numbers of at most 64 digits", () => {
  for (const text of ["0", "1", "9".repeat(64)]) assert.equal(parseOffset(text)?.toString(), text);
  for (const text of ["", "-1", "01", "1.0", "1e3", " 1", "0x1", "9".repeat(65)])
    assert.equal(parseOffset(text), undefined, text);
});
