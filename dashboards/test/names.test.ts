// Goal: dashboards, rules and runbooks name nothing that there is not. Method: metrics, label names and label values against the
// catalogue of the services, calls against their OpenAPI documents.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { CATALOGUE } from "@highwater/service";
import { RUNBOOKS } from "../src/config.ts";
import { ROOT } from "../src/files.ts";
import { panelExpressions, ruleExpressions } from "../src/queries.ts";
import { SLOS } from "../src/rules/slo.ts";
import { JOBS } from "../src/config.ts";

const METRICS = new Map(CATALOGUE.flatMap(({ metrics }) => metrics).map((metric) => [metric.name, metric]));
const OURS = /\b(?:highwater|nodejs|process)_[a-z_]+[a-z]/g;

/** The metric of a series: a histogram has three. */
function metricOf(series: string): ReturnType<typeof METRICS.get> {
  const base = METRICS.get(series.replace(/_(bucket|sum|count)$/, ""));
  return METRICS.get(series) ?? (base?.kind === "histogram" ? base : undefined);
}

test("every series in dashboards and rules is a metric of the services, with its labels", () => {
  const used = new Set<string>();
  for (const { where, expr } of [...panelExpressions(), ...ruleExpressions()])
    for (const [, series = "", selector = ""] of expr.matchAll(
      /\b((?:highwater|nodejs|process)_[a-z_]+[a-z])(?:\{([^}]*)\})?/g,
    )) {
      const metric = metricOf(series);
      assert.ok(metric !== undefined, `${where}: there is no metric ${series}`);
      used.add(metric.name);
      for (const [, label = "", operator = "", value = ""] of selector.matchAll(
        /(\w+)\s*(=~|!~|!=|=)"([^"]*)"/g,
      )) {
        if (label === "job" || (label === "le" && metric.kind === "histogram")) continue;
        const values = metric.labels[label];
        assert.ok(values !== undefined, `${where}: ${series} has no label ${label}`);
        if (typeof values === "string" || value.startsWith("$")) continue;
        for (const one of operator.endsWith("~") ? value.split("|") : [value])
          assert.ok(values.includes(one), `${where}: ${series} has no ${label}="${one}"`);
      }
    }
  assert.ok(used.size > 60, `only ${String(used.size)} metrics are used`);
});

test("jobs and objectives are named as they are elsewhere", () => {
  const scraped = readFileSync(new URL("provisioning/prometheus.yml", ROOT), "utf8");
  for (const job of Object.values(JOBS)) assert.ok(scraped.includes(`job_name: ${job}\n`), job);
  const names = new Set(SLOS.map(({ name }) => name));
  for (const { where, expr } of panelExpressions())
    for (const [, slo = ""] of expr.matchAll(/slo="([^"]*)"/g)) assert.ok(names.has(slo), `${where}: ${slo}`);
});

test("runbooks name metrics and calls that there are", () => {
  const calls = ["openapi.json", "tracker-openapi.json"].flatMap((name) => {
    const file = new URL(`../docs/reference/${name}`, ROOT);
    const { paths } = JSON.parse(readFileSync(file, "utf8")) as { paths: Record<string, unknown> };
    return Object.keys(paths).map((path) => path.replaceAll(/\{\w+\}/g, "*"));
  });
  const folder = new URL(`../${RUNBOOKS}`, ROOT);
  for (const page of readdirSync(folder)) {
    const text = readFileSync(new URL(page, folder), "utf8");
    const grepped = [...text.matchAll(/metrics \| grep (?:-E )?"?([^"\n`;#]*)/g)].flatMap(([, names = ""]) =>
      names.split("|").map((name) => name.trim()),
    );
    for (const name of grepped)
      assert.ok(
        [...METRICS.keys()].some((metric) => metric.includes(name)),
        `${page}: grep ${name}`,
      );
    for (const [series] of text.replaceAll(/metrics \| grep.*/g, "").matchAll(OURS))
      assert.ok(metricOf(series) !== undefined, `${page}: there is no metric ${series}`);
    for (const [, path = ""] of text.matchAll(
      /(?:\$[TG]|POST |PATCH )(\/(?:v1|readyz|healthz|metrics)[^\s"`?;)]*)/g,
    )) {
      const shape = path.replaceAll(/\{\w+\}|\bID\b/g, "*");
      assert.ok(calls.includes(shape), `${page}: there is no ${path}`);
    }
  }
});
