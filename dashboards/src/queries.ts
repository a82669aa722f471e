// Every expression that the generated dashboards and rules contain, for tests and pictures: read
// from what is committed, not from the code that writes it.
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { BOARDS, ROOT } from "./files.ts";
import { RULE_FILES } from "./rules/files.ts";

/** As much of a dashboard's JSON as is read here. */
export interface DashboardJson {
  readonly uid: string;
  readonly title: string;
  readonly panels: readonly PanelJson[];
  readonly annotations: {
    readonly list: readonly { readonly name: string; readonly expr?: string; readonly iconColor?: string }[];
  };
}

export interface PanelJson {
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly TargetJson[];
  readonly panels?: readonly PanelJson[];
}

export interface TargetJson {
  readonly refId: string;
  readonly expr: string;
  readonly legendFormat: string;
  readonly instant?: boolean;
}

export interface Expression {
  readonly where: string;
  readonly expr: string;
  /** Labels that its series must have, by the legend. */
  readonly labels: readonly string[];
}

export const readDashboard = (name: string): DashboardJson =>
  JSON.parse(readFileSync(new URL(`grafana/highwater-${name}.json`, ROOT), "utf8")) as DashboardJson;

/** Rows that are folded hold their panels themselves. */
export const panelsOf = (dashboard: DashboardJson): PanelJson[] =>
  dashboard.panels.flatMap((panel) => [panel, ...(panel.panels ?? [])]).filter(({ type }) => type !== "row");

export function panelExpressions(): Expression[] {
  return BOARDS.flatMap(({ name }) => {
    const dashboard = readDashboard(name);
    const panels = panelsOf(dashboard).flatMap((panel) =>
      (panel.targets ?? []).map(({ expr, refId, legendFormat }) => ({
        where: `${name} / ${panel.title} / ${refId}`,
        expr,
        labels: [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = ""]) => label),
      })),
    );
    const annotations = dashboard.annotations.list.flatMap((one) =>
      one.expr === undefined
        ? []
        : [{ where: `${name} / ${one.name}`, expr: one.expr, labels: ["node", "cause"] }],
    );
    return [...panels, ...annotations];
  });
}

export function ruleExpressions(): (Expression & { readonly isAlert: boolean })[] {
  return Object.keys(RULE_FILES).flatMap((file) => {
    const { groups } = parse(readFileSync(new URL(`prometheus/${file}`, ROOT), "utf8")) as {
      groups: {
        rules: { record?: string; alert?: string; expr: string; labels?: Record<string, string> }[];
      }[];
    };
    return groups.flatMap(({ rules }) =>
      rules.map(({ record, alert, expr, labels }) => ({
        where: alert ?? `${record ?? ""} ${labels?.["slo"] ?? ""}`.trim(),
        expr,
        labels: [],
        isAlert: alert !== undefined,
      })),
    );
  });
}

export interface Filled {
  readonly rateSeconds: number;
  readonly rangeSeconds: number;
}

/** Puts in what Grafana would. */
export const fillIn = (expr: string, { rateSeconds, rangeSeconds }: Filled): string =>
  expr
    .replaceAll(/\$__(?:rate_)?interval\b/g, `${String(rateSeconds)}s`)
    .replaceAll("$__range", `${String(rangeSeconds)}s`)
    .replaceAll("$region", ".*");
