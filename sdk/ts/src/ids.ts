// Transaction ids and tokens. Owns their binary forms; `pending-set.ts` decides what a token means.
import { failure } from "./errors.ts";
import { isOffset, isUuid, type Position } from "./wire.ts";

/**
 * Creates a transaction id: a UUIDv7 of the wall clock and 74 random bits. Pass it as
 * `TransactionOptions.id` if you store the id before the transaction runs. The service refuses an
 * id whose time is long past.
 */
export function newTransactionId(): string {
  const time = Date.now().toString(16).padStart(12, "0");
  const [first = 0, ...rest] = crypto.getRandomValues(new Uint8Array(10));
  const random = hexOf(rest);
  return dashed(`${time}7${random.slice(0, 3)}${(8 + (first % 4)).toString(16)}${random.slice(3)}`);
}

/** Returns the id in canonical lower case. Throws `invalid_id` if the text is not a UUIDv7. */
export function checkTransactionId(text: string): string {
  const id = text.toLowerCase();
  if (!isUuid(id) || !/^.{14}7.{4}[89ab]/.test(id)) throw failure("invalid_id", `${text} is not a UUIDv7`);
  return id;
}

function dashed(hex: string): string {
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

export function hexOf(bytes: Iterable<number>): string {
  let hex = "";
  for (const byte of bytes) hex += (0x100 + byte).toString(16).slice(1);
  return hex;
}

export interface TokenContent {
  readonly id: string;
  readonly position: Position;
}

/**
 * Reads the id and the position from a token: all that a client needs to judge it. The service
 * reads more, and checks the signature. Throws `invalid_token`, also for the alternative spellings
 * that base64 and leading zeros would allow.
 */
export function decodeToken(token: string): TokenContent {
  try {
    const [, text = ""] = /^hw2_([\w-]{1,167})$/.exec(token) ?? [];
    const base64 = text.replaceAll("-", "+").replaceAll("_", "/");
    const binary = atob(base64);
    const hex = hexOf(Array.from(binary, (char) => char.charCodeAt(0)));
    // Flags, key number, id, epoch, parent epoch, owner, another epoch if one is named, offset,
    // MAC.
    const other = Number(hex[1]) & 2 ? "(?!\\2).{32}" : "";
    const layout = new RegExp(`^0[0-4]..(.{32})(.{32}).{64}${other}(?!00.{33})(.+).{32}$`);
    const [, id = "", epoch = "", digits = ""] = layout.exec(hex) ?? [];
    const offset = String(BigInt(`0x${digits}`));
    // The spare bits of the last digit could be anything; they must be zero.
    if (btoa(binary).replace(/=/g, "") === base64 && isOffset(offset))
      return { id: dashed(id), position: { epoch: dashed(epoch), offset } };
  } catch {
    // Not base64, or without an offset.
  }
  throw failure("invalid_token", "not a token: pass the `token` of a transaction");
}
