// Goal: the deletion of an endpoint ends its deliveries at once and delays nothing else. Method: a
// real PostgreSQL, a receiver that never answers, and one delivery that a session has locked.
import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import pg from "pg";
import { answers, type Behaviour, Receiver } from "@highwater/lab-system/receiver";
import { lostEvent, type Station, World } from "./world.ts";

let world: World;
let station: Station;
const receivers: Receiver[] = [];

before(async () => {
  world = await World.start();
  station = await world.open(world.station("one", { webhookDelaysMs: [3_600_000] }));
});
after(() => world.close());
afterEach(async () => {
  for (const receiver of receivers.splice(0)) await receiver.close();
});

async function receive(behaviour: Behaviour): Promise<Receiver> {
  const receiver = await Receiver.start();
  receiver.behaviour = behaviour;
  receivers.push(receiver);
  return receiver;
}

test("an endpoint with many deliveries is deleted at once, and keeps no event of others waiting", async () => {
  const receiver = await receive(() => undefined);
  const endpoint = await station.endpoint(receiver.url);
  await station.record([lostEvent()]);
  await receiver.count(1);
  await world.sql(
    `INSERT INTO highwater.webhook_delivery (id, endpoint, type, body, status)
     SELECT 'many' || n, $1, 'transaction.lost', '{}', 'delivered' FROM generate_series(1, 2500) n`,
    [endpoint.id],
  );
  const left = async (): Promise<number> => {
    const sql = "SELECT count(*)::int AS n FROM highwater.webhook_delivery WHERE endpoint = $1";
    return Number((await world.sql(sql, [endpoint.id]))[0]?.["n"]);
  };
  // Otherwise a chore would remove them before the test looks.
  const busy = new pg.Client({ connectionString: world.nodes[0]?.url });
  try {
    await busy.connect();
    await busy.query("BEGIN");
    await busy.query("SELECT FROM highwater.webhook_delivery WHERE id = 'many1' FOR KEY SHARE");
    assert.equal((await station.call("DELETE", `/${endpoint.id}`)).status, 204);
    assert.equal((await station.call("DELETE", `/${endpoint.id}`)).status, 404);
    assert.equal((await station.call("GET", `/${endpoint.id}`)).status, 404);
    assert.deepEqual((await station.call("GET", "")).body, { webhooks: [] });
    const { fresh } = await station.record([lostEvent()]);
    assert.equal(fresh, 1, "no recording waits for the removal");
    assert.ok((await left()) >= 1, "which waits for a delivery");
  } finally {
    await busy.query("ROLLBACK");
    await busy.end();
  }
  await world.until("all is removed", async () => {
    const [row] = await world.sql("SELECT count(*)::int AS n FROM highwater.webhook_endpoint");
    return row?.["n"] === 0 && (await left()) === 0;
  });
  assert.equal(receiver.received.length, 1, "and nothing more was sent");
});

test("what waits for a deleted endpoint goes with it, and its jobs", async () => {
  const receiver = await receive(answers(500));
  const endpoint = await station.endpoint(receiver.url);
  await station.record([lostEvent()]);
  const sql = "SELECT job FROM highwater.webhook_delivery WHERE endpoint = $1 AND attempts = 1";
  let job: unknown;
  await world.until("it waits for the next attempt", async () => {
    job = (await world.sql(sql, [endpoint.id]))[0]?.["job"];
    return job !== undefined;
  });
  assert.equal((await station.call("DELETE", `/${endpoint.id}`)).status, 204);
  await world.until("its job is gone", async () => {
    return (await world.sql("SELECT FROM highwater_jobs.job WHERE id = $1", [job])).length === 0;
  });
});
