// What a rule file of Prometheus is made of, as far as it is used here.

export interface Recording {
  readonly record: string;
  readonly expr: string;
  readonly labels?: Readonly<Record<string, string>>;
}

/** `page`: somebody gets up. `ticket`: in working hours. `info`: to be known, nothing to do. */
export type Severity = "page" | "ticket" | "info";

export interface Alert {
  readonly name: string;
  readonly expr: string;
  /** How long it has to be so. */
  readonly for?: string;
  readonly severity: Severity;
  /** With `{{ $labels.x }}` and `{{ $value }}`. */
  readonly summary: string;
  readonly says: string;
}

export interface Group {
  readonly name: string;
  readonly interval?: string;
  readonly rules: readonly (Recording | Alert)[];
}

/** HighwaterLevelStalled has its runbook in level-stalled.md. */
export const runbookOf = (alert: string): string =>
  `${alert
    .replace(/^Highwater/, "")
    .replaceAll(/(?<=[a-z])(?=[A-Z])/g, "-")
    .toLowerCase()}.md`;
