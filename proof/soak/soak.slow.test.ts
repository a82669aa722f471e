// Goal: a soak measures everything that it claims to, old receipts are dropped, and a tracker that
// was down has a verdict for everything that it missed. Method: a few seconds of it on the whole
// product.
import assert from "node:assert/strict";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { METRIC_NAMES, METRICS } from "./metrics.ts";
import { plot } from "./plot.ts";
import { SoakSystem } from "./soak-system.ts";
import { measureSteady } from "./steady.ts";
import { measureTrackerDown } from "./tracker-down.ts";

const RETENTION_MS = 6_000;
/** More than twice the retention, so that receipts are dropped even on a slow machine. */
const STEADY = { durationS: 18, rate: 40, faultEveryMs: null };
const DOWN = { downS: 3, rate: 100, marginS: 2 };
/** Metrics of services, with a line for each of the six. */
const BY_SERVICE = [
  "resident",
  "heap",
  "external",
  "descriptors",
  "sockets",
  "clients",
  "connections",
] as const;
const BY_REGION = ["ledgerMib", "entries", "announcements"] as const;

test("a short soak measures everything, drops old receipts, and a tracker that was down catches up", async () => {
  const dir = await mkdtemp(join(tmpdir(), "highwater-soak-test-"));
  try {
    await chmod(dir, 0o755);
    await using soak = await SoakSystem.start(dir, { retentionMs: RETENTION_MS });
    const [{ steady, recorder }, down] = await Promise.all([
      measureSteady(soak, STEADY),
      measureTrackerDown(soak, DOWN),
    ]);
    for (const name of METRIC_NAMES) assert.ok(recorder.of(name).size > 0, `${name} was not measured`);
    const services = soak.services().map(({ name }) => name);
    for (const name of BY_SERVICE)
      assert.deepEqual(new Set(recorder.of(name).keys()), new Set(services), name);
    for (const name of BY_REGION)
      assert.deepEqual(new Set(recorder.of(name).keys()), new Set(soak.system.regions), name);

    assert.ok(steady.tally.committed > 0);
    assert.ok(steady.webhooksReceived > 0);
    // If the machine stalls for longer than the retention, an id's outcome may be unknown.
    const { id_expired: expired = 0, ...others } = steady.tally.unresolved;
    assert.deepEqual(others, {});
    const unknown = expired + Object.values(down.other).reduce((sum, each) => sum + each, 0);
    const [total, acknowledgedCount] = [await soak.total(soak.home), steady.expected + down.committed];
    assert.ok(
      total >= acknowledgedCount && total <= acknowledgedCount + unknown,
      `${String(total)} were applied, ${String(acknowledgedCount)} acknowledged`,
    );

    assert.ok(steady.partitionsDropped > 0, "no partition of receipts was dropped");
    const kept = recorder.of("receipts").get("receipts")?.at(-1)?.value ?? Number.NaN;
    assert.ok(kept < steady.tally.committed + down.committed, `${String(kept)} receipts are kept`);

    assert.ok(down.committedWhileDown > 0);
    assert.deepEqual(down.verdicts, { durable: down.committed });

    const panels = METRIC_NAMES.map((name) => ({ ...METRICS[name], lines: recorder.of(name) }));
    const svg = plot("a short soak", panels, []);
    for (const { title, unit } of Object.values(METRICS))
      assert.ok(svg.includes(`>${title}<`) && svg.includes(`>${unit}<`), title);
    for (const service of services) assert.ok(svg.includes(`>${service}<`), service);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
});
