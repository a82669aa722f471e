// Branded identifiers of the wire: transaction ids, epoch ids and log offsets, with their only
// parsers and formatters.

/** A client-chosen UUIDv7 in lower case. */
export type TxnId = string & { readonly __brand: "TxnId" };
/** The UUID of an epoch in lower case. */
export type EpochId = string & { readonly __brand: "EpochId" };
/**
 * A place in one epoch's log: a non-negative integer of at most 64 digits. Only its order means
 * something outside the store's adapter. Offsets of different epochs are never compared.
 */
export type Offset = bigint & { readonly __brand: "Offset" };

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i;
const DECIMAL = /^(0|[1-9][0-9]{0,63})$/;

export const ZERO = 0n as Offset;

/**
 * A transaction as its owner names it. Every owner chooses its ids itself, so two owners may choose
 * the same.
 */
export interface OwnedId {
  readonly id: TxnId;
  readonly owner: bigint;
}

/** The same as one text. Without authentication, it is the id. */
export function ownedName({ id, owner }: OwnedId): string {
  return owner === 0n ? id : `${id}/${owner.toString(10)}`;
}

/** The id in canonical lower case, or undefined when the text is not a UUIDv7. */
export function parseTxnId(text: string): TxnId | undefined {
  return UUID_V7.test(text) ? (text.toLowerCase() as TxnId) : undefined;
}

/** The id in canonical lower case, or undefined when the text is not a UUID. */
export function parseEpochId(text: string): EpochId | undefined {
  return UUID.test(text) ? (text.toLowerCase() as EpochId) : undefined;
}

/** Milliseconds since 1970 that a UUIDv7 carries in its first 48 bits (RFC 9562, section 5.7). */
export function txnTimestampMs(id: TxnId): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

/** An offset from its decimal text of at most 64 digits, or undefined. */
export function parseOffset(text: string): Offset | undefined {
  return DECIMAL.test(text) ? (BigInt(text) as Offset) : undefined;
}

/** An offset as the wire carries it: decimal text. */
export function formatOffset(offset: Offset): string {
  return offset.toString(10);
}

export function maxOffset(a: Offset, b: Offset): Offset {
  return a >= b ? a : b;
}

export function minOffset(a: Offset, b: Offset): Offset {
  return a <= b ? a : b;
}

/** A UUIDv7 made of a wall-clock time and at least ten random bytes; the caller brings both. */
export function makeUuidV7(wallMs: number, random: Uint8Array): TxnId {
  const bytes = new Uint8Array(16);
  let time = Math.floor(wallMs);
  for (let i = 5; i >= 0; i--) {
    bytes[i] = time % 256;
    time = Math.floor(time / 256);
  }
  bytes.set(random.subarray(0, 10), 6);
  bytes[6] = 0x70 | ((bytes[6] ?? 0) & 0x0f);
  bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f);
  return formatUuid(bytes) as TxnId;
}

export function formatUuid(bytes: Uint8Array): string {
  return uuidOfHex(Buffer.from(bytes.buffer, bytes.byteOffset, 16).toString("hex"), 0);
}

/** The UUID whose 32 hexadecimal digits begin there. */
export function uuidOfHex(hex: string, at: number): string {
  return `${hex.slice(at, at + 8)}-${hex.slice(at + 8, at + 12)}-${hex.slice(at + 12, at + 16)}-${hex.slice(at + 16, at + 20)}-${hex.slice(at + 20, at + 32)}`;
}
