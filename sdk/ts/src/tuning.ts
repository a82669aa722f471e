// Every bound and delay of the package that is not an option of a call.

export interface Tuning {
  /** First limit of the jittered delay between attempts, and its largest. */
  readonly backoffBaseMs: number;
  readonly backoffMaxMs: number;
  /** No attempt is begun with less time than this: cut short, it would make a known outcome unknown. */
  readonly attemptMinMs: number;
  /** Where there is another endpoint, one that says nothing for so long must give a sign of life. */
  readonly probeMs: number;
  /** How often a call of an open transaction is sent to a gateway that does not answer. */
  readonly pinnedAttempts: number;
  /** How many times `probeMs` a gateway that has an open transaction may take to give a sign of life. */
  readonly pinnedPatience: number;
  /** First limit of the jittered delay before a conflict is run again; doubles up to `backoffMaxMs`. */
  readonly conflictBaseMs: number;
  /** How long an endpoint that failed is passed over, first and at most. */
  readonly cooldownBaseMs: number;
  readonly cooldownMaxMs: number;
  /** The stream closes this long after the last promise was settled; a script can exit then. */
  readonly streamIdleMs: number;
  /** How long a stream may take to say its first word. */
  readonly streamOpenMs: number;
  /** Where streams do not come through, marks are asked for: so often while they rise, and rarer while they do not. */
  readonly pollBaseMs: number;
  readonly pollMaxMs: number;
  /** How long marks are asked for before a stream is tried again. */
  readonly pollForMs: number;
  /** Silence after which a stream counts as dead. Trackers send a comment every five seconds. */
  readonly streamSilenceMs: number;
  /** How long a tracker may hold a request for verdicts that are still pending. */
  readonly verdictWaitMs: number;
  /** A promise that is still pending then is asked about again after so long, half more or half less. */
  readonly askAgainMs: number;
  readonly verdictBatch: number;
  readonly verdictRequestsMax: number;
  /** A promise that has waited this long is asked about even when nothing says that it must be. */
  readonly recheckMs: number;
}

export const DEFAULT_TUNING: Tuning = {
  backoffBaseMs: 100,
  backoffMaxMs: 5_000,
  attemptMinMs: 250,
  probeMs: 750,
  pinnedAttempts: 4,
  pinnedPatience: 4,
  conflictBaseMs: 10,
  cooldownBaseMs: 1_000,
  cooldownMaxMs: 60_000,
  streamIdleMs: 2_000,
  streamOpenMs: 5_000,
  pollBaseMs: 100,
  pollMaxMs: 2_000,
  pollForMs: 60_000,
  streamSilenceMs: 15_000,
  verdictWaitMs: 5_000,
  askAgainMs: 1_000,
  verdictBatch: 1_000,
  verdictRequestsMax: 4,
  recheckMs: 15_000,
};
