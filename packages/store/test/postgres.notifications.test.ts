// Goal: the store shows how full the notification queue is when a session listens and does not read, also if a read-only
// session sends the notifications.
// Method: plain login roles, one of them in a READ ONLY transaction.
import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually } from "@highwater/lab-tools/process";
import { connect, makeStore, nodeSpecs, startTestCluster } from "./postgres-cluster.ts";

const [EAST, WEST] = ["us-east", "us-west"] as const;
const SENT = "SELECT count(pg_notify('news', repeat('x', 7000) || n)) FROM generate_series(1, 4000) n";

test("the store shows when the notification queue fills and when it is empty again", async () => {
  const cluster = await startTestCluster({ nodes: [EAST, WEST].map((id) => ({ id, region: id })) });
  const store = makeStore(await nodeSpecs(cluster), "one");
  try {
    await cluster.query(EAST, "CREATE ROLE tenant LOGIN");
    const url = await cluster.connectionString(EAST, { user: "tenant" });
    const [listener, sender] = [await connect(url), await connect(url)];
    await listener.query("LISTEN news");
    await listener.query("BEGIN");
    assert.equal(await store.notificationQueueUsage(EAST), 0);
    await sender.query("BEGIN READ ONLY");
    await sender.query(SENT);
    await sender.query("COMMIT");
    const usage = await store.notificationQueueUsage(EAST);
    assert.ok(usage > 0.001 && usage < 1, String(usage));
    assert.equal(await store.notificationQueueUsage(WEST), 0);
    await listener.end();
    await eventually("it is empty", async () => (await store.notificationQueueUsage(EAST)) < usage / 2);
    await sender.end();
  } finally {
    await store.close();
    await cluster.close();
  }
});
