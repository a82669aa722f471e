// docs/reference/metrics.md, from the catalogue.
import { CATALOGUE, type Metric } from "@highwater/service";

export function metricSections(): string[] {
  return CATALOGUE.flatMap(({ title, metrics }) => [
    "",
    `## ${title}`,
    "",
    "| metric | type | labels | what it says | the question |",
    "| --- | --- | --- | --- | --- |",
    ...metrics.map(rowOf),
  ]);
}

function rowOf({ name, kind, labels, unit, help, question, only }: Metric): string {
  const named = Object.entries(labels).map(([label, values]) =>
    typeof values === "string"
      ? `\`${label}\` (${values})`
      : `\`${label}\` (${values.map((value) => `\`${value}\``).join(", ")})`,
  );
  const type = unit === "1" ? kind : `${kind}, ${unit}`;
  const says = only === null ? help : `${help} Only ${only}.`;
  return `| \`${name}\` | ${type} | ${named.join("; ")} | ${says} | ${question} |`;
}
