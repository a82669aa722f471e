// Goal: docs/guide/change-data-capture.md is right: a logical slot reads what no other node has, and one for failover does not run
// ahead of the slots in `synchronized_standby_slots`. Method: cut the link to the replica, commit, and read both slots.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import pg from "pg";
import { eventually } from "@highwater/lab-tools/process";
import { type Cluster, startCluster } from "../src/index.ts";

const HELD_MS = 1_500;
const LIMIT_MS = 60_000;

describe("change data capture", () => {
  let cluster: Cluster;
  let isOld = false;

  before(async () => {
    const nodes = [
      { id: "a", region: "a" },
      { id: "b", region: "b" },
    ];
    cluster = await startCluster({ nodes, settings: { wal_level: "logical" } });
    isOld =
      Number((await cluster.query("a", "SHOW server_version_num"))[0]?.["server_version_num"]) < 170_000;
    if (isOld) return;
    await cluster.query("a", "SELECT pg_create_physical_replication_slot('b')");
    await cluster.query("b", "ALTER SYSTEM SET primary_slot_name = 'b'");
    await cluster.query("a", "ALTER SYSTEM SET synchronized_standby_slots = 'b'");
    for (const node of ["a", "b"]) await cluster.query(node, "SELECT pg_reload_conf()");
    await eventually("the replica uses its slot", async () => {
      const [slot] = await cluster.query(
        "a",
        "SELECT active FROM pg_replication_slots WHERE slot_name = 'b'",
      );
      return slot?.["active"] === true;
    });
    await cluster.query("a", "CREATE TABLE item (id int PRIMARY KEY)");
    await cluster.query("a", "CREATE PUBLICATION items FOR TABLE item");
    await cluster.query("a", "SELECT pg_create_logical_replication_slot('plain', 'pgoutput')");
    await cluster.query(
      "a",
      "SELECT pg_create_logical_replication_slot('held', 'pgoutput', failover => true)",
    );
  });

  after(() => cluster.close());

  /** Number of messages in the slot; "nothing yet" if the server holds them back for so long. */
  async function read(slot: string, ms: number): Promise<number | "nothing yet"> {
    const client = new pg.Client({ connectionString: await cluster.connectionString("a") });
    await client.connect();
    try {
      await client.query(`SET statement_timeout TO ${String(ms)}`);
      const { rows } = await client.query(
        "SELECT FROM pg_logical_slot_get_binary_changes($1, NULL, NULL, 'proto_version', '1', 'publication_names', 'items')",
        [slot],
      );
      return rows.length;
    } catch (error) {
      assert.ok(error instanceof pg.DatabaseError && error.code === "57014", String(error));
      return "nothing yet";
    } finally {
      await client.end();
    }
  }

  it("a slot reads what only the primary has; one for failover waits for the replica", async (context) => {
    if (isOld) {
      context.skip("PostgreSQL 17 and newer have synchronized_standby_slots");
      return;
    }
    await cluster.link("a", "b").cut();
    await cluster.query("a", "INSERT INTO item VALUES (1)");
    // BEGIN, the table's description, INSERT and COMMIT.
    assert.equal(await read("plain", LIMIT_MS), 4, "it runs ahead");
    assert.equal(await read("held", HELD_MS), "nothing yet");
    await cluster.link("a", "b").heal();
    assert.equal(await read("held", LIMIT_MS), 4);
  });
});
