// Goal: every tracker learns the gateway's limits soon, and a tracker that does not answer holds up no other and no later report.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ExposureLimitsReport, validate } from "@highwater/protocol";
import { FakeClock, ScriptedTransport, settle } from "../../test/support/fakes.ts";
import { LimitReports, REPORT_LIMITS_MS } from "./limit-reports.ts";

const [NEAR, FAR] = ["http://near", "http://far"];

test("limits are reported at once and every few seconds to each tracker, until the gateway stops", async () => {
  const clock = new FakeClock();
  const transport = new ScriptedTransport();
  let used = 7;
  const reports = new LimitReports({
    ...{ clock, transport, gateway: "g1", region: "r", level: "region", trackers: [NEAR, FAR] },
    limits: () => [{ name: "exposureTransactions", value: 10, bound: 5, used }],
    commits: () => [
      { bound: 0.001, count: 5 },
      { bound: 0.003, count: used },
    ],
  });
  reports.start();
  const [first] = transport.to(NEAR);
  assert.equal(first?.url, `${NEAR}/internal/exposure-limits`);
  assert.ok(validate(ExposureLimitsReport, first.body).ok);
  assert.deepEqual(first.body, {
    ...{ gateway: "g1", region: "r", level: "region" },
    limits: [{ name: "exposureTransactions", value: 10, bound: 5, used: 7 }],
    commitMs: null,
  });

  used = 9;
  first.fail();
  await settle();
  await clock.advance(REPORT_LIMITS_MS);
  assert.match(JSON.stringify(transport.to(NEAR).at(-1)?.body), /"used":9/);
  assert.match(JSON.stringify(transport.to(NEAR).at(-1)?.body), /"commitMs":2[,}]/, "of those since then");
  assert.equal(transport.to(FAR).length, 1, "the first report to it is still on its way");

  reports.stop();
  for (const sent of transport.sent) sent.answer(404);
  await settle();
  await clock.advance(10 * REPORT_LIMITS_MS);
  assert.deepEqual([transport.sent.length, clock.pendingTimers], [3, 0]);
});
