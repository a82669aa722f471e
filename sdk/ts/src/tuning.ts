// The limits and delays that tests shorten.

export interface Tuning {
  /** Upper limit of the jittered delay between attempts: the first one, and the largest. */
  readonly backoffBaseMs: number;
  readonly backoffMaxMs: number;
  /** Least time to start an attempt with: cut short, it would make a known outcome unknown. */
  readonly attemptMinMs: number;
  /** Time without an answer after which an endpoint is probed, if there is another endpoint. */
  readonly probeMs: number;
  /** Least time between requests with transactions, unless one is answered or full before. */
  readonly gatherMs: number;
  /** How many times `probeMs` the gateway of an open transaction may take to answer a probe. */
  readonly pinnedPatience: number;
  /** First upper limit of the jittered delay after a conflict; doubles up to `backoffMaxMs`. */
  readonly conflictBaseMs: number;
  /** How long a failed endpoint is skipped after the first failure. */
  readonly cooldownBaseMs: number;
  /** How long the stream stays open after the last promise was settled; a script can exit then. */
  readonly streamIdleMs: number;
  /** How long a stream may take to send its first bytes. */
  readonly streamOpenMs: number;
  /** Polling interval without streams: while marks rise, and the longest while they do not. */
  readonly pollBaseMs: number;
  readonly pollMaxMs: number;
  /** How long the client polls for marks before it tries a stream again. */
  readonly pollForMs: number;
  /** Silence after which a stream counts as dead. Trackers send a comment every five seconds. */
  readonly streamSilenceMs: number;
  /** How long a tracker may hold a request for verdicts that are still pending. */
  readonly verdictWaitMs: number;
  /** Delay before a promise that is still pending is asked about again, plus or minus half. */
  readonly askAgainMs: number;
  readonly verdictBatch: number;
  /** A promise that has waited this long is asked about even if nothing says that it must be. */
  readonly recheckMs: number;
}

export const DEFAULT_TUNING: Tuning = {
  backoffBaseMs: 100,
  backoffMaxMs: 5_000,
  attemptMinMs: 250,
  probeMs: 750,
  gatherMs: 1,
  pinnedPatience: 4,
  conflictBaseMs: 10,
  cooldownBaseMs: 1_000,
  streamIdleMs: 2_000,
  streamOpenMs: 5_000,
  pollBaseMs: 100,
  pollMaxMs: 2_000,
  pollForMs: 60_000,
  streamSilenceMs: 15_000,
  verdictWaitMs: 5_000,
  askAgainMs: 1_000,
  verdictBatch: 1_000,
  recheckMs: 15_000,
};
