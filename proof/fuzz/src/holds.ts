// Requirements of targets on the code that they call.
import { type ErrorCode, ERRORS, HighwaterError } from "@highwater/protocol";

/**
 * The value; null when the call was refused as it must be, by an error of the catalogue that blames
 * the request.
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
  // The error can be written as an answer.
  JSON.stringify(cause.toProblem());
}

/** A JSON value; undefined if the input is not JSON, which is refused before these parsers run. */
export function jsonOf(input: Buffer): unknown {
  try {
    return JSON.parse(input.toString("utf8")) as unknown;
  } catch {
    return undefined;
  }
}

/** Cuts the input at places that the seed decides. */
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
