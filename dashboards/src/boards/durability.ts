// What is at risk right now, how long durability takes, and what was lost.
import { type Board } from "../board.ts";
import { BOUNDS, OBJECTIVES } from "../config.ts";
import { bars, graph, row, stat } from "../panels.ts";
import { increase, max, quantile, rate, STEP, sum } from "../promql.ts";

const YES_NO = { "0": ["no", "green"], "1": ["yes", "red"] } as const;
const LAG = "highwater_durability_lag_seconds";

const atRisk = [
  stat({
    title: "Transactions at risk",
    says: "Committed transactions of all gateways that are not durable at the exposure level: the next failure may discard them.",
    queries: [{ expr: max("highwater_exposed_transactions"), legend: "at risk" }],
    unit: "short",
    width: 4,
  }),
  stat({
    title: "Log at risk",
    says: "Bytes of log between the exposure level's mark and the newest commit.",
    queries: [{ expr: max("highwater_exposed_bytes"), legend: "at risk" }],
    unit: "bytes",
    width: 4,
  }),
  stat({
    title: "Oldest at risk",
    says: "Age of the oldest transaction that is not durable at the exposure level.",
    queries: [{ expr: max("highwater_exposed_oldest_seconds"), legend: "oldest" }],
    unit: "s",
    width: 4,
    steps: ["green", [1, "orange"], [BOUNDS.exposureAgeSeconds, "red"]],
  }),
  stat({
    title: "Lost in this time",
    says: "Transactions that were committed and are gone after a failure. Every one of them was reported: event, webhook, verdict.",
    queries: [{ expr: max(increase("highwater_lost_total", "$__range")), legend: "lost" }],
    unit: "short",
    width: 4,
    decimals: 0,
    steps: ["green", [1, "red"]],
  }),
  stat({
    title: "Broken in this time",
    says: "Transactions whose promise a failure broke. Always an incident: see the runbook.",
    queries: [{ expr: max(increase("highwater_broken_total", "$__range")), legend: "broken" }],
    unit: "short",
    width: 4,
    decimals: 0,
    steps: ["green", [1, "red"]],
  }),
  stat({
    title: "A level stands still",
    says: "Whether the mark of a level does not rise although transactions wait for it.",
    queries: [{ expr: max("highwater_level_stalled", "level"), legend: "{{level}}" }],
    unit: "short",
    width: 4,
    hasName: true,
    texts: YES_NO,
  }),
];

const exposure = [
  graph({
    title: "At risk, by the region of the gateway",
    says: "Transactions that are not durable at the exposure level, by the region of their gateway.",
    queries: [{ expr: max("highwater_exposed_region_transactions", "region"), legend: "{{region}}" }],
    unit: "short",
    width: 12,
    isStacked: true,
  }),
  graph({
    title: "Value at risk, by unit",
    says: "Sums of `atRisk` of the transactions that are not durable at the exposure level.",
    queries: [{ expr: max("highwater_exposed_value", "unit"), legend: "{{unit}}" }],
    unit: "short",
    width: 12,
  }),
  graph({
    title: "Waiting, by level",
    says: "Committed transactions that the mark of each level has not reached. Stronger levels wait longer because of the distance.",
    queries: [{ expr: max("highwater_pending_transactions", "level"), legend: "{{level}}" }],
    unit: "short",
    width: 12,
  }),
  graph({
    title: "Age of the oldest at risk",
    says: "Grows by a second per second while nothing becomes durable. The line is the alert's threshold.",
    queries: [{ expr: max("highwater_exposed_oldest_seconds", "level"), legend: "{{level}}" }],
    unit: "s",
    width: 12,
    hasLines: true,
    steps: ["green", [BOUNDS.exposureAgeSeconds, "red"]],
  }),
  bars({
    title: "How near the limits of exposure are",
    says: "For each limit, the share that the fullest gateway counts. From 80% gateways delay fast commits, at 100% they refuse them.",
    queries: [
      {
        expr: max("highwater_gateway_exposure_used / (highwater_gateway_exposure_bound > 0)", "limit"),
        legend: "{{limit}}",
      },
    ],
    unit: "percentunit",
    width: 12,
    max: 1,
    decimals: 1,
    steps: ["green", [BOUNDS.exposureShare, "orange"], [1, "red"]],
  }),
];

const lag = [
  graph({
    title: "From commit to durable, by level",
    says: "Time from the announcement to the mark, as trackers measure it, for 50% and 99% of the writes.",
    queries: [
      { expr: quantile(0.5, LAG, "level"), legend: "{{level}} p50" },
      { expr: quantile(0.99, LAG, "level"), legend: "{{level}} p99" },
    ],
    unit: "s",
    width: 12,
  }),
  graph({
    title: "From commit to durable, as gateways see it",
    says: "For every write, at the exposure level, until the gateway has the mark. The line is the objective.",
    queries: [0.5, 0.9, 0.99].map((share) => ({
      expr: quantile(share, "highwater_gateway_durability_lag_seconds", "level"),
      legend: `{{level}} p${String(share * 100)}`,
    })),
    unit: "s",
    width: 12,
    hasLines: true,
    steps: ["green", [OBJECTIVES.durability.withinSeconds, "red"]],
  }),
  graph({
    title: "Log between primary and mark",
    says: "Log that the primary has flushed and the level has not reached.",
    queries: [{ expr: max("highwater_mark_lag_bytes", "level"), legend: "{{level}}" }],
    unit: "bytes",
    width: 12,
  }),
  graph({
    title: "How fast marks advance",
    says: "Bytes of log that become durable per second. Zero under load: the level has stalled.",
    queries: [{ expr: max(rate("highwater_mark_bytes"), "level"), legend: "{{level}}" }],
    unit: "Bps",
    width: 12,
  }),
];

const verdicts = [
  graph({
    title: "Lost, broken, delayed",
    says: "Transactions with such an event, in each interval. Delayed: not durable within the time that the client had set.",
    queries: [
      { expr: max(increase("highwater_lost_total", STEP)), legend: "lost" },
      { expr: max(increase("highwater_broken_total", STEP)), legend: "broken" },
      { expr: max(increase("highwater_delayed_total", STEP)), legend: "delayed" },
    ],
    unit: "short",
    width: 12,
    isBars: true,
    decimals: 0,
    colors: { lost: "red", broken: "dark-red", delayed: "orange" },
  }),
  graph({
    title: "Verdicts that were asked for",
    says: "Tokens that trackers judged, by verdict. Clients that listen to marks seldom ask.",
    queries: [{ expr: sum(rate("highwater_verdicts_total"), "verdict"), legend: "{{verdict}}" }],
    unit: "ops",
    width: 12,
    colors: { durable: "green", pending: "blue", lost: "red", broken: "dark-red" },
  }),
  graph({
    title: "In doubt",
    says: "Attempts that no mark alone can judge, by state. The number rises after a failover, and returns to 0 when every attempt has a verdict.",
    queries: [{ expr: max("highwater_in_doubt_transactions", "state"), legend: "{{state}}" }],
    unit: "short",
    width: 12,
  }),
  graph({
    title: "Age of the oldest loss that waits",
    says: "Proven losses that are not reported: the proof has not reached the exposure level, and no operator's command releases it. The line is the alert's threshold.",
    queries: [{ expr: max("highwater_waiting_losses_oldest_seconds", "level"), legend: "{{level}}" }],
    unit: "s",
    width: 12,
    hasLines: true,
    steps: ["green", [BOUNDS.waitingLossSeconds, "red"]],
  }),
];

export const durability: Board = {
  name: "durability",
  title: "Durability",
  says: "Transactions at risk right now, by level and region; how long durability takes; losses.",
  from: "now-1h",
  rows: [
    { row: row("Now"), panels: atRisk },
    { row: row("Exposure"), panels: exposure },
    { row: row("Durability lag"), panels: lag },
    { row: row("Verdicts"), panels: verdicts },
  ],
};
