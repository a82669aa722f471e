// Waiting for what has no way to say that it has happened.
import { setTimeout as sleep } from "node:timers/promises";

const POLL_MS = 20;
const LIMIT_MS = 60_000;

/**
 * Polls until the condition gives something else than `false` and `undefined`, and resolves with
 * that. A condition that throws is asked again, so what must not happen meanwhile is given as a
 * value and judged by the caller. `what` names what is waited for, and as a function is asked only
 * when it was waited for in vain.
 * Errors: `not within … ms: …`, whose cause is the last that the condition has thrown.
 */
export async function eventually<T>(
  what: string | (() => string),
  condition: () => T | false | undefined | Promise<T | false | undefined>,
  limitMs = LIMIT_MS,
): Promise<T> {
  const deadlineMs = performance.now() + limitMs;
  let cause: unknown;
  for (;;) {
    try {
      const value = await condition();
      if (value !== undefined && value !== false) return value;
    } catch (error) {
      cause = error;
    }
    if (performance.now() > deadlineMs) break;
    await sleep(POLL_MS);
  }
  throw new Error(`not within ${String(limitMs)} ms: ${typeof what === "string" ? what : what()}`, { cause });
}
