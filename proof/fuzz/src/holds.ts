// What targets demand of what they call.
import { type ErrorCode, ERRORS, HighwaterError } from "@highwater/protocol";

/**
 * The value, or null when it was refused as it must be: by an error of the catalogue that says that
 * the request is wrong.
 */
export function orRefused<T>(call: () => T, codes?: readonly ErrorCode[]): T | null {
  try {
    return call();
  } catch (cause) {
    assertRefusal(cause, codes);
    return null;
  }
}

export async function orRefusedLater<T>(
  call: () => Promise<T>,
  codes?: readonly ErrorCode[],
): Promise<T | null> {
  try {
    return await call();
  } catch (cause) {
    assertRefusal(cause, codes);
    return null;
  }
}

function assertRefusal(cause: unknown, codes?: readonly ErrorCode[]): void {
  if (!(cause instanceof HighwaterError)) throw cause;
  const { status } = ERRORS[cause.code];
  const isRefusal = codes === undefined ? status >= 400 && status < 500 : codes.includes(cause.code);
  if (!isRefusal) throw new Error(`refused with ${cause.code}`, { cause });
  // It can be written as an answer.
  JSON.stringify(cause.toProblem());
}

/**
 * A JSON value, or undefined for what is none: those have been refused before the parsers in
 * question see anything.
 */
export function jsonOf(input: Buffer): unknown {
  try {
    return JSON.parse(input.toString("utf8")) as unknown;
  } catch {
    return undefined;
  }
}

/** At places that the input decides. */
export function cut(input: Buffer, seed: number): Buffer[] {
  const pieces: Buffer[] = [];
  let state = seed >>> 0;
  for (let at = 0; at < input.length;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    const size = 1 + ((state >>> 16) % 17);
    pieces.push(input.subarray(at, at + size));
    at += size;
  }
  return pieces;
}
