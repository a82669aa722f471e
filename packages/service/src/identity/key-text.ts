// The text of an API key: `hwk_ID_SECRET`. The id names the key in logs and lists; only the holder
// of the key has the secret.
import { hash, randomBytes, timingSafeEqual } from "node:crypto";

/** 32 characters, without those that look alike: an operator types an id to revoke a key. */
const ID_CHARS = "abcdefghijkmnpqrstuvwxyz23456789";
const ID_LENGTH = 8;
const SECRET_BYTES = 32;
const KEY = /^hwk_([a-z2-9]{8})_([A-Za-z0-9_-]{43})$/;

export const KEY_PREFIX = "hwk_";

export interface KeyText {
  readonly id: string;
  readonly secret: string;
}

export function makeKeyText(): KeyText & { readonly text: string } {
  // 32 divides 256, so all characters are equally likely.
  const id = Array.from(randomBytes(ID_LENGTH), (byte) => ID_CHARS[byte % ID_CHARS.length]).join("");
  const secret = randomBytes(SECRET_BYTES).toString("base64url");
  return { id, secret, text: `${KEY_PREFIX}${id}_${secret}` };
}

export function parseKeyText(text: string): KeyText | null {
  const match = KEY.exec(text);
  return match?.[1] === undefined || match[2] === undefined ? null : { id: match[1], secret: match[2] };
}

/** The stored form. The secret is 256 random bits, so a slow hash would protect it no better. */
export function hashSecret(secret: string): Buffer {
  return hash("sha256", secret, "buffer");
}

const FINGERPRINT = /^([a-z2-9]{8}):([0-9a-f]{64})$/;

/**
 * Registers a key that was made elsewhere: its id and the hash of its secret. It cannot be used as
 * a key.
 */
export function fingerprintOf({ id, secret }: KeyText): string {
  return `${id}:${hashSecret(secret).toString("hex")}`;
}

/** Null if the text is not a fingerprint. */
export function parseFingerprint(text: string): { readonly id: string; readonly secretHash: Buffer } | null {
  const match = FINGERPRINT.exec(text);
  if (match?.[1] === undefined || match[2] === undefined) return null;
  return { id: match[1], secretHash: Buffer.from(match[2], "hex") };
}

/** Compares in a time that reveals nothing about a partial match. */
export function isSecret(secret: string, secretHash: Uint8Array): boolean {
  return timingSafeEqual(hashSecret(secret), secretHash);
}
