// Goal: the stored form of a password is the one that the exchange in RFC 7677 (section 3) was made with.
import assert from "node:assert/strict";
import { createHash, createHmac } from "node:crypto";
import { test } from "node:test";
import { isHashablePassword, scramVerifier } from "./scram.ts";

const NONCES = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const SALT = "W22ZaJ0SNY7soEsUEjb6gQ==";
const AUTH_MESSAGE = `n=user,r=rOprNGfwEbeRWgbNEkqO,r=${NONCES},s=${SALT},i=4096,c=biws,r=${NONCES}`;
const PROOF = Buffer.from("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", "base64");
const SERVER_SIGNATURE = "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

test("the verifier is the one of the RFC's exchange", () => {
  const verifier = scramVerifier("pencil", Buffer.from(SALT, "base64"));
  const match = /^SCRAM-SHA-256\$4096:([^$]+)\$([^:]+):(.+)$/.exec(verifier);
  assert.equal(match?.[1], SALT);
  const storedKey = Buffer.from(match[2] ?? "", "base64");
  const serverKey = Buffer.from(match[3] ?? "", "base64");
  const signature = createHmac("sha256", storedKey).update(AUTH_MESSAGE).digest();
  const clientKey = PROOF.map((byte, at) => byte ^ (signature[at] ?? 0));
  assert.deepEqual(createHash("sha256").update(clientKey).digest(), storedKey);
  assert.equal(createHmac("sha256", serverKey).update(AUTH_MESSAGE).digest("base64"), SERVER_SIGNATURE);
});

test("every verifier has a salt of its own, and only plain texts have one", () => {
  assert.notEqual(scramVerifier("pencil"), scramVerifier("pencil"));
  assert.ok(isHashablePassword("p@ss:w/rd%# ?"));
  for (const text of ["", "tab\t", "naïve"]) {
    assert.ok(!isHashablePassword(text));
    assert.throws(
      () => scramVerifier(text),
      (cause: Error) => !cause.message.includes(text) || text === "",
    );
  }
});
