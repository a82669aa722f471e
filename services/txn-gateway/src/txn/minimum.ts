// The minimum level of a caller's key: what asks for less is answered as if it had asked for that
// level. Raising is always safe, and lets operators protect a program that they cannot change.
import { type Principal } from "@highwater/service";
import { type Acknowledgement } from "./request.ts";

/** The level that the caller may not go below; null: any. */
export function minimumOf(
  { minLevel }: Pick<Principal, "minLevel">,
  levels: readonly string[],
): string | null {
  if (minLevel === undefined) return null;
  // A level that is configured no more: the strongest keeps whatever it promised.
  return levels.includes(minLevel) ? minLevel : (levels.at(-1) ?? null);
}

/** `levels`: weakest first. */
export function stronger(one: string, other: string, levels: readonly string[]): string {
  return levels.indexOf(one) < levels.indexOf(other) ? other : one;
}

/**
 * The level that a transaction has reached: by the marks, or by the verdict. After a failover the
 * marks of its epoch may say less than the verdict.
 */
export function achievedLevel(
  byMarks: string | null,
  byVerdict: string | null,
  levels: readonly string[],
): string | null {
  if (byMarks === null || byVerdict === null) return byMarks ?? byVerdict;
  return stronger(byMarks, byVerdict, levels);
}

/**
 * The request as it is answered. A read that does not wait stays as it is: nothing of it can be
 * lost.
 */
export function raised<Request extends Acknowledgement>(
  request: Request,
  isWrite: boolean,
  principal: Pick<Principal, "minLevel">,
  levels: readonly string[],
): Request {
  const least = minimumOf(principal, levels);
  if (least === null || (request.ack === "commit" && !isWrite)) return request;
  // Without a level that it waits for, the minimum is enough.
  const level = request.ack === "commit" ? least : stronger(request.level, least, levels);
  return { ...request, ack: "durable", level };
}
