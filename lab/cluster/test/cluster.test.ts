// One default cluster through its whole life: the cases share it, and each leaves it healthy.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import pg from "pg";
import { eventually } from "@highwater/lab-tools/process";
import { type Cluster, type NodeStatus, startCluster } from "../src/index.ts";

describe("a default cluster", () => {
  let cluster: Cluster;

  before(async () => {
    cluster = await startCluster({ settings: { log_min_duration_statement: "10min" } });
  });
  after(() => cluster.close());

  const statusOf = async (id: string): Promise<NodeStatus> => {
    const status = (await cluster.status()).find((node) => node.id === id);
    assert.ok(status);
    return status;
  };
  const value = async (id: string, sql: string): Promise<unknown> =>
    Object.values((await cluster.query(id, sql))[0] ?? {})[0];
  const reaches = (id: string, sql: string): Promise<unknown> =>
    eventually(`${id}: ${sql}`, async () => (await value(id, sql)) === true);

  it("starts a writable primary and two streaming replicas in three regions", async () => {
    assert.deepEqual(
      cluster.nodes.map((node) => [node.id, node.region, node.zone]),
      [
        ["us-east", "us-east", "us-east-a"],
        ["us-west", "us-west", "us-west-a"],
        ["eu-west", "eu-west", "eu-west-a"],
      ],
    );
    assert.deepEqual(
      (await cluster.status()).map((node) => [node.state, node.timeline, node.streaming, node.upstream]),
      [
        ["primary", 1, false, undefined],
        ["replica", 1, true, "us-east"],
        ["replica", 1, true, "us-east"],
      ],
    );
    await cluster.query("us-east", "CREATE TABLE item (id int PRIMARY KEY)");
    await cluster.query("us-east", "CREATE UNLOGGED TABLE fleeting AS SELECT 1 AS id");
    await cluster.query("us-east", "INSERT INTO item VALUES ($1)", [1]);
    for (const id of ["us-west", "eu-west"]) {
      await eventually("the row arrives", () =>
        cluster.query(id, "SELECT FROM item").then((r) => r.length === 1),
      );
      await assert.rejects(cluster.query(id, "INSERT INTO item VALUES (2)"), { code: "QUERY_FAILED" });
    }
    assert.equal(await value("us-east", "SHOW log_min_duration_statement"), "10min");
  });

  it("has one system identifier and honest names", async () => {
    const ids = await Promise.all(
      cluster.nodes.map((node) => value(node.id, "SELECT system_identifier::text FROM pg_control_system()")),
    );
    assert.equal(new Set(ids).size, 1);
    const names = await cluster.query(
      "us-east",
      "SELECT application_name FROM pg_stat_replication ORDER BY 1",
    );
    assert.deepEqual(
      names.map((row) => row["application_name"]),
      ["eu-west", "us-west"],
    );
  });

  it("delays clients in another region, and only those", async () => {
    const direct = await cluster.connectionString("us-east", { from: "us-east" });
    assert.equal(direct, await cluster.connectionString("us-east"));
    const relayed = await cluster.connectionString("us-east", { from: "us-west" });
    assert.equal(relayed, await cluster.connectionString("us-east", { from: "us-west" }));
    assert.notEqual(relayed, direct);
    const client = new pg.Client(relayed);
    await client.connect();
    const startMs = performance.now();
    await client.query("SELECT 1");
    const tookMs = performance.now() - startMs;
    await client.end();
    assert.ok(tookMs >= 62, `${tookMs} ms`);
  });

  it("answers typed errors", async () => {
    await assert.rejects(cluster.start("mars"), { name: "DevClusterError", code: "UNKNOWN_NODE" });
    await assert.rejects(cluster.start("us-east"), { code: "BAD_STATE" });
    await assert.rejects(cluster.restore("us-east", "/nowhere"), { code: "BAD_STATE" });
    await assert.rejects(cluster.query("us-east", "SELECT 1/0"), (error: Error & { code?: string }) => {
      assert.equal(error.code, "QUERY_FAILED");
      assert.equal((error.cause as { code?: string }).code, "22012");
      return true;
    });
  });

  it("stops replication over a cut link and catches up when it heals", async () => {
    await cluster.isolate("eu-west");
    await cluster.query("us-east", "INSERT INTO item VALUES (10)");
    await reaches("us-west", "SELECT count(*) = 1 FROM item WHERE id = 10");
    assert.equal(await value("eu-west", "SELECT count(*) = 0 FROM item WHERE id = 10"), true);
    await cluster.healAll();
    await reaches("eu-west", "SELECT count(*) = 1 FROM item WHERE id = 10");
  });

  it("a clean restart keeps an unlogged table and changes the start time", async () => {
    const started = await value("us-east", "SELECT pg_postmaster_start_time()::text");
    await cluster.restart("us-east");
    assert.equal(await value("us-east", "SELECT count(*) = 1 FROM fleeting"), true);
    assert.notEqual(await value("us-east", "SELECT pg_postmaster_start_time()::text"), started);
    await cluster.waitForStreaming();
  });

  it("a crashed backend empties unlogged tables, on the same timeline and start time", async () => {
    const life = "SELECT pg_postmaster_start_time()::text";
    const started = await value("us-east", life);
    await cluster.crashBackend("us-east");
    assert.equal(await value("us-east", "SELECT count(*) = 0 FROM fleeting"), true);
    assert.equal(await value("us-east", life), started);
    assert.equal((await statusOf("us-east")).timeline, 1);
    await cluster.waitForStreaming();
  });

  it("a killed node starts again with everything that was committed", async () => {
    await cluster.query("us-east", "INSERT INTO item VALUES (20)");
    await cluster.kill("us-east");
    assert.equal((await statusOf("us-east")).state, "stopped");
    await assert.rejects(cluster.kill("us-east"), { code: "BAD_STATE" });
    await cluster.start("us-east");
    assert.equal(await value("us-east", "SELECT count(*) = 1 FROM item WHERE id = 20"), true);
    await cluster.waitForStreaming();
  });

  it("a paused node hangs and a resumed one continues", async () => {
    const client = new pg.Client(await cluster.connectionString("us-west"));
    await client.connect();
    await cluster.pause("us-west");
    assert.equal((await statusOf("us-west")).state, "paused");
    let answered = false;
    const answer = client.query("SELECT 1").then(() => (answered = true));
    assert.equal(await cluster.mostAdvancedReplica(), "eu-west");
    assert.equal(answered, false);
    await cluster.resume("us-west");
    await answer;
    await client.end();
    await cluster.waitForStreaming();
  });

  it("a hot snapshot starts as a separate primary", async () => {
    await cluster.query("us-east", "INSERT INTO item VALUES (30)");
    const snapshot = await cluster.snapshot("us-east");
    await cluster.query("us-east", "INSERT INTO item VALUES (31)");
    await cluster.stop("us-west");
    await cluster.restore("us-west", snapshot, { as: "primary" });
    await cluster.start("us-west");
    assert.equal((await statusOf("us-west")).state, "primary");
    assert.deepEqual(await cluster.query("us-west", "SELECT id FROM item WHERE id >= 30"), [{ id: 30 }]);
    await cluster.stop("us-west");
    await cluster.restore("us-west", snapshot, { as: "replica", upstream: "us-east" });
    await cluster.start("us-west");
    await reaches("us-west", "SELECT count(*) = 1 FROM item WHERE id = 31");
    await cluster.waitForStreaming();
  });

  it("a hot snapshot of a replica starts alone too", async () => {
    await reaches("eu-west", "SELECT count(*) = 1 FROM item WHERE id = 31");
    const snapshot = await cluster.snapshot("eu-west");
    await cluster.stop("us-west");
    await cluster.restore("us-west", snapshot, { as: "primary" });
    await cluster.start("us-west");
    assert.equal(await value("us-west", "SELECT count(*) = 1 FROM item WHERE id = 31"), true);
    await cluster.query("us-west", "INSERT INTO item VALUES (32)");
    await cluster.rejoin("us-west");
    await cluster.waitForStreaming();
    assert.equal(await value("us-west", "SELECT count(*) = 0 FROM item WHERE id = 32"), true);
  });

  it("a cold snapshot brings a node back to where it was stopped", async () => {
    await cluster.stop("us-west");
    const snapshot = await cluster.snapshot("us-west");
    await cluster.query("us-east", "INSERT INTO item VALUES (40)");
    await cluster.start("us-west");
    await reaches("us-west", "SELECT count(*) = 1 FROM item WHERE id = 40");
    await cluster.stop("us-west", "immediate");
    await cluster.restore("us-west", snapshot);
    await cluster.start("us-west");
    await reaches("us-west", "SELECT count(*) = 1 FROM item WHERE id = 40");
    await cluster.waitForStreaming();
  });

  it("promotion follows a dead primary: the other replica streams from the new one", async () => {
    await cluster.query("us-east", "CREATE SCHEMA highwater");
    // The promoted node must lack nothing of the other's: a server also writes log by itself.
    await cluster.link("us-east", "eu-west").cut({ mode: "reset" });
    await cluster.query(
      "us-east",
      "CREATE TABLE highwater.authority_command (id int GENERATED ALWAYS AS IDENTITY, node text, reason text, overrules uuid[])",
    );
    await reaches("us-west", "SELECT to_regclass('highwater.authority_command') IS NOT NULL");
    await cluster.kill("us-east");
    await cluster.healAll();
    const started = await value("us-west", "SELECT pg_postmaster_start_time()::text");
    await cluster.promote("us-west", { reason: "us-east burned down" });
    assert.equal(await value("us-west", "SELECT pg_postmaster_start_time()::text"), started);
    await cluster.authorize("us-west");
    assert.deepEqual(await cluster.query("us-west", "SELECT node, reason FROM highwater.authority_command"), [
      { node: "us-west", reason: "us-east burned down" },
      { node: "us-west", reason: "authorized" },
    ]);
    await cluster.waitForStreaming(["eu-west"]);
    assert.deepEqual(
      (await cluster.status()).map((node) => [node.state, node.timeline, node.upstream]),
      [
        ["stopped", undefined, undefined],
        ["primary", 2, undefined],
        ["replica", 2, "us-west"],
      ],
    );
  });

  it("the former primary starts as a zombie, and rejoins as a replica", async () => {
    await cluster.startAsPrimary("us-east");
    await cluster.query("us-east", "INSERT INTO item VALUES (50)");
    assert.equal((await statusOf("us-east")).timeline, 1);
    await cluster.rejoin("us-east");
    await cluster.waitForStreaming();
    assert.equal(await value("us-east", "SELECT count(*) = 0 FROM item WHERE id = 50"), true);
    assert.deepEqual(
      [(await statusOf("us-east")).state, (await statusOf("us-east")).upstream],
      ["replica", "us-west"],
    );
  });

  it("a hung replica and a cut link do not hold a promotion up", async () => {
    await cluster.pause("us-east");
    // eu-west must have everything that us-east may still find in its socket, to be followed by it.
    await cluster.link("us-west", "us-east").cut();
    await cluster.query("us-west", "INSERT INTO item VALUES (55)");
    await reaches("eu-west", "SELECT count(*) = 1 FROM item WHERE id = 55");
    await cluster.isolate("us-west");
    await cluster.promote(await cluster.mostAdvancedReplica());
    assert.equal((await statusOf("eu-west")).timeline, 3);
    // Still cut off from us-west, whose log takes another course now.
    await cluster.resume("us-east");
    await cluster.follow("us-east", "eu-west");
    await cluster.waitForStreaming(["us-east"]);
    await cluster.healAll();
  });

  it("a replica stuck in connecting over a cut link takes a new upstream", async () => {
    // A fresh clone has no older log, so us-east must have caught up before it can follow.
    await cluster.rejoin("us-west");
    await cluster.query("eu-west", "INSERT INTO item VALUES (60)");
    for (const id of ["us-east", "us-west"]) await reaches(id, "SELECT count(*) = 1 FROM item WHERE id = 60");
    // us-east restarts while its link is cut, so its receiver hangs during the connection attempt.
    await cluster.link("us-east", "eu-west").cut();
    await cluster.restart("us-east");
    assert.equal((await statusOf("us-east")).streaming, false);
    await cluster.follow("us-east", "us-west");
    await cluster.waitForStreaming();
    await cluster.healAll();
  });
});

it("takes any list of nodes, replicates directly within a region, and closes twice", async () => {
  const cluster = await startCluster({
    nodes: [
      { id: "p", region: "north" },
      { id: "r", region: "north", zone: "north-b" },
    ],
    roundTripMs: { "clients/north": 30 },
  });
  await cluster.isolate("north");
  const rows = await cluster.query("p", "SELECT application_name, state FROM pg_stat_replication");
  assert.deepEqual(rows, [{ application_name: "r", state: "streaming" }]);
  assert.deepEqual(
    cluster.nodes.map((node) => node.zone),
    ["north-a", "north-b"],
  );
  await Promise.all([cluster.close(), cluster.close()]);
  await cluster.close();
  await assert.rejects(cluster.status(), { code: "BAD_STATE" });
});
