// Goal: no answer on the PostgreSQL wire comes before the shown commit is durable on the replica.
// Method: a real system whose replica is 400 ms away, which is asked at each answer. On PostgreSQL
// alone each of the same cases must come too early: a case that cannot fail proves nothing.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { System } from "@highwater/lab-system";
import { eventually } from "@highwater/lab-tools/process";
import { Adversary, CASES, SETUP } from "./held.ts";
import { placeOf } from "./session.ts";

const ROUND_TRIP_MS = 400;
const TRIES = 3;

describe("answers and the replica", { concurrency: false }, () => {
  let system: System;
  let adversary: Adversary;
  before(async () => {
    system = await System.start({
      cluster: {
        nodes: [
          { id: "east", region: "east" },
          { id: "west", region: "west" },
        ],
        roundTripMs: { "east/west": ROUND_TRIP_MS },
        settings: { max_prepared_transactions: "10" },
      },
      levels: { disk: { primary: true }, region: { replicas: 1, outside: "region" } },
    });
    const { cluster } = system;
    for (const sql of SETUP) await cluster.query("east", sql);
    await eventually("the tables are on the replica", async () => {
      const [row] = await cluster.query("west", "SELECT to_regclass('held_child') AS made");
      return row?.["made"] != null;
    });
    adversary = await Adversary.open({
      primary: await cluster.connectionString("east"),
      replica: await cluster.connectionString("west"),
    });
  });
  after(async () => {
    await adversary.close();
    await system.close();
  });

  for (const each of CASES) {
    it(`PostgreSQL alone answers too early: ${each.name}`, async () => {
      const place = placeOf(await system.cluster.connectionString("east", { user: "app" }));
      const options = `-c synchronous_commit=off ${each.options ?? ""}`;
      let isHeld = true;
      // A machine that stalls for longer than the link's delay may hide an early answer once.
      for (let tries = 0; isHeld && tries < TRIES; tries++)
        isHeld = await adversary.isHeld(place, { ...each, options });
      assert.equal(isHeld, false);
    });

    it(`the answer is held: ${each.name}`, async () => {
      assert.equal(await adversary.isHeld(placeOf(system.pgUrl("east")), each), true);
    });
  }
});
