// Goal: every metric of the catalogue comes out of the real services into a real Prometheus, and counts what has happened.
// Method: three regions, transactions of every kind and a webhook, and PromQL as a dashboard would ask.
import { after, before, test } from "node:test";
import { DevPrometheus, whyNoPrometheus } from "@highwater/lab-tools/prometheus";
import { System } from "@highwater/lab-system";
import { Highwater, sql } from "@highwater/sdk";
import { CATALOGUE, type Metric } from "@highwater/service";
import { createTable } from "@highwater/lab-system/testing";
import pg from "pg";

const EAST = "us-east";
const FAST = 20;
const SAFE = 5;
const skip = whyNoPrometheus();
/** What only a failure or a slow client brings about; their families are there all the same. */
const SILENT: ReadonlySet<string> = new Set([
  "highwater_gateway_refusals_total",
  "highwater_gateway_exposure_refusals_total",
  "highwater_exposed_value",
  "highwater_reported_commit_seconds",
  "highwater_tracker_refusals_total",
  "highwater_webhook_attempt_seconds",
  "highwater_webhook_delivery_age_seconds",
]);

let system: System;
let prometheus: DevPrometheus;

before(async () => {
  if (skip !== false) return;
  system = await System.start();
  await createTable(system, EAST);
  prometheus = await DevPrometheus.start({
    targets: system.regions.flatMap((region) => [
      { job: "gateway", url: system.gateway(region).url, labels: { region } },
      { job: "tracker", url: system.tracker(region).url, labels: { region } },
    ]),
  });
  // With other regions to go to, a client leaves a gateway that is slow to answer, and each count is of one gateway here.
  const hw = new Highwater({ endpoints: (await system.endpoints(EAST)).slice(0, 1) });
  try {
    for (let n = 0; n < FAST; n++)
      await hw.transaction([sql`INSERT INTO kv (key, value) VALUES (${`fast-${String(n)}`}, 1)`]);
    for (let n = 0; n < SAFE; n++)
      await hw.transaction([sql`INSERT INTO kv (key, value) VALUES (${`safe-${String(n)}`}, 1)`], {
        ack: "durable",
        level: "global",
      });
    const tx = await hw.begin({ isolation: "repeatable read" });
    await tx.query(sql`SELECT count(*) FROM kv`);
    const { token } = await tx.commit();
    await readAfter(token);
  } finally {
    await hw.close();
  }
  await prometheus.untilScraped();
});

after(async () => {
  if (skip !== false) return;
  await prometheus.close();
  await system.close();
});

/** By the PostgreSQL port for reads. */
async function readAfter(token: string): Promise<void> {
  const reader = new pg.Client({ connectionString: system.pgReadUrl(EAST) });
  await reader.connect();
  await reader.query(`SET highwater.after = '${token}'`);
  await reader.query("SELECT 1");
  await reader.end();
}

/** Waits for a scrape that is new enough to show the value. */
async function shows(expression: string, wanted: (value: number) => boolean): Promise<void> {
  await prometheus.eventually(expression, (series) =>
    series.some(({ points }) => wanted(points.at(-1)?.[1] ?? Number.NaN)),
  );
}

test("every metric of the catalogue arrives", { skip }, async () => {
  const metrics: Metric[] = CATALOGUE.flatMap((section) => [...section.metrics]);
  for (const { name, kind, only } of metrics) {
    if (only !== null && !name.startsWith("highwater_topology")) continue;
    if (SILENT.has(name)) continue;
    await prometheus.eventually(kind === "histogram" ? `${name}_count` : name);
  }
});

test("commits are counted by how they were acknowledged, and each has its latency", { skip }, async () => {
  const commits = (labels: string): string =>
    `sum(highwater_gateway_commit_seconds_count{region="${EAST}",${labels}})`;
  await shows(commits('ack="commit",form="one_shot",access="write"'), (value) => value === FAST);
  await shows(commits('ack="durable",isolation="serializable"'), (value) => value >= SAFE);
  await shows(commits('form="interactive",isolation="repeatable read"'), (value) => value === 1);
  await shows(
    `histogram_quantile(0.5, sum by (le) (highwater_gateway_commit_seconds_bucket{ack="commit"}))`,
    (value) => value > 0 && value < 1,
  );
});

test(
  "every write is counted once at each level, by every tracker, with the time that it took",
  { skip },
  async () => {
    const writes = 'scalar(sum(highwater_gateway_commit_seconds_count{access="write"}))';
    for (const region of system.regions)
      for (const level of ["disk", "region", "global"])
        await shows(
          `round(sum(highwater_durability_lag_seconds_count{region="${region}",level="${level}"})) == ${writes}`,
          (value) => value > FAST + SAFE,
        );
    await shows(
      `sum(highwater_gateway_durability_lag_seconds_count) == ${writes}`,
      (value) => value > FAST + SAFE,
    );
    await shows(
      'histogram_quantile(0.9, sum by (le) (highwater_durability_lag_seconds_bucket{level="region"}))',
      (value) => value > 0 && value < 30,
    );
  },
);

test("what is at risk, who is behind, and who is the primary", { skip }, async () => {
  await shows("max(highwater_exposed_transactions)", (value) => value === 0);
  await shows("max(highwater_replication_lag_bytes)", (value) => value === 0);
  await shows(
    'count(highwater_node_primary{node="us-east"} == 1)',
    (value) => value === system.regions.length,
  );
  await shows("max(highwater_epoch) == min(highwater_gateway_epoch)", (value) => value >= 1);
  await shows('min(highwater_mark_lag_bytes{level="disk"})', (value) => value === 0);
  await shows(`max(highwater_gateway_pool_sessions{region="${EAST}",use="write"})`, (value) => value >= 1);
});
