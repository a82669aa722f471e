// Decides when a failed delivery is tried again. Pure: the random number is an argument.

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const RETRY_AFTER_MAX_MS = 24 * HOUR_MS;

/** Delays after the first, second … failure. After the last delay the delivery has failed. */
export const RETRY_DELAYS_MS: readonly number[] = Object.freeze([
  5 * SECOND_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  14 * HOUR_MS,
  20 * HOUR_MS,
  24 * HOUR_MS,
]);

/**
 * Adds up to a tenth of a delay, so that receivers that failed together are not all called again at
 * once.
 */
const JITTER = 0.1;

export interface Failure {
  /** Failures since the delivery last began, including this one. */
  readonly failures: number;
  /** The Retry-After of the receiver; null without one. */
  readonly retryAfterMs: number | null;
  readonly delaysMs: readonly number[];
  /** A random number, evenly distributed in [0, 1). */
  readonly random: number;
}

/** Milliseconds until the next attempt; null when there is none. */
export function nextAttempt({ failures, retryAfterMs, delaysMs, random }: Failure): number | null {
  const delayMs = delaysMs[failures - 1];
  if (delayMs === undefined) return null;
  const asked = Math.min(retryAfterMs ?? 0, RETRY_AFTER_MAX_MS);
  const base = Math.max(delayMs, asked);
  return Math.round(base + base * JITTER * random);
}

/** Reads Retry-After: seconds or a date; null when it is neither. */
export function parseRetryAfter(text: string | undefined, nowMs: number): number | null {
  const value = text?.trim() ?? "";
  if (/^[0-9]{1,9}$/.test(value)) return Number(value) * SECOND_MS;
  // An HTTP date begins with the name of a day. Date.parse alone accepts almost anything.
  const atMs = /^[A-Z][a-z]{2,8},? /.test(value) ? Date.parse(value) : NaN;
  return Number.isNaN(atMs) ? null : Math.max(0, atMs - nowMs);
}
