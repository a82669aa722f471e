// The form of sealed contents, for those that store them and cannot open them.
/** Version and number of the wrapping key. */
export const HEAD_BYTES = 2;
export const KEY_BYTES = 32;
export const NONCE_BYTES = 12;
export const TAG_BYTES = 16;
export const SEALED_VERSION = 1;
const WRAPPED_BYTES = HEAD_BYTES + NONCE_BYTES + KEY_BYTES + TAG_BYTES;
const LEAST_BYTES = WRAPPED_BYTES + NONCE_BYTES + TAG_BYTES;
/** So many characters of base64url are whole bytes. */
const FIRST_CHARS = 4;

/** True if `splitSealed` takes what this text in base64url stands for. */
export function isSealed(text: string): boolean {
  const bytes = Math.floor((text.length * 3) / 4);
  return bytes >= LEAST_BYTES && Buffer.from(text.slice(0, FIRST_CHARS), "base64url")[0] === SEALED_VERSION;
}

/**
 * Splits sealed contents, so that a tracker can store each data key once and destroy it. Throws if
 * they are not of this version.
 */
export function splitSealed(sealed: Uint8Array): {
  readonly wrapped: Uint8Array;
  readonly body: Uint8Array;
} {
  if (sealed[0] !== SEALED_VERSION || sealed.length < LEAST_BYTES)
    throw new Error("the contents are not sealed as version 1");
  return { wrapped: sealed.subarray(0, WRAPPED_BYTES), body: sealed.subarray(WRAPPED_BYTES) };
}
