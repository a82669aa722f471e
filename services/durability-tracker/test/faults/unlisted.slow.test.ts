// Goal: an owner learns of lost transactions that had left the ledger before the failover.
// Method: the whole product with a ledger that keeps for a second what is durable in another region; a region that does not follow
// is promoted, so that all of them are gone.
import assert from "node:assert/strict";
import { test } from "node:test";
import { System } from "@highwater/lab-system";
import { commitKeys, createTable, eventually, keysOn, starve, verdict } from "@highwater/lab-system/testing";
import { type EpochEventData, type EventPage } from "@highwater/protocol";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;

async function eventsOf(system: System, region: string, type: string): Promise<EventPage["events"]> {
  const url = `${system.tracker(region).url}/v1/durability/events?format=json&limit=1000&types=${type}`;
  return eventually("the tracker reads its store", async () => {
    const response = await fetch(url);
    if (response.status === 503) return undefined;
    assert.equal(response.status, 200);
    return ((await response.json()) as EventPage).events;
  });
}

test("transactions that had left the ledger by age are published with their number and ids when a failover loses them", async () => {
  await using system = await System.start({ env: { TRACKER_KEEP_DURABLE_MS: "1000" } });
  const { cluster } = system;
  await createTable(system, EAST);
  await cluster.waitForStreaming();
  await starve(system, EUROPE);
  const written = await commitKeys(system.gateway(EAST).url, "gone", 5);
  const tracker = system.tracker(EUROPE).url;
  for (const { token } of written)
    assert.equal((await verdict(tracker, token, { level: "region" })).verdict, "durable");
  // Of both trackers that survive: one that still had them would list them.
  for (const region of [EUROPE, WEST])
    await eventually(`the ledger of ${region} has let go of them`, async () => {
      const text = await (await fetch(`${system.tracker(region).url}/metrics`)).text();
      const [, held] = /^highwater_ledger_entries ([0-9]+)$/m.exec(text) ?? [];
      return held === "0";
    });
  await system.killRegion(EAST);
  await cluster.stop(WEST);
  await cluster.promote(EUROPE);
  const [reported] = await eventually("it is told", async () => {
    const events = await eventsOf(system, EUROPE, "transactions.unlisted");
    return events.length > 0 ? events : undefined;
  });
  const ids = written.map(({ body }) => body.id).sort();
  const data = reported?.data as { count: number; ids: { first: string; last: string } };
  assert.ok(data.count >= 5, JSON.stringify(reported));
  assert.ok(
    data.ids.first <= (ids[0] ?? "") && data.ids.last >= (ids.at(-1) ?? ""),
    JSON.stringify({ data, ids }),
  );
  const { complete, unlisted, forkOffset } = await eventually("the epoch is told", async () => {
    const begun = (await eventsOf(system, EUROPE, "epoch.started")).at(-1)?.data as EpochEventData;
    return begun.node === EUROPE ? begun : undefined;
  });
  assert.deepEqual([complete, unlisted >= 5], [false, true]);
  for (const { body } of written)
    assert.ok(BigInt(body.position.offset) > BigInt(forkOffset), "what is gone is above what was kept");
  assert.deepEqual(await keysOn(system, EUROPE), new Set());
  assert.deepEqual(
    await eventsOf(system, EUROPE, "transaction.lost"),
    [],
    "the ledger does not know them any more",
  );
});
