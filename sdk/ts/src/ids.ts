// Transaction ids and tokens. Owns their binary forms; what a token means is the business of `book.ts`.
import { failure } from "./errors.ts";
import { type Position } from "./wire.ts";

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i;
const TOKEN_PREFIX = "hw1_";
const OTHER_ATTEMPT = 2;
const OWNED = 4;
const KNOWN_FLAGS = 7;
const ATTEMPT_AT = 33;
const UUID_BYTES = 16;
const OWNER_BYTES = 8;
const MAX_OFFSET_BYTES = 27;
const OFFSET_LIMIT = 10n ** 64n;

/**
 * A new transaction id: a UUIDv7 of the wall clock and 74 random bits. For `TransactionOptions.id`, where the id is to be stored
 * before the transaction runs; the service refuses one whose time is long past.
 */
export function newTransactionId(): string {
  const time = Date.now().toString(16).padStart(12, "0");
  const random = crypto.getRandomValues(new Uint8Array(10));
  random[0] = 0x70 | ((random[0] ?? 0) & 0x0f);
  random[2] = 0x80 | ((random[2] ?? 0) & 0x3f);
  return dashed(time + hexOf(random));
}

/** The id in canonical lower case. Throws `invalid_id` when the text is not a UUIDv7. */
export function checkTransactionId(text: string): string {
  if (!UUID_V7.test(text)) throw failure("invalid_id", `not a UUIDv7: ${text}`);
  return text.toLowerCase();
}

function dashed(hex: string): string {
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

function formatUuid(bytes: Uint8Array): string {
  return dashed(hexOf(bytes));
}

export function hexOf(bytes: Uint8Array): string {
  let hex = "";
  for (const byte of bytes) hex += (0x100 + byte).toString(16).slice(1);
  return hex;
}

export interface TokenContent {
  readonly id: string;
  readonly position: Position;
}

/**
 * The id and the position that a token carries. The service reads more out of it; a client needs no more to judge it.
 * Throws `invalid_token`, also for the alternative spellings of a token that base64 and leading zeros would allow.
 */
export function decodeToken(token: string): TokenContent {
  const bytes = token.startsWith(TOKEN_PREFIX) ? fromBase64Url(token.slice(TOKEN_PREFIX.length)) : undefined;
  const content = bytes === undefined ? undefined : parseToken(bytes);
  if (content === undefined) throw failure("invalid_token", "not a token of this service");
  return content;
}

function parseToken(bytes: Uint8Array): TokenContent | undefined {
  const flags = bytes[0] ?? 0xff;
  if ((flags & ~KNOWN_FLAGS) !== 0) return undefined;
  const isOther = (flags & OTHER_ATTEMPT) !== 0;
  const ownerAt = ATTEMPT_AT + (isOther ? UUID_BYTES : 0);
  const isOwned = (flags & OWNED) !== 0;
  const offsetAt = ownerAt + (isOwned ? OWNER_BYTES : 0);
  const offset = bytes.subarray(offsetAt);
  if (offset.length < 1 || offset.length > MAX_OFFSET_BYTES) return undefined;
  if (offset.length > 1 && offset[0] === 0) return undefined;
  if (isOwned && !bytes.subarray(ownerAt, offsetAt).some(Boolean)) return undefined;
  const epoch = formatUuid(bytes.subarray(17, ATTEMPT_AT));
  if (isOther && formatUuid(bytes.subarray(ATTEMPT_AT, ownerAt)) === epoch) return undefined;
  const value = BigInt(`0x${hexOf(offset)}`);
  if (value >= OFFSET_LIMIT) return undefined;
  return { id: formatUuid(bytes.subarray(1, 17)), position: { epoch, offset: String(value) } };
}

function fromBase64Url(text: string): Uint8Array | undefined {
  if (text.length > 160) return undefined;
  try {
    const binary = atob(text.replace(/[-_]/g, (char) => (char === "-" ? "+" : "/")));
    // Only the one spelling that `btoa` gives, without padding, in the alphabet of URLs.
    const canonical = btoa(binary).replace(/[+/=]/g, (char) =>
      char === "+" ? "-" : char === "/" ? "_" : "",
    );
    return canonical === text ? Uint8Array.from(binary, (char) => char.charCodeAt(0)) : undefined;
  } catch {
    return undefined;
  }
}
