// Goal: the site breaks no promise by accident: it takes the region away only when every tracker has the mark.
// Method: the tracker of the primary is down or silent when the region is to be lost.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Site } from "../system/site.ts";

let site: Site;

before(async () => {
  site = await Site.start();
});

after(() => site[Symbol.asyncDispose]());

for (const [state, begin, end] of [
  [
    "paused",
    (region: string) => site.pauseService(region, "tracker"),
    (region: string) => site.continueService(region, "tracker"),
  ],
  [
    "stopped",
    (region: string) => site.stopService(region, "tracker"),
    (region: string) => site.startService(region, "tracker"),
  ],
] as const)
  test(`the primary's tracker is ${state}: nothing is lost yet`, async () => {
    const { primary } = site;
    await begin(primary);
    await assert.rejects(
      site.failover({ alone: true }),
      /the tracker of us-east is not known: it was stopped or paused/,
    );
    assert.equal(site.primary, primary);
    assert.ok(site.system.gateway(primary).running);
    await end(primary);
  });

test("it answers again: the region is lost, and promises may break", async () => {
  const { primary } = site;
  await site.failover({ alone: true });
  assert.notEqual(site.primary, primary);
  assert.ok(!site.system.gateway(primary).running);
});
