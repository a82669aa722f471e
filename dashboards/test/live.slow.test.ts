// Goal: every query of every panel, every annotation and every rule finds data on the real system, with the labels that its legend names.
// Method: the whole product as real processes under load, through the loss of the primary's region, scraped by a real Prometheus with the
// rules loaded; then every expression that is committed is asked. The lost region brings what a healthy system never has: losses
// and alerts.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { type DevPrometheus, type Series, whyNoPrometheus } from "@highwater/lab-tools/prometheus";
import { EPOCHS } from "../src/board.ts";
import { fillIn, panelExpressions, ruleExpressions } from "../src/queries.ts";
import { ALERTS } from "../src/rules/files.ts";
import { play, type Scene } from "../live/scenario.ts";

const STEP_SECONDS = 1;
/** Some scrapes. */
const RATE_SECONDS = 15;
/** The services of the scene have no certificates; settings/tls.test.ts shows this gauge. */
const NEEDS_TLS = "highwater_tls_certificate_expires_seconds";

let scene: Scene;
/** Of what was started, also when waiting for the rest fails. */
let close: (() => PromiseLike<void>) | undefined;

function ask(prometheus: DevPrometheus, expr: string): Promise<Series[]> {
  const { fromSeconds, toSeconds } = scene;
  const filled = fillIn(expr, {
    rateSeconds: RATE_SECONDS,
    rangeSeconds: Math.round(toSeconds - fromSeconds),
  });
  return prometheus.queryRange(filled, { fromSeconds, toSeconds, stepSeconds: STEP_SECONDS });
}

const withData = (series: readonly Series[]): Series[] =>
  series.filter(({ points }) => points.some(([, value]) => Number.isFinite(value)));

const highest = (series: readonly Series[]): number =>
  Math.max(...series.flatMap(({ points }) => points.map(([, value]) => value)).filter(Number.isFinite));

describe("on the real system", { skip: whyNoPrometheus() }, () => {
  before(async () => {
    scene = await play({ beforeMs: 12_000, afterMs: 8_000 });
    const started = scene;
    close = () => started[Symbol.asyncDispose]();
    // Losses are reported when their proof is durable, and an alert takes until the next evaluation.
    await scene.prometheus.eventually(`max(highwater_lost_total) >= ${String(scene.lost)}`);
    await scene.prometheus.eventually('highwater_webhook_delivery_age_seconds_count{result="failed"}');
    for (const alert of ["HighwaterTransactionsLost", "HighwaterFailedOver"])
      await scene.prometheus.eventually(`ALERTS{alertname="${alert}", alertstate="firing"}`);
    // A range is asked about step by step: the last step must not lie before what has just been seen.
    await pause(STEP_SECONDS * 1_000);
    scene = { ...scene, toSeconds: Date.now() / 1_000 };
  });

  after(async () => {
    await close?.();
  });

  test("every panel and annotation has data, and what its legend names", async () => {
    const faults: string[] = [];
    for (const { where, expr, labels } of panelExpressions()) {
      const series = withData(await ask(scene.prometheus, expr));
      if (series.length === 0) faults.push(`${where}: no data: ${expr}`);
      for (const label of labels)
        if (series.some((one) => (one.labels[label] ?? "") === ""))
          faults.push(
            `${where}: a series without ${label}: ${JSON.stringify(series.map((one) => one.labels))}`,
          );
    }
    assert.deepEqual(faults, []);
  });

  test("recording rules have data, and every rule evaluates without error", async () => {
    const faults = (await scene.prometheus.rules())
      .filter(({ health }) => health !== "ok")
      .map(({ name, lastError }) => `${name}: ${lastError}`);
    for (const { where, expr, isAlert } of ruleExpressions())
      if (!isAlert && withData(await ask(scene.prometheus, expr)).length === 0)
        faults.push(`${where}: no data`);
    assert.deepEqual(faults, []);
  });

  test("every metric that an alert uses exists", async () => {
    const faults: string[] = [];
    for (const { where, expr } of ruleExpressions().filter(({ isAlert }) => isAlert))
      for (const [selector] of expr.matchAll(/\b(?:highwater|nodejs)[a-z_:0-9]*[a-z0-9](?:\{[^}]*\})?/g))
        if (selector !== NEEDS_TLS && withData(await ask(scene.prometheus, selector)).length === 0)
          faults.push(`${where}: no ${selector}`);
    assert.deepEqual(faults, []);
  });

  test("the numbers are those of what happened", async () => {
    const { prometheus, lost } = scene;
    assert.ok(lost > 0);
    assert.ok(highest(await ask(prometheus, "max(highwater_lost_total)")) >= lost, "each of them is counted");
    assert.equal(highest(await ask(prometheus, "max(highwater_broken_total)")), 0, "no promise was broken");
    assert.ok(
      highest(await ask(prometheus, "max(highwater_exposed_transactions)")) >= lost,
      "it was at risk before",
    );
    // A new epoch on the heir, at the moment when it began.
    const epochs = await ask(prometheus, EPOCHS);
    const heir = epochs.find(({ labels }) => labels["cause"] === "promotion");
    const began = (heir?.points.at(-1)?.[1] ?? 0) / 1_000;
    assert.ok(
      began > scene.fromSeconds && began < scene.toSeconds,
      JSON.stringify(epochs.map(({ labels }) => labels)),
    );
    const lag =
      'histogram_quantile(0.5, sum by (le) (rate(highwater_durability_lag_seconds_bucket{level="region"}[$__rate_interval])))';
    const [first] =
      (await ask(prometheus, lag))[0]?.points.filter(([, value]) => Number.isFinite(value)) ?? [];
    assert.ok((first?.[1] ?? 0) > 0.01, "the nearest region is 16 ms and more away");
  });

  test("nothing pages that should not", async () => {
    const fired = new Set(
      (await ask(scene.prometheus, 'ALERTS{alertstate="firing"}')).map(
        ({ labels }) => labels["alertname"] ?? "",
      ),
    );
    const known = new Set(ALERTS.map(({ name }) => name));
    for (const name of fired) assert.ok(known.has(name), name);
    for (const name of ["HighwaterPromiseBroken", "HighwaterSplitBrain", "HighwaterVerdictsInDoubt"])
      assert.ok(!fired.has(name), `${name} fired`);
    assert.ok(fired.has("HighwaterFailedOver"), "the change of the primary was reported");
  });
});
