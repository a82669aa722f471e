// Goal: every alert fires when it should, says what it should, and is silent when it should be; the arithmetic of the objectives is
// right; and each alert has a runbook. Method: promtool on the generated files, with series that the cases describe.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { copyFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promtool, whyNoPrometheus } from "@highwater/lab-tools/prometheus";
import { RUNBOOKS } from "../src/config.ts";
import { files, ROOT } from "../src/files.ts";
import { ALERTS, annotationsOf, RULE_FILES } from "../src/rules/files.ts";
import { runbookOf } from "../src/rules/rule.ts";
import { type Cases, type Series } from "./alert-cases/cases.ts";
import { promiseCases } from "./alert-cases/promises.ts";
import { sloCases } from "./alert-cases/slo.ts";
import { systemCases } from "./alert-cases/system.ts";
import { webhookCases } from "./alert-cases/webhooks.ts";

const skip = whyNoPrometheus();
const CASES: Readonly<Record<string, Cases>> = {
  ...promiseCases,
  ...systemCases,
  ...webhookCases,
  ...sloCases,
};
const STEP = "30s";
const rulePaths = Object.keys(RULE_FILES).map((name) => fileURLToPath(new URL(`prometheus/${name}`, ROOT)));

/** Without the recording rules, which cost much over long times, where no alert needs them. */
async function judge(tests: readonly unknown[], step: string, paths = rulePaths): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "highwater-rules-test-"));
  try {
    const file = join(folder, "tests.yml");
    await writeFile(file, JSON.stringify({ rule_files: paths, evaluation_interval: step, tests }));
    const { code, output } = await promtool(["test", "rules", file]);
    assert.equal(code, 0, output);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const alertPaths = rulePaths.filter((path) => path.endsWith("alerts.yml"));

const inputOf = (series: Series): unknown[] =>
  Object.entries(series).map(([name, values]) => ({ series: name, values }));

test("the generated files are what the code says", async () => {
  for (const { path, content } of await files())
    assert.ok(readFileSync(new URL(path, ROOT), "utf8") === content, `${path} is stale: make gen`);
});

test("Prometheus takes the files", { skip }, async () => {
  const { code, output } = await promtool(["check", "rules", ...rulePaths]);
  assert.equal(code, 0, output);
});

test("Prometheus takes the configuration that is provided, with the rules beside it", { skip }, async () => {
  const folder = await mkdtemp(join(tmpdir(), "highwater-rules-test-"));
  try {
    for (const path of [...rulePaths, fileURLToPath(new URL("provisioning/prometheus.yml", ROOT))])
      await copyFile(path, join(folder, basename(path)));
    const { code, output } = await promtool(["check", "config", join(folder, "prometheus.yml")]);
    assert.equal(code, 0, output);
    assert.match(output, /2 rule files found/);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

test("every alert has cases, and every case an alert", () => {
  assert.deepEqual(Object.keys(CASES).sort(), ALERTS.map(({ name }) => name).sort());
});

describe("alerts", { skip }, () => {
  for (const alert of ALERTS) {
    const cases = CASES[alert.name];
    if (cases === undefined) continue;
    test(alert.name, async () => {
      const { step = STEP } = cases;
      const fires = cases.fires.map(({ series, at, labels, summary }) => ({
        ...{ name: `fires: ${summary}`, interval: step, input_series: inputOf(series) },
        alert_rule_test: [
          {
            ...{ eval_time: at, alertname: alert.name },
            exp_alerts: [{ exp_labels: labels, exp_annotations: { ...annotationsOf(alert), summary } }],
          },
        ],
      }));
      const silent = cases.silent.map(({ why, series, at }) => ({
        ...{ name: `silent: ${why}`, interval: step, input_series: inputOf(series) },
        alert_rule_test: at.map((moment) => ({ eval_time: moment, alertname: alert.name, exp_alerts: [] })),
      }));
      await judge([...fires, ...silent], step, alert.name in sloCases ? rulePaths : alertPaths);
    });
  }
});

test("a case that is wrong is noticed", { skip }, async () => {
  const [firing] = promiseCases["HighwaterNoPrimary"]?.fires ?? [];
  assert.ok(firing !== undefined);
  const wrong = {
    ...{ interval: STEP, input_series: inputOf(firing.series) },
    alert_rule_test: [{ eval_time: firing.at, alertname: "HighwaterNoPrimary", exp_alerts: [] }],
  };
  await assert.rejects(judge([wrong], STEP), /HighwaterNoPrimary/);
});

test("objectives: shares, burn rates and what is left of the budget", { skip }, async () => {
  const at = "1h";
  const gateway = 'job="highwater-gateway",instance="g1"';
  const series = {
    // 100 per second, and 2% of them are too slow; half of all requests fail by a fault.
    [`highwater_gateway_durability_lag_seconds_count{level="region",${gateway}}`]: "0+3000x200",
    [`highwater_gateway_durability_lag_seconds_bucket{level="region",le="1.0",${gateway}}`]: "0+2940x200",
    [`highwater_gateway_transactions_total{ack="commit",outcome="committed",${gateway}}`]: "0+1500x200",
    [`highwater_gateway_transactions_total{ack="commit",outcome="serialization_failure",${gateway}}`]:
      "0+300x200",
    [`highwater_gateway_transactions_total{ack="commit",outcome="primary_unavailable",${gateway}}`]:
      "0+150x200",
    [`highwater_gateway_refusals_total{code="overloaded",${gateway}}`]: "0+1050x200",
    [`highwater_gateway_refusals_total{code="unauthenticated",${gateway}}`]: "0+0x200",
    [`highwater_broken_total{job="highwater-tracker",instance="t1"}`]: "0x200",
  };
  const expected: Record<string, [labels: string, value: number][]> = {
    'highwater:slo_events:rate5m{slo="durability"}': [['highwater:slo_events:rate5m{slo="durability"}', 100]],
    'round(highwater:slo_bad_events:rate5m{slo="durability"}, 0.001)': [['{slo="durability"}', 2]],
    'round(highwater:slo_burn:ratio5m{slo="durability"}, 0.001)': [['{slo="durability"}', 2]],
    'round(highwater:slo_burn:ratio1h{slo="durability"}, 0.001)': [['{slo="durability"}', 2]],
    'round(highwater:slo_budget_left:ratio{slo="durability"}, 0.001)': [['{slo="durability"}', -1]],
    // 1,200 of 3,000: conflicts are no faults.
    'round(highwater:slo_burn:ratio30m{slo="availability"}, 0.001)': [['{slo="availability"}', 400]],
    'highwater:slo_burn:ratio5m{slo="verdicts"}': [['highwater:slo_burn:ratio5m{slo="verdicts"}', 0]],
    'highwater:slo_budget_left:ratio{slo="verdicts"}': [
      ['highwater:slo_budget_left:ratio{slo="verdicts"}', 1],
    ],
    'highwater:slo_burn:ratio5m{slo="commit-latency"}': [],
  };
  await judge(
    [
      {
        ...{ name: "objectives", interval: STEP, input_series: inputOf(series) },
        promql_expr_test: Object.entries(expected).map(([expr, samples]) => ({
          ...{ expr, eval_time: at },
          exp_samples: samples.map(([labels, value]) => ({ labels, value })),
        })),
      },
    ],
    STEP,
  );
});

test("every alert has a runbook with what it needs, and every runbook an alert", () => {
  const folder = new URL(`../${RUNBOOKS}`, ROOT);
  const pages = readdirSync(folder).filter((name) => name.endsWith(".md") && name !== "README.md");
  assert.deepEqual(pages.sort(), ALERTS.map(({ name }) => runbookOf(name)).sort());
  const index = readFileSync(new URL("README.md", folder), "utf8");
  for (const { name, severity } of ALERTS) {
    const page = new URL(runbookOf(name), folder);
    assert.ok(existsSync(page), `${name} has no ${RUNBOOKS}${runbookOf(name)}`);
    const text = readFileSync(page, "utf8");
    assert.equal(text.split("\n")[0], `# ${name}`);
    const titles = [...text.matchAll(/^## (.*)$/gm)].map(([, title]) => title);
    assert.deepEqual(
      titles,
      [
        "What it means",
        "What users see",
        "First three commands",
        "What to do",
        "How to tell that it is over",
        "When to ignore it",
      ],
      runbookOf(name),
    );
    const [, commands = ""] = /## First three commands\n\n```sh\n(.*?)```/s.exec(text) ?? [];
    assert.equal(commands.trim().split("\n").length, 3, `${runbookOf(name)}: three commands`);
    assert.ok(index.includes(`| [${name}](${runbookOf(name)}) | ${severity} |`), `${name} in the index`);
  }
});
