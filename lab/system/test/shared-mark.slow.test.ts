// Goal: a tracker alone says durable and dies with its region; the others then say broken, and not lost.
// Method: the whole product. The other trackers are cut off from the primary. One replica in another region has the transaction; the
// tracker of the primary's region says so and is killed with its region; a replica that lacks the transaction is promoted, and the
// surviving trackers are asked.
import assert from "node:assert/strict";
import { it } from "node:test";
import { System, trackerLocation } from "../src/index.ts";
import {
  commit,
  createTable,
  epochAfter,
  epochOf,
  eventually,
  keysOn,
  put,
  starve,
  verdict,
} from "../src/testing.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;

it("a promise that only the tracker of the lost region had told is broken", async () => {
  await using system = await System.start({ hasTrackerLinks: true });
  const { cluster } = system;
  await createTable(system, EAST);
  await starve(system, WEST);
  const before = await epochOf(system.tracker(WEST).url);
  const links = [WEST, EUROPE].map((region) => cluster.link(trackerLocation(region), region));
  for (const link of links) await link.cut();
  const { token, position } = await commit(system.gateway(EAST).url, [put("promised")]);
  assert.equal((await verdict(system.tracker(EAST).url, token)).verdict, "durable");
  await system.killRegion(EAST);
  for (const link of links) await link.heal();
  await cluster.promote(WEST);
  await epochAfter(system.tracker(EUROPE).url, before);
  assert.ok(!(await keysOn(system, WEST)).has("promised"));
  await eventually("a survivor's log has told of the promise", async () => {
    const newest =
      "SELECT coalesce(final_marks->>'region', '0') AS mark FROM highwater.epoch ORDER BY seq DESC LIMIT 1";
    const [row] = await cluster.query(WEST, newest);
    return BigInt(String(row?.["mark"])) >= BigInt(position.offset) || undefined;
  });
  // It has more than the node that took over, and cannot follow it.
  await cluster.rejoin(EUROPE);
  for (const region of [WEST, EUROPE])
    assert.equal((await verdict(system.tracker(region).url, token)).verdict, "broken", region);
});
