// What the adapter sees of replicas, on a real cluster of three servers.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { type Cluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { type PostgresStore } from "../src/postgres/adapter.ts";
import { makeStore, MINT, nodeSpecs, startTestCluster } from "./postgres-cluster.ts";

describe("the PostgreSQL adapter on three servers", () => {
  let cluster: Cluster;
  let store: PostgresStore;
  let primary: string;
  let replicas: string[];

  before(async () => {
    cluster = await startTestCluster();
    const nodes = await nodeSpecs(cluster);
    [primary = "", ...replicas] = nodes.map(({ id }) => id);
    store = makeStore(nodes, "one");
    await store.prepare(primary);
    await store.mint(primary, MINT);
  });

  after(async () => {
    await store.close();
    await cluster.close();
  });

  const named = async (): Promise<string[]> =>
    ((await store.positions(primary))?.replicas ?? []).map(({ node }) => node).sort();

  it("leaves out two streams under one name", async () => {
    const [one = "", two = ""] = replicas;
    await eventually("both have said what they have", async () => (await named()).length === 2);
    assert.deepEqual(await named(), [...replicas].sort());
    const [{ primary_conninfo: original } = {}] = await cluster.query(two, "SHOW primary_conninfo");
    const use = async (conninfo: string): Promise<void> => {
      await cluster.query(two, `ALTER SYSTEM SET primary_conninfo TO '${conninfo.replaceAll("'", "''")}'`);
      await cluster.query(two, "SELECT pg_reload_conf()");
    };
    await use(String(original).replace(`application_name=${two}`, `application_name=${one}`));
    await eventually("both have one name", async () => (await named()).length === 0);
    const senders = await cluster.query(
      primary,
      "SELECT FROM pg_stat_replication WHERE application_name = $1",
      [one],
    );
    assert.equal(senders.length, 2);
    await use(String(original));
    await eventually("each has its own", async () => (await named()).length === 2);
  });

  it("names one stream from its begin to its end", async () => {
    const [one = ""] = replicas;
    const session = async (): Promise<string | undefined> =>
      (await store.positions(primary))?.replicas.find(({ node }) => node === one)?.session;
    const first = await session();
    assert.equal(await session(), first);
    const { upstream } = await store.probe(one);
    await cluster.restart(one);
    await cluster.waitForStreaming([one]);
    await eventually("it streams again", async () => (await session()) !== undefined);
    assert.notEqual(await session(), first);
    const again = await store.probe(one).catch(() => store.probe(one));
    assert.notEqual(again.upstream?.session, upstream?.session);
  });

  it("reports a server that does not flush, and counts nothing of it", async () => {
    const [one = ""] = replicas;
    assert.equal((await store.probe(primary)).unfit, null);
    const before = (await store.positions(primary))?.flushed ?? 0n;
    assert.ok(before > 0n);
    for (const node of [primary, one]) {
      await cluster.query(node, "ALTER SYSTEM SET fsync TO off");
      await cluster.query(node, "SELECT pg_reload_conf()");
      await eventually(
        "it is off",
        async () => (await cluster.query(node, "SHOW fsync"))[0]?.["fsync"] === "off",
      );
      await eventually("the report says so", async () => (await store.probe(node)).unfit === "fsync is off");
    }
    await eventually("nothing is counted", async () => (await store.positions(primary))?.flushed === null);
    await cluster.query(primary, "ALTER SYSTEM RESET fsync");
    await cluster.query(primary, "SELECT pg_reload_conf()");
    await eventually(
      "it counts again",
      async () => ((await store.positions(primary))?.flushed ?? 0n) >= before,
    );
  });

  it("reports a replica with a recovery target", async () => {
    const [, two = ""] = replicas;
    await cluster.query(two, "ALTER SYSTEM SET recovery_target_name TO 'never reached'");
    await cluster.restart(two);
    const report = await store.probe(two).catch(() => store.probe(two));
    assert.equal(report.unfit, "a recovery target is set: recovery_target_name");
  });
});
