// The two rule files: what is recorded, and what alerts.
import { RUNBOOKS } from "../config.ts";
import { promiseAlerts, systemAlerts, webhookAlerts } from "./alerts.ts";
import { type Alert, type Group, runbookOf } from "./rule.ts";
import { sloAlerts, sloRecordings } from "./slo.ts";

export const ALERTS: readonly Alert[] = [...promiseAlerts, ...systemAlerts, ...webhookAlerts, ...sloAlerts];

export const RULE_FILES: Readonly<Record<string, readonly Group[]>> = {
  "highwater-recording.yml": [{ name: "highwater-slo", interval: "30s", rules: sloRecordings }],
  "highwater-alerts.yml": [
    { name: "highwater-promises", rules: promiseAlerts },
    { name: "highwater-system", rules: systemAlerts },
    { name: "highwater-webhooks", rules: webhookAlerts },
    { name: "highwater-slo-burn", rules: sloAlerts },
  ],
};

/** As Prometheus reads it. */
export function groupsOf(groups: readonly Group[]): unknown {
  return {
    groups: groups.map(({ name, interval, rules }) => ({
      name,
      ...(interval !== undefined && { interval }),
      rules: rules.map((rule) => ("record" in rule ? rule : alertOf(rule))),
    })),
  };
}

function alertOf(alert: Alert): unknown {
  return {
    alert: alert.name,
    expr: alert.expr,
    ...(alert.for !== undefined && { for: alert.for }),
    labels: { severity: alert.severity },
    annotations: annotationsOf(alert),
  };
}

export const annotationsOf = (alert: Alert): Record<"summary" | "description" | "runbook_url", string> => ({
  summary: alert.summary,
  description: alert.says,
  runbook_url: RUNBOOKS + runbookOf(alert.name),
});
