// What an installation may want to change: names, objectives and the bounds at which alerts fire.
// After a change: `make gen`.
import { ERRORS } from "@highwater/protocol";

/**
 * Label values and selectors of the two services; `highwater_service_info` says which process is
 * which.
 */
export const GATEWAY = "txn-gateway";
export const TRACKER = "durability-tracker";
/**
 * Of the scrape configuration: an alert has to see a process that is gone, and then nothing but its
 * job is left.
 */
export const JOBS = { gateway: "highwater-gateway", tracker: "highwater-tracker" } as const;

export const TAG = "highwater";
/** Where an alert's runbook is; the file's name follows. */
export const RUNBOOKS = "docs/runbooks/";

/**
 * Outcomes that are the service's fault: those of status 500 and above. Conflicts, refused
 * statements and limits of a key are not.
 */
export const FAULTS: readonly string[] = Object.entries(ERRORS)
  .filter(([, { status }]) => status >= 500)
  .map(([code]) => code)
  .sort();

export const OBJECTIVES = {
  /** Of fast writes (`ack: commit`), from the accepted commit to its answer. */
  commitLatency: { share: 0.99, withinSeconds: 0.1 },
  /** Of all writes, from the commit to the mark of the exposure level. */
  durability: { share: 0.99, withinSeconds: 1 },
  /** Of all requests: not refused or failed by a fault of the service. */
  availability: { share: 0.999 },
  /** Of all promises of the exposure level: not broken by a later failover. */
  verdicts: { share: 0.99999 },
} as const;
/** The error budget is that of so many days. */
export const BUDGET_DAYS = 30;

export const BOUNDS = {
  /** Of a limit of exposure; from 0.8 on gateways delay fast commits. */
  exposureShare: 0.8,
  exposureAgeSeconds: 30,
  /**
   * How long a proven loss may stay unreported: longer than replicas take to follow a new primary.
   */
  waitingLossSeconds: 120,
  replicationLagSeconds: 10,
  eventLoopShare: 0.9,
  poolQueueShare: 0.5,
  webhookAgeSeconds: 600,
  certificateDays: 21,
  notificationQueueShare: 0.25,
  wireSessionsShare: 0.9,
  /** Of the commits that asked for an early answer: those without a receipt. */
  wireUnreceiptedShare: 0.5,
} as const;

/** What may be bad, without the dust of binary fractions. */
export const allowed = (objective: number): number => Number((1 - objective).toPrecision(6));
