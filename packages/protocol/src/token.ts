// The token: all that is needed, with marks, to judge a committed transaction without any server-side state.
import { type EpochId, type Offset, type TxnId, uuidOfHex } from "./ids.ts";

/** `write`: a receipt can prove it. `read`: a read-only transaction, which leaves no receipt. */
export type TokenKind = "write" | "read";

export interface TokenContent {
  readonly kind: TokenKind;
  readonly id: TxnId;
  /** Upper bound of everything the transaction wrote and read, in this epoch's log. */
  readonly epoch: EpochId;
  readonly offset: Offset;
  /**
   * Epoch that the transaction's receipt names. It differs from `epoch` only for a token that was issued
   * later, by a look-up in a successor's history; a receipt of any other epoch belongs to another attempt.
   */
  readonly attempt: EpochId;
  /** Whose transaction it is: the signed 64-bit tag that its receipt has; 0 where nobody is authenticated. */
  readonly owner?: bigint;
}

const PREFIX = "hw1_";
const READ = 1;
const OTHER_ATTEMPT = 2;
const OWNED = 4;
const KNOWN_FLAGS = READ | OTHER_ATTEMPT | OWNED;
const ATTEMPT_AT = 33;
const UUID_BYTES = 16;
const OWNER_BYTES = 8;
/** 64 decimal digits are the most that an offset may have anywhere; they fit in 27 bytes, but not all that fits has 64. */
const MAX_OFFSET_BYTES = 27;
const OFFSET_LIMIT = 10n ** 64n;

/**
 * The token as an opaque string: `hw1_` and base64url of flags, id, epoch, other attempt's epoch if any, owner if any,
 * offset (big-endian).
 */
export function encodeToken(content: TokenContent): string {
  const { owner = 0n } = content;
  const other = content.attempt !== content.epoch;
  const flags =
    (content.kind === "read" ? READ : 0) | (other ? OTHER_ATTEMPT : 0) | (owner === 0n ? 0 : OWNED);
  const offset = content.offset.toString(16);
  // As one text, because a token is made for every transaction, and a buffer for each part costs ten times as much.
  const uuids = `${content.id}${content.epoch}${other ? content.attempt : ""}`.replaceAll("-", "");
  const whose = owner === 0n ? "" : BigInt.asUintN(64, owner).toString(16).padStart(16, "0");
  const hex = `0${flags.toString(16)}${uuids}${whose}${offset.length % 2 === 0 ? offset : `0${offset}`}`;
  return PREFIX + Buffer.from(hex, "hex").toString("base64url");
}

/** What a token says, or undefined when the text is not a token that this version wrote. */
export function decodeToken(text: string): TokenContent | undefined {
  if (!text.startsWith(PREFIX) || text.length > 160) return undefined;
  const encoded = text.slice(PREFIX.length);
  const body = Buffer.from(encoded, "base64url");
  const flags = body[0] ?? 0xff;
  if ((flags & ~KNOWN_FLAGS) !== 0) return undefined;
  const other = (flags & OTHER_ATTEMPT) !== 0;
  const ownerAt = ATTEMPT_AT + (other ? UUID_BYTES : 0);
  const offsetAt = ownerAt + ((flags & OWNED) !== 0 ? OWNER_BYTES : 0);
  const offsetBytes = body.length - offsetAt;
  if (offsetBytes < 1 || offsetBytes > MAX_OFFSET_BYTES) return undefined;
  // As one text, as in encoding: thousands are read in one request.
  const hex = body.toString("hex");
  const epoch = uuidOfHex(hex, 2 * 17) as EpochId;
  const attempt = other ? (uuidOfHex(hex, 2 * ATTEMPT_AT) as EpochId) : epoch;
  const owner = offsetAt === ownerAt ? 0n : body.readBigInt64BE(ownerAt);
  // One transaction position has one token: base64, leading zeros and flags that say nothing must not give it aliases.
  if (offsetBytes > 1 && body[offsetAt] === 0) return undefined;
  if ((other && attempt === epoch) || (offsetAt !== ownerAt && owner === 0n)) return undefined;
  if (body.toString("base64url") !== encoded) return undefined;
  const offset = BigInt(`0x${hex.slice(2 * offsetAt)}`);
  if (offset >= OFFSET_LIMIT) return undefined;
  return {
    kind: (flags & READ) !== 0 ? "read" : "write",
    id: uuidOfHex(hex, 2) as TxnId,
    epoch,
    offset: offset as Offset,
    attempt,
    ...(owner === 0n ? {} : { owner }),
  };
}
