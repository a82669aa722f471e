// Resets a pooled session, so that no state of one request reaches another. A statement's text does
// not show whether it leaves state: a function can do all that SET can.
import { type PipelineOutcome } from "./pipeline.ts";

/**
 * Behind every write: all that DISCARD ALL takes away but the prepared statements and their plans,
 * the seed of random(), and a look for statements that SQL has prepared. One of those may stand
 * under the name of another one, so a hit ends the session.
 */
export const RESET = `CLOSE ALL; RESET SESSION AUTHORIZATION; RESET ALL; UNLISTEN *; DISCARD TEMP; DISCARD SEQUENCES;
SELECT highwater.leave_session()`;

/** Between two principals. Alone in its message: it cannot run in a transaction. */
export const DISCARD_ALL = "DISCARD ALL";

export function isClean({ results, error, status }: PipelineOutcome): boolean {
  return error === null && status === "I" && results.at(-1)?.rows[0]?.[0] === "f";
}
