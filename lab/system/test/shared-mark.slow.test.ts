// Goal: if the only tracker that reported a transaction as durable dies with its region, the others
// report it as broken, not as lost. Method: the whole product. The other trackers are cut off from
// the primary, and one replica in another region has the transaction. The tracker of the primary's
// region reports that and is killed with its region; a replica that lacks the transaction is
// promoted, and the surviving trackers are asked. Once with a level that needs more replicas than
// survive, so that only the witness rows of the surviving replica show that it was reached.
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

const [EAST, WEST, EUROPE, ASIA] = ["us-east", "us-west", "eu-west", "ap-south"] as const;

/** Commits what the west lacks and only the east's tracker has reported as durable. */
async function promiseInTheEast(system: System, asked: Parameters<typeof verdict>[2] = {}) {
  const { cluster } = system;
  await createTable(system, EAST);
  await starve(system, WEST);
  const before = await epochOf(system.tracker(WEST).url);
  const links = [WEST, EUROPE].map((region) => cluster.link(trackerLocation(region), region));
  for (const link of links) await link.cut();
  const { token, position } = await commit(system.gateway(EAST).url, [put("promised")]);
  assert.equal((await verdict(system.tracker(EAST).url, token, asked)).verdict, "durable");
  return { before, links, token, position };
}

it("a promise that only the tracker of the lost region had published is broken", async () => {
  await using system = await System.start({ hasTrackerLinks: true });
  const { cluster } = system;
  const { before, links, token, position } = await promiseInTheEast(system);
  await system.killRegion(EAST);
  for (const link of links) await link.heal();
  await cluster.promote(WEST);
  await epochAfter(system.tracker(EUROPE).url, before);
  assert.ok(!(await keysOn(system, WEST)).has("promised"));
  await eventually("the new epoch's record has the mark", async () => {
    const newest =
      "SELECT coalesce(final_marks->>'region', '0') AS mark FROM highwater.epoch ORDER BY seq DESC LIMIT 1";
    const [row] = await cluster.query(WEST, newest);
    return BigInt(String(row?.["mark"])) >= BigInt(position.offset) || undefined;
  });
  // It has more than the new primary and cannot follow it.
  await cluster.rejoin(EUROPE);
  for (const region of [WEST, EUROPE])
    assert.equal((await verdict(system.tracker(region).url, token)).verdict, "broken", region);
});

it("a promise is broken, also if what has survived is less than the level asked for", async () => {
  const levels = {
    disk: { primary: true },
    region: { replicas: 1, outside: "region" },
    both: { replicas: 2, outside: "region" },
    global: { regions: "all" },
  } as const;
  await using system = await System.start({
    cluster: { nodes: [EAST, WEST, EUROPE, ASIA].map((region) => ({ id: region, region })) },
    levels,
    hasTrackerLinks: true,
  });
  const { cluster } = system;
  const { before, links, token, position } = await promiseInTheEast(system, { level: "both" });
  await eventually("the mark is in the survivor's log", async () => {
    const rows = await cluster.query(
      EUROPE,
      "SELECT coalesce(w.marks -> w.epoch::text ->> 'both', '0') AS mark FROM highwater.witness w",
    );
    return rows.some((row) => BigInt(String(row["mark"])) >= BigInt(position.offset)) || undefined;
  });
  for (const region of [EAST, ASIA]) await system.killRegion(region);
  for (const link of links) await link.heal();
  await cluster.promote(WEST);
  await epochAfter(system.tracker(EUROPE).url, before);
  for (const region of [WEST, EUROPE])
    await eventually(`the promise is broken at ${region}`, async () => {
      const { verdict: said } = await verdict(system.tracker(region).url, token, { level: "both" });
      return said === "broken" || undefined;
    });
});
