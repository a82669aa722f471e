// Every bound and delay of the package that is not an option of a call.

export interface Tuning {
  /** First limit of the jittered delay between attempts, and its largest. */
  readonly backoffBaseMs: number;
  readonly backoffMaxMs: number;
  /** No attempt is begun with less time than this: cut short, it would make a known outcome unknown. */
  readonly attemptMinMs: number;
  /** How long an endpoint that failed is passed over, first and at most. */
  readonly cooldownBaseMs: number;
  readonly cooldownMaxMs: number;
  /** The stream closes this long after the last promise was settled; a script can exit then. */
  readonly streamIdleMs: number;
  /** How long a stream may take to say its first word. */
  readonly streamOpenMs: number;
  /** Silence after which a stream counts as dead. Trackers send a comment every five seconds. */
  readonly streamSilenceMs: number;
  /** How long a tracker may hold a request for verdicts that are still pending. */
  readonly verdictWaitMs: number;
  readonly verdictBatch: number;
  readonly verdictRequestsMax: number;
  /** A promise that has waited this long is asked about even when nothing says that it must be. */
  readonly recheckMs: number;
}

export const DEFAULT_TUNING: Tuning = {
  backoffBaseMs: 100,
  backoffMaxMs: 5_000,
  attemptMinMs: 250,
  cooldownBaseMs: 1_000,
  cooldownMaxMs: 60_000,
  streamIdleMs: 2_000,
  streamOpenMs: 5_000,
  streamSilenceMs: 15_000,
  verdictWaitMs: 5_000,
  verdictBatch: 1_000,
  verdictRequestsMax: 4,
  recheckMs: 15_000,
};
