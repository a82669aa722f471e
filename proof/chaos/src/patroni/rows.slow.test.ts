// Goal: if Patroni's settings let it promote a lagging standby, the product reports every broken
// promise. Method: one of the measured cases on a real Patroni, while the leader has a replication
// session that does not stream, as a standby's Patroni opens them. `make patroni-rows` plays all
// cases.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "pg";
import { PatroniCluster } from "@highwater/lab-cluster";
import { faultOf, playRow, ROW_SYSTEM, ROWS } from "./rows.ts";
import { PatroniSystem } from "./system.ts";

const missing = await PatroniCluster.missing();

test(
  "quorum mode drops the dead standby and promotes the laggard, and every promise that it broke is reported as broken",
  { skip: missing ?? false },
  async () => {
    const row = ROWS.find(({ settings, deed }) => settings === "quorum" && deed === "standby_first");
    assert.ok(row !== undefined);
    const { settings } = row;
    const system = await PatroniSystem.start({ settings, ...ROW_SYSTEM });
    try {
      const leader = await system.ready();
      const asking = new Client(`${system.patroni.connectionString(leader)}?replication=database`);
      // The session ends when the case kills the leader.
      asking.on("error", () => undefined);
      await asking.connect();
      const outcome = await playRow(system, row);
      assert.equal(faultOf(outcome), null, JSON.stringify(outcome));
      assert.deepEqual(outcome.promised, { any: { broken: outcome.committed }, safe: {} });
    } finally {
      await system.close();
    }
  },
);
