// Makes what PostgreSQL stores in place of a password (RFC 5803), so that no statement ever
// contains the password.
import { createHash, createHmac, pbkdf2Sync, randomBytes } from "node:crypto";

const ITERATIONS = 4_096;
const SALT_BYTES = 16;
const KEY_BYTES = 32;
/**
 * The server would prepare other texts by rules of Unicode, and so would each client; these all
 * leave as they are.
 */
const PLAIN_TEXT = /^[\x20-\x7e]+$/;

/** Only these can be hashed here so that every client can log in with them. */
export function isHashablePassword(password: string): boolean {
  return PLAIN_TEXT.test(password);
}

export function scramVerifier(password: string, salt: Uint8Array = randomBytes(SALT_BYTES)): string {
  if (!isHashablePassword(password)) throw new Error("a password must be of printable ASCII characters");
  const salted = pbkdf2Sync(password, salt, ITERATIONS, KEY_BYTES, "sha256");
  const hmac = (text: string): Buffer => createHmac("sha256", salted).update(text).digest();
  const storedKey = createHash("sha256").update(hmac("Client Key")).digest("base64");
  const serverKey = hmac("Server Key").toString("base64");
  return `SCRAM-SHA-256$${String(ITERATIONS)}:${Buffer.from(salt).toString("base64")}$${storedKey}:${serverKey}`;
}
