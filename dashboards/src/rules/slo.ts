// Objectives as rules: events and bad events of five minutes are recorded, and everything else is
// made of these two, so that a window of thirty days costs as little as one of five minutes.
import { allowed, BUDGET_DAYS, FAULTS, OBJECTIVES } from "../config.ts";
import { bucketOf, max, rate, sum } from "../promql.ts";
import { type Alert, type Recording, type Severity } from "./rule.ts";

const WINDOW = "5m";
const faults = FAULTS.join("|");

export interface Slo {
  readonly name: string;
  readonly title: string;
  readonly says: string;
  /** Share of the events that have to be good. */
  readonly objective: number;
  /** Events per second, and the bad ones among them. */
  readonly events: string;
  readonly bad: string;
}

const { commitLatency, durability, availability, verdicts } = OBJECTIVES;
const inTime = (seconds: number): string =>
  seconds < 1 ? `${String(seconds * 1_000)} ms` : `${String(seconds)} s`;

/** All that were slower than a bound of the histogram. */
const slower = (count: string, histogram: string, selector: string, seconds: number): string =>
  `${count} - ${sum(rate(`${histogram}_bucket{${selector}${bucketOf(seconds)}}`, WINDOW))}`;

const commits = sum(rate('highwater_gateway_commit_seconds_count{ack="commit", access="write"}', WINDOW));
const durable = sum(rate("highwater_gateway_durability_lag_seconds_count", WINDOW));
const requests = ["transactions", "refusals"].map(
  (what) => `(${sum(rate(`highwater_gateway_${what}_total`, WINDOW))} or vector(0))`,
);

export const SLOS: readonly Slo[] = [
  {
    name: "commit-latency",
    title: "Commit latency",
    says: `Fast writes that are answered within ${inTime(commitLatency.withinSeconds)}.`,
    objective: commitLatency.share,
    events: commits,
    bad: slower(
      commits,
      "highwater_gateway_commit_seconds",
      'ack="commit", access="write", ',
      commitLatency.withinSeconds,
    ),
  },
  {
    name: "durability",
    title: "Durability",
    says: `Writes that are durable at the exposure level within ${inTime(durability.withinSeconds)} of their commit.`,
    objective: durability.share,
    events: durable,
    bad: slower(durable, "highwater_gateway_durability_lag_seconds", "", durability.withinSeconds),
  },
  {
    name: "availability",
    title: "Availability",
    says: "Requests that neither failed nor were refused by a fault of the service.",
    objective: availability.share,
    events: requests.join(" + "),
    bad: [
      sum(rate(`highwater_gateway_transactions_total{outcome=~"${faults}"}`, WINDOW)),
      sum(rate(`highwater_gateway_refusals_total{code=~"${faults}"}`, WINDOW)),
    ]
      .map((part) => `(${part} or vector(0))`)
      .join(" + "),
  },
  {
    name: "verdicts",
    title: "Verdict correctness",
    says: "Promises of the exposure level that no failover has broken.",
    objective: verdicts.share,
    events: durable,
    bad: max(rate("highwater_broken_total", WINDOW)),
  },
];

export const BURN_WINDOWS = ["5m", "30m", "1h", "2h", "6h", "1d", "3d"] as const;
type BurnWindow = (typeof BURN_WINDOWS)[number];

/** Share of bad events; nothing where there was no traffic. */
export const errorsOf = (window: string): string =>
  `avg_over_time(highwater:slo_bad_events:rate5m[${window}]) / (avg_over_time(highwater:slo_events:rate5m[${window}]) > 0)`;

export const sloRecordings: readonly Recording[] = [
  ...SLOS.flatMap(({ name, objective, events, bad }) => [
    { record: "highwater:slo_events:rate5m", expr: events, labels: { slo: name } },
    { record: "highwater:slo_bad_events:rate5m", expr: bad, labels: { slo: name } },
    {
      record: "highwater:slo_budget:ratio",
      expr: `vector(${String(allowed(objective))})`,
      labels: { slo: name },
    },
  ]),
  ...BURN_WINDOWS.map((window) => ({
    record: `highwater:slo_burn:ratio${window}`,
    expr: `(${errorsOf(window)}) / on (slo) highwater:slo_budget:ratio`,
  })),
  {
    record: "highwater:slo_budget_left:ratio",
    expr: `1 - (${errorsOf(`${String(BUDGET_DAYS)}d`)}) / on (slo) highwater:slo_budget:ratio`,
  },
];

interface BurnAlert {
  readonly factor: number;
  readonly long: BurnWindow;
  readonly short: BurnWindow;
  readonly severity: Severity;
}

/**
 * The windows of Google's SRE workbook: 2% of the budget in an hour, 5% in six; 10% in a day, 10%
 * in three.
 */
export const BURN_ALERTS: readonly BurnAlert[] = [
  { factor: 14.4, long: "1h", short: "5m", severity: "page" },
  { factor: 6, long: "6h", short: "30m", severity: "page" },
  { factor: 3, long: "1d", short: "2h", severity: "ticket" },
  { factor: 1, long: "3d", short: "6h", severity: "ticket" },
];

/**
 * Less than this many events per second over the long window: one slow request at night would be a
 * page.
 */
const EVENTS_MIN = 0.05;

const burning = ({ factor, long, short }: BurnAlert): string =>
  `(highwater:slo_burn:ratio${long} > ${String(factor)} and on (slo) highwater:slo_burn:ratio${short} > ${String(factor)} ` +
  `and on (slo) avg_over_time(highwater:slo_events:rate5m[${long}]) > ${String(EVENTS_MIN)})`;

const burningAs = (severity: Severity): string =>
  BURN_ALERTS.filter((alert) => alert.severity === severity)
    .map(burning)
    .join(" or ");

export const sloAlerts: readonly Alert[] = [
  {
    name: "HighwaterSloBurnsFast",
    expr: burningAs("page"),
    for: "2m",
    severity: "page",
    summary: 'The error budget of {{ $labels.slo }} burns {{ printf "%.0f" $value }} times as fast as it may',
    says: "At this rate the budget of the month is used up within days. The short window says that it goes on now.",
  },
  {
    name: "HighwaterSloBurnsSlowly",
    expr: burningAs("ticket"),
    for: "15m",
    severity: "ticket",
    summary: 'The error budget of {{ $labels.slo }} burns {{ printf "%.1f" $value }} times as fast as it may',
    says: "For a day or more the objective has not been met. Nothing is on fire; something has become worse.",
  },
];
