// The token: with marks, enough to judge a committed transaction without any state of the server.
// Owns its binary form. The deployment's keys sign it (packages/service). Services read tokens only
// through `openToken`.
import { type EpochId, type Offset, type TxnId, uuidOfHex } from "./ids.ts";

/**
 * `write`: a receipt can prove it. `read`: a read-only transaction, which leaves no receipt.
 * `position`: a commit of the PostgreSQL wire without a receipt. It has no id, so only its position
 * says what becomes of it.
 */
export type TokenKind = "write" | "read" | "position";

export interface TokenContent {
  readonly kind: TokenKind;
  readonly id: TxnId;
  /** Upper bound of everything the transaction wrote and read, in this epoch's log. */
  readonly epoch: EpochId;
  readonly offset: Offset;
  /**
   * The epoch before `epoch`; null for the first. By it an epoch can be judged that no surviving
   * node has seen.
   */
  readonly parent: EpochId | null;
  /**
   * Epoch that the transaction's receipt names. It differs from `epoch` only for a token that was
   * issued later, by a look-up in a successor's history; a receipt of any other epoch belongs to
   * another attempt.
   */
  readonly attempt: EpochId;
  /** Whose transaction it is, as an unsigned tag of 128 bits; 0 without authentication. */
  readonly owner: bigint;
}

export interface TokenSigner {
  /** Number of the key that signs now. */
  readonly signingKid: number;
  /** MAC_BYTES long. */
  tokenMac(kid: number, signed: Uint8Array): Uint8Array;
}

export interface TokenVerifier {
  /** In constant time; false for a key that is not in the schedule. */
  isTokenMac(kid: number, signed: Uint8Array, mac: Uint8Array): boolean;
}

const PREFIX = "hw2_";
const READ = 1;
const OTHER_ATTEMPT = 2;
/** Stands alone: without a receipt there are no attempts to tell apart. */
const POSITION = 4;
const FLAGS_OF: Readonly<Record<TokenKind, number>> = { write: 0, read: READ, position: POSITION };
const KID_AT = 1;
const ID_AT = 2;
const EPOCH_AT = 18;
const PARENT_AT = 34;
const OWNER_AT = 50;
const ATTEMPT_AT = 66;
const UUID_BYTES = 16;
const MAC_BYTES = 16;
const NO_PARENT = "00000000-0000-0000-0000-000000000000";
/** In a token of kind `position`. */
export const NO_ID = NO_PARENT as TxnId;
/**
 * 64 decimal digits are the most that an offset may have anywhere; they fit in 27 bytes, but not
 * all that fits has 64.
 */
const MAX_OFFSET_BYTES = 27;
const OFFSET_LIMIT = 10n ** 64n;
const BYTES_MIN = ATTEMPT_AT + 1 + MAC_BYTES;
const BYTES_MAX = ATTEMPT_AT + UUID_BYTES + MAX_OFFSET_BYTES + MAC_BYTES;
/** Base64 without padding. */
export const TOKEN_CHARS_MAX = PREFIX.length + Math.ceil((BYTES_MAX * 4) / 3);

/**
 * The token as an opaque string: `hw2_` and base64url of flags, key number, id, epoch, parent epoch
 * (zeros: none), owner, other attempt's epoch if any, offset (big-endian), and the MAC of all of
 * that.
 */
export function encodeToken(content: TokenContent, signer: TokenSigner): string {
  const { kind, id, epoch, parent, owner, attempt } = content;
  const other = attempt !== epoch;
  const flags = FLAGS_OF[kind] | (other ? OTHER_ATTEMPT : 0);
  const kid = signer.signingKid;
  const offset = content.offset.toString(16);
  // As one text, because a token is made for every transaction, and a buffer for each part costs
  // ten times as much.
  const uuids = `${id}${epoch}${parent ?? NO_PARENT}`.replaceAll("-", "");
  const whose = owner.toString(16).padStart(32, "0");
  const hex =
    byte(flags) +
    byte(kid) +
    uuids +
    whose +
    (other ? attempt.replaceAll("-", "") : "") +
    (offset.length % 2 === 0 ? offset : `0${offset}`);
  const signed = Buffer.from(hex, "hex");
  return PREFIX + Buffer.concat([signed, signer.tokenMac(kid, signed)]).toString("base64url");
}

const byte = (value: number): string => value.toString(16).padStart(2, "0");

/**
 * What a token of this deployment says, or undefined. Nothing of it is looked at before its MAC has
 * proved right.
 */
export function openToken(text: string, verifier: TokenVerifier): TokenContent | undefined {
  const body = bytesOf(text);
  if (body === undefined) return undefined;
  const signed = body.subarray(0, -MAC_BYTES);
  if (!verifier.isTokenMac(body[KID_AT] ?? 0, signed, body.subarray(-MAC_BYTES))) return undefined;
  return contentOf(signed);
}

/**
 * What a token claims, for clients, tools and tests: only its MAC can show whether a service wrote
 * it.
 */
export function decodeToken(text: string): TokenContent | undefined {
  const body = bytesOf(text);
  return body === undefined ? undefined : contentOf(body.subarray(0, -MAC_BYTES));
}

/**
 * One text for the same bytes: spare bits and characters outside of the encoding would give a token
 * aliases.
 */
function bytesOf(text: string): Buffer | undefined {
  if (!text.startsWith(PREFIX) || text.length > TOKEN_CHARS_MAX) return undefined;
  const encoded = text.slice(PREFIX.length);
  const body = Buffer.from(encoded, "base64url");
  if (body.length < BYTES_MIN || body.toString("base64url") !== encoded) return undefined;
  return body;
}

function contentOf(signed: Buffer): TokenContent | undefined {
  const flags = signed[0] ?? 0xff;
  if (flags > POSITION) return undefined;
  const other = (flags & OTHER_ATTEMPT) !== 0;
  const offsetAt = ATTEMPT_AT + (other ? UUID_BYTES : 0);
  const offsetBytes = signed.length - offsetAt;
  if (offsetBytes < 1 || offsetBytes > MAX_OFFSET_BYTES) return undefined;
  // As one text, as in encoding: thousands are read in one request.
  const hex = signed.toString("hex");
  const epoch = uuidOfHex(hex, 2 * EPOCH_AT) as EpochId;
  const attempt = other ? (uuidOfHex(hex, 2 * ATTEMPT_AT) as EpochId) : epoch;
  // One transaction position has one token: leading zeros and flags that say nothing must not give
  // it aliases.
  if ((offsetBytes > 1 && signed[offsetAt] === 0) || (other && attempt === epoch)) return undefined;
  const offset = BigInt(`0x${hex.slice(2 * offsetAt)}`);
  if (offset >= OFFSET_LIMIT) return undefined;
  const parent = uuidOfHex(hex, 2 * PARENT_AT);
  return {
    kind: flags === POSITION ? "position" : (flags & READ) !== 0 ? "read" : "write",
    id: uuidOfHex(hex, 2 * ID_AT) as TxnId,
    epoch,
    offset: offset as Offset,
    parent: parent === NO_PARENT ? null : (parent as EpochId),
    attempt,
    owner: BigInt(`0x${hex.slice(2 * OWNER_AT, 2 * ATTEMPT_AT)}`),
  };
}
