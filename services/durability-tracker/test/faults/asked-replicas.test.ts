// Goal: if the primary cannot distinguish its replicas, each counts only for the position that it proves
// itself.
// Method: a tracker whose replicas all have the default name, and are to be asked; then one of them stops replaying, and
// the primary crashes.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { ServiceProcess } from "@highwater/lab-system";
import { verdict } from "@highwater/lab-system/testing";
import { type TokenVerdict } from "@highwater/protocol";
import { epochOf, startLone, topologyOf } from "./lone-tracker.ts";
import { EAST, eventually, newId, WEST } from "./support.ts";

const EUROPE = "eu-west";
const LIMIT_MS = 60_000;

async function nameless(cluster: Cluster, replica: string): Promise<void> {
  const [{ primary_conninfo: now } = {}] = await cluster.query(replica, "SHOW primary_conninfo");
  const conninfo = String(now).replace(/application_name=\S+/, "application_name=walreceiver");
  await cluster.query(replica, `ALTER SYSTEM SET primary_conninfo TO '${conninfo}'`);
  await cluster.query(replica, "SELECT pg_reload_conf()");
}

test("a level is reached by replicas that are asked, and not by one that cannot prove it", async () => {
  const cluster = await startCluster({
    nodes: [EAST, WEST, EUROPE].map((region) => ({ id: region, region })),
    roundTripMs: { [`${EAST}/${WEST}`]: 0, [`${EAST}/${EUROPE}`]: 0, [`${WEST}/${EUROPE}`]: 0 },
  });
  const services: ServiceProcess[] = [];
  try {
    for (const replica of [WEST, EUROPE]) await nameless(cluster, replica);
    await cluster.query(EAST, "CREATE ROLE highwater_app NOLOGIN");
    const ask = { ask: true } as const;
    const levels = {
      disk: { primary: true },
      region: { replicas: 1, outside: "region" },
      two: { replicas: 2, outside: "region" },
    } as const;
    const replication = { [WEST]: ask, [EUROPE]: ask };
    const options = { cluster, ledger: join(cluster.dir, "ledger.sqlite"), levels, replication };
    const tracker = await startLone(options);
    services.push(tracker);
    const epoch = await epochOf(tracker);
    const gateway = await ServiceProcess.start({
      name: "gateway",
      service: "gateway",
      logFile: join(cluster.dir, "gateway.log"),
      startTimeoutMs: LIMIT_MS,
      env: {
        GATEWAY_NAME: "one",
        GATEWAY_REGION: EAST,
        GATEWAY_TRACKERS: tracker.url,
        HIGHWATER_TOPOLOGY: JSON.stringify(await topologyOf(options)),
      },
    });
    services.push(gateway);
    const commit = async (sql: string, readOnly = false): Promise<string> =>
      eventually("it commits", async () => {
        const answer = await fetch(`${gateway.url}/v1/transactions`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ id: newId(), statements: [{ sql }], readOnly }),
        });
        return answer.ok && ((await answer.json()) as { token: string }).token;
      });
    const judge = async (token: string, level: string, waitMs: number): Promise<TokenVerdict["verdict"]> =>
      (await verdict(tracker.url, token, { level, waitMs })).verdict;
    const first = await commit("CREATE TABLE kv (key int)");
    assert.equal(await judge(first, "two", LIMIT_MS), "durable");
    assert.equal(await judge(await commit("SELECT 1", true), "two", LIMIT_MS), "durable", "a read, too");

    await cluster.query(EUROPE, "SELECT pg_wal_replay_pause()");
    await eventually("it pauses", async () => {
      const [state] = await cluster.query(EUROPE, "SELECT pg_get_wal_replay_pause_state() AS state");
      return state?.["state"] === "paused";
    });
    const second = await commit("INSERT INTO kv VALUES (1)");
    assert.equal(await judge(second, "region", LIMIT_MS), "durable", "the other one proves it");
    assert.equal(await judge(second, "two", 500), "pending", "received is not proven");
    await cluster.query(EUROPE, "SELECT pg_wal_replay_resume()");
    assert.equal(await judge(second, "two", LIMIT_MS), "durable");

    await cluster.crashBackend(EAST);
    await epochOf(tracker, epoch);
    assert.equal(await judge(second, "two", LIMIT_MS), "durable");
    const third = await commit("INSERT INTO kv VALUES (2)");
    assert.equal(await judge(third, "two", LIMIT_MS), "durable", "and in the next epoch again");
  } finally {
    for (const service of services) if (service.running) await service.kill();
    await cluster.close();
  }
});
