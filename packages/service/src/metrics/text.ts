// The Prometheus text format, version 0.0.4.
import { type Distribution, type Family, type Labels } from "./family.ts";

export const TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8";

export function renderFamilies(families: readonly Family[]): string {
  const lines: string[] = [];
  for (const { metric, samples, distributions } of families) {
    const { name, kind, help } = metric;
    lines.push(`# HELP ${name} ${escapeHelp(help)}`, `# TYPE ${name} ${kind}`);
    for (const { labels, value } of samples) lines.push(`${name}${labelText(labels)} ${numberText(value)}`);
    for (const distribution of distributions) pushDistribution(lines, name, metric.buckets, distribution);
  }
  return `${lines.join("\n")}\n`;
}

function pushDistribution(
  lines: string[],
  name: string,
  bounds: readonly number[],
  { labels, counts, sum, count }: Distribution,
): void {
  let below = 0;
  for (const [at, bound] of [...bounds, Number.POSITIVE_INFINITY].entries()) {
    below += counts[at] ?? 0;
    lines.push(`${name}_bucket${labelText({ ...labels, le: numberText(bound) })} ${numberText(below)}`);
  }
  lines.push(
    `${name}_sum${labelText(labels)} ${numberText(sum)}`,
    `${name}_count${labelText(labels)} ${numberText(count)}`,
  );
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}="${escapeValue(value)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function escapeValue(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}

function escapeHelp(help: string): string {
  return help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}

function numberText(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  if (value === Number.NEGATIVE_INFINITY) return "-Inf";
  return String(value);
}
