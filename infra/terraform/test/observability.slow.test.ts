// Goal: dashboards and rules find in a deployed workspace what their queries select. Method: the collectors' configuration as it is
// rendered, its scrapes by Prometheus's own checker and against every selector of dashboards and rules and the catalogue of the
// services' metrics; the rules against what a workspace of Amazon takes.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, describe, it, test } from "node:test";
import { promtool, whyNoPrometheus } from "@highwater/lab-tools/prometheus";
import { CATALOGUE, readTelemetry } from "@highwater/service";
import { parse } from "yaml";
import { JOBS } from "@highwater/dashboards/config";
import { panelExpressions, ruleExpressions } from "@highwater/dashboards/queries";
import { RULE_FILES } from "@highwater/dashboards/rules";
import { whyNoTerraform, Workbench } from "./tools.ts";

const RULES = new URL("../../../dashboards/prometheus/", import.meta.url);
/** Ports that no other test of this file has: each slot must be scraped at its own. */
const SLOTS = {
  "us-east-1-gateway-1": { kind: "gateway", port: 4600 },
  "us-east-1-gateway-2": { kind: "gateway", port: 4610 },
  "us-east-1-tracker-1": { kind: "tracker", port: 4601 },
} as const;
const VARIABLES = {
  region: "us-east-1",
  system: "highwater-us-east-1",
  slots: SLOTS,
  workspaces: Object.fromEntries(
    ["us-east-1", "us-west-2"].map((region) => [
      region,
      {
        remote_write_url: `https://aps-workspaces.${region}.amazonaws.com/workspaces/ws-1/api/v1/remote_write`,
      },
    ]),
  ),
  log_group_name: "/highwater-us-east-1/metrics",
};
/** What Prometheus and the collector add to each series of a scrape by themselves. */
const OF_THE_SCRAPE = ["job", "instance", "le"];

interface Scrape {
  readonly job_name: string;
  readonly scheme: string;
  readonly static_configs: readonly {
    readonly targets: readonly string[];
    readonly labels: Readonly<Record<string, string>>;
  }[];
}

interface Configuration {
  readonly extensions: Readonly<Record<string, unknown>>;
  readonly receivers: Readonly<Record<string, unknown>> & {
    readonly prometheus: { readonly config: { readonly scrape_configs: readonly Scrape[] } };
  };
  readonly processors: Readonly<Record<string, unknown>> & {
    readonly "filter/scaling": { readonly metrics: { readonly metric: readonly string[] } };
  };
  readonly exporters: Readonly<Record<string, { readonly auth?: { readonly authenticator: string } }>>;
  readonly service: {
    readonly extensions: readonly string[];
    readonly pipelines: Readonly<
      Record<string, Readonly<Record<"receivers" | "processors" | "exporters", readonly string[]>>>
    >;
  };
}

const EXPRESSIONS = [...panelExpressions(), ...ruleExpressions()];

describe("the collectors' configuration that terraform renders", { skip: whyNoTerraform() }, () => {
  const configurations = new Map<string, Configuration>();
  let environment: Readonly<Record<string, string>>;
  let scrapes: (Scrape & { readonly slot: string })[];
  before(async () => {
    const bench = await Workbench.open();
    try {
      const outputs = await plan(bench);
      environment = outputs.environment;
      for (const [slot, yaml] of Object.entries(outputs.configurations))
        configurations.set(slot, parse(yaml) as Configuration);
    } finally {
      await bench.close();
    }
    scrapes = [...configurations].flatMap(([slot, { receivers }]) =>
      receivers.prometheus.config.scrape_configs.map((scrape) => ({ ...scrape, slot })),
    );
  });

  it("scrapes each slot at its own port over TLS, and names it", () => {
    assert.deepEqual(
      scrapes.map(({ slot, scheme, static_configs }) => [slot, scheme, static_configs]),
      Object.entries(SLOTS).map(([slot, { port }]) => [
        slot,
        "https",
        [{ targets: [`127.0.0.1:${String(port)}`], labels: { instance: slot } }],
      ]),
    );
  });

  it("has every job that a dashboard or a rule selects, and no other", () => {
    const selected = new Set(EXPRESSIONS.flatMap(({ expr }) => jobsOf(expr)));
    assert.deepEqual([...selected].sort(), [...new Set(scrapes.map(({ job_name }) => job_name))].sort());
    assert.deepEqual([...selected].sort(), Object.values(JOBS).sort());
  });

  it("adds no label that a metric of the services has, and no query needs one that no metric has", () => {
    const ofMetrics = new Set(
      CATALOGUE.flatMap(({ metrics }) => metrics).flatMap(({ labels }) => Object.keys(labels)),
    );
    const added = new Set(
      scrapes.flatMap(({ static_configs }) => static_configs.flatMap(({ labels }) => Object.keys(labels))),
    );
    for (const label of added)
      assert.ok(!ofMetrics.has(label), `${label} would hide that of the services' own`);
    const ofRules = ["slo", "alertname", "alertstate", "severity"];
    const known = new Set([...ofMetrics, ...added, ...OF_THE_SCRAPE, ...ofRules]);
    for (const { where, expr } of EXPRESSIONS)
      for (const label of labelsOf(expr)) assert.ok(known.has(label), `${where}: nothing has ${label}`);
    assert.ok(EXPRESSIONS.some(({ expr }) => labelsOf(expr).includes("instance")));
  });

  it("uses only what it defines, and all of it", () => {
    for (const [slot, { service, ...parts }] of configurations) {
      const used = {
        receivers: new Set<string>(),
        processors: new Set<string>(),
        exporters: new Set<string>(),
      };
      for (const pipeline of Object.values(service.pipelines))
        for (const kind of ["receivers", "processors", "exporters"] as const)
          for (const name of pipeline[kind]) used[kind].add(name);
      for (const kind of ["receivers", "processors", "exporters"] as const)
        assert.deepEqual([...used[kind]].sort(), Object.keys(parts[kind]).sort(), `${slot}: ${kind}`);
      const authenticators = Object.values(parts.exporters).flatMap(({ auth }) => auth?.authenticator ?? []);
      assert.deepEqual([...authenticators].sort(), Object.keys(parts.extensions).sort());
      assert.deepEqual([...service.extensions].sort(), Object.keys(parts.extensions).sort());
    }
  });

  it("hands to CloudWatch metrics that there are", () => {
    const names = new Set(CATALOGUE.flatMap(({ metrics }) => metrics).map(({ name }) => name));
    for (const { processors } of configurations.values())
      for (const condition of processors["filter/scaling"].metrics.metric) {
        const [, name = ""] = /^name != "(.*)"$/.exec(condition) ?? [];
        assert.ok(names.has(name), condition);
      }
  });

  it("turns on traces, and neither metrics nor logs, which go other ways", () => {
    const { settings, faults } = readTelemetry(environment);
    assert.deepEqual(faults, []);
    assert.deepEqual([settings?.traces, settings?.metrics, settings?.logs], [true, false, false]);
  });

  it("scrapes as Prometheus would", { skip: whyNoPrometheus() }, async () => {
    const folder = await mkdtemp(join(tmpdir(), "highwater-collector-test-"));
    try {
      for (const [slot, { receivers }] of configurations) {
        const file = join(folder, `${slot}.yml`);
        writeFileSync(file, JSON.stringify(receivers.prometheus.config));
        const { code, output } = await promtool(["check", "config", file]);
        assert.equal(code, 0, output);
      }
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});

test("rules have only what a workspace of Amazon takes", () => {
  // The fields of Prometheus's own that Cortex reads, as the documentation of the service names them.
  const ofGroups = ["name", "interval", "rules"];
  const ofRules = ["alert", "record", "expr", "for", "labels", "annotations"];
  for (const name of Object.keys(RULE_FILES)) {
    assert.match(name, /^[a-z-]+\.yml$/, "the name of a namespace");
    const text = readFileSync(new URL(name, RULES), "utf8");
    assert.ok(text.length < 1_000_000, "the largest definition of a namespace");
    const { groups, ...rest } = parse(text) as {
      groups: readonly { readonly rules: readonly object[] }[];
    };
    assert.deepEqual(Object.keys(rest), []);
    for (const group of groups) {
      for (const field of Object.keys(group)) assert.ok(ofGroups.includes(field), `${name}: ${field}`);
      for (const field of group.rules.flatMap((rule) => Object.keys(rule)))
        assert.ok(ofRules.includes(field), `${name}: ${field}`);
    }
  }
});

/** What `=` and `=~` select. */
function jobsOf(expr: string): string[] {
  return [...expr.matchAll(/\bjob=~?"([^"]*)"/g)].flatMap(([, jobs = ""]) => jobs.split("|"));
}

/** Of selectors, groupings and matchings. */
function labelsOf(expr: string): string[] {
  const selected = [...expr.matchAll(/\{([^}]*)\}/g)].flatMap(([, selector = ""]) =>
    [...selector.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label = ""]) => label),
  );
  const grouped = [...expr.matchAll(/\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)/g)];
  const listed = grouped.flatMap(([, labels = ""]) => labels.split(","));
  return [...selected, ...listed.map((label) => label.trim())].filter((label) => label !== "");
}

async function plan(bench: Workbench): Promise<{
  readonly configurations: Readonly<Record<string, string>>;
  readonly environment: Readonly<Record<string, string>>;
}> {
  const directory = "modules/collector";
  assert.equal(await bench.init(directory), null);
  writeFileSync(join(bench.folder, directory, "case.auto.tfvars.json"), JSON.stringify(VARIABLES));
  const planned = await bench.run(directory, "plan", "-no-color", "-input=false", "-out=case.plan");
  assert.equal(planned.code, 0, planned.output);
  const shown = await bench.run(directory, "show", "-json", "case.plan");
  const { planned_values } = JSON.parse(shown.text) as {
    planned_values: {
      outputs: {
        configurations: { value: Readonly<Record<string, string>> };
        environment: { value: Readonly<Record<string, string>> };
      };
    };
  };
  const { configurations, environment } = planned_values.outputs;
  return { configurations: configurations.value, environment: environment.value };
}
