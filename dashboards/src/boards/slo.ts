// Objectives: how they are kept, how fast their budgets burn, and which alerts fire. Reads what the
// recording rules write.
import { type Board } from "../board.ts";
import { allowed, BUDGET_DAYS, RUNBOOKS } from "../config.ts";
import { graph, row, stat, table } from "../panels.ts";
import { BURN_ALERTS, BURN_WINDOWS, errorsOf, SLOS } from "../rules/slo.ts";

const percent = (share: number): string => `${String(Number((share * 100).toFixed(4)))}%`;

const now = SLOS.map((slo) =>
  stat({
    title: slo.title,
    says: `${slo.says} Objective: ${percent(slo.objective)}. Over the chosen time.`,
    queries: [
      {
        expr: `1 - avg_over_time(highwater:slo_bad_events:rate5m{slo="${slo.name}"}[$__range]) / avg_over_time(highwater:slo_events:rate5m{slo="${slo.name}"}[$__range])`,
        legend: slo.title,
      },
    ],
    unit: "percentunit",
    width: 24 / SLOS.length,
    decimals: 3,
    noValue: "no traffic",
    steps: ["red", [1 - 2 * allowed(slo.objective), "orange"], [slo.objective, "green"]],
  }),
);

const budgets = SLOS.map((slo) =>
  stat({
    title: `Budget left: ${slo.title.toLowerCase()}`,
    says: `Of the errors that ${String(BUDGET_DAYS)} days may have. Below zero the objective is missed.`,
    queries: [{ expr: `highwater:slo_budget_left:ratio{slo="${slo.name}"}`, legend: "left" }],
    unit: "percentunit",
    width: 24 / SLOS.length,
    decimals: 1,
    noValue: "no traffic",
    steps: ["red", [0, "orange"], [0.5, "green"]],
  }),
);

const burn = SLOS.map((slo) =>
  graph({
    title: `Burn rate: ${slo.title.toLowerCase()}`,
    says: `1 uses the whole budget in ${String(BUDGET_DAYS)} days. The lines are where alerts fire when a long and a short window agree.`,
    queries: BURN_WINDOWS.filter((window) => ["5m", "1h", "6h", "3d"].includes(window)).map((window) => ({
      expr: `highwater:slo_burn:ratio${window}{slo="${slo.name}"}`,
      legend: window,
    })),
    unit: "short",
    width: 12,
    hasLines: true,
    decimals: 2,
    steps: [
      "green",
      ...BURN_ALERTS.toReversed().map(
        ({ factor, severity }) => [factor, severity === "page" ? "red" : "orange"] as const,
      ),
    ],
  }),
);

const parts = [
  graph({
    title: "Events",
    says: "The objectives count fast writes, all writes, requests, promises.",
    queries: [{ expr: "highwater:slo_events:rate5m", legend: "{{slo}}" }],
    unit: "ops",
    width: 6,
  }),
  graph({
    title: "Share that misses",
    says: "For the events of the last five minutes.",
    queries: [{ expr: errorsOf("5m"), legend: "{{slo}}" }],
    unit: "percentunit",
    width: 6,
  }),
  table({
    title: "Alerts that fire",
    says: `Pending ones have yet to last. Each has a runbook in ${RUNBOOKS}.`,
    queries: [
      { expr: 'count by (alertname, severity, alertstate) (ALERTS{alertname=~"Highwater.*"})', legend: "" },
    ],
    width: 12,
    columns: [
      { field: "alertname", title: "Alert", width: 280 },
      { field: "severity", title: "Severity" },
      {
        field: "alertstate",
        title: "State",
        texts: { firing: ["firing", "red"], pending: ["pending", "orange"] },
      },
      { field: "Value", title: "Series" },
    ],
  }),
];

export const slo: Board = {
  name: "slo",
  title: "SLO",
  says: "Objectives: how they are kept, how fast their budgets burn, and which alerts fire. Needs the recording rules.",
  from: "now-24h",
  rows: [
    { row: row("Objectives"), panels: [...now, ...budgets] },
    { row: row("Burn rates"), panels: burn },
    { row: row("Behind them"), panels: parts },
  ],
};
