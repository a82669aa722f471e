// Waits for conditions that cannot notify.
import { setTimeout as sleep } from "node:timers/promises";

const POLL_MS = 20;
const LIMIT_MS = 60_000;

/**
 * Polls until the condition returns something other than `false` and `undefined`, and resolves with
 * that. A condition that throws is tried again, so return a fault that must not happen, and let the
 * caller judge it. `what`: what is waited for; a function is called only at the limit. Errors: `not
 * within … ms: …`, with the condition's last error as the cause.
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
