// Goal: enqueued deliveries survive the death of the primary or of a tracker in mid-delivery, and
// two trackers that make the queue at once. A repeated message keeps its webhook-id.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { answers, ok, Receiver } from "@highwater/lab-system/receiver";
import { lostEvent, type Station, World } from "./world.ts";

/** Jobs of a tracker or a primary that died are taken over soon. */
const QUICK_TAKEOVER = { webhookExpireS: 1, webhookTimeoutMs: 1_000 };
let world: World;
before(async () => {
  world = await World.start();
});
after(() => world.close());

test("two trackers make the queue's tables at once, and both can use them", async () => {
  const stations = [world.station("one"), world.station("two")];
  for (const station of stations) await world.open(station);
  const receiver = await Receiver.start();
  await stations[0]?.endpoint(receiver.url);
  for (const station of stations) await station.record([lostEvent()]);
  await receiver.count(2);
  for (const station of stations) {
    assert.deepEqual(
      station.log.filter(({ event }) => event.includes("cannot be opened")),
      [],
    );
    await station.close();
  }
  await receiver.close();
});

test("a tracker dies in mid-delivery: another sends it again, under the same webhook-id", async () => {
  const settings = { webhookExpireS: 1, webhookTimeoutMs: 15_000 };
  const victim = await world.open(world.station("victim", settings));
  const receiver = await Receiver.start();
  receiver.behaviour = () => undefined;
  const endpoint = await victim.endpoint(receiver.url);
  await victim.record([lostEvent()]);
  await receiver.count(1);
  // It has sent the message, and will never record that it did.
  await victim.close();
  receiver.behaviour = ok;
  // Its claim outlasts the longest exchange, and the test does not wait for that.
  await world.sql(
    "UPDATE highwater.webhook_delivery SET sending_until = clock_timestamp() WHERE endpoint = $1",
    [endpoint.id],
  );
  const survivor = await world.open(world.station("survivor", settings));
  await receiver.count(2, 90_000);
  assert.equal(new Set(receiver.ids()).size, 1);
  await world.until("it is delivered", async () => {
    const rows = await world.sql("SELECT status FROM highwater.webhook_delivery WHERE endpoint = $1", [
      endpoint.id,
    ]);
    return rows[0]?.status === "delivered";
  });
  await survivor.close();
  await receiver.close();
});

test("a failover takes the queue along: what was not delivered is delivered by the new primary", async () => {
  const stations: Station[] = [];
  for (const name of ["three", "four"])
    stations.push(
      await world.open(
        world.station(name, { ...QUICK_TAKEOVER, webhookDelaysMs: Array<number>(500).fill(100) }),
      ),
    );
  const [one, two] = stations as [Station, Station];
  const receiver = await Receiver.start();
  receiver.behaviour = answers(500);
  const endpoint = await one.endpoint(receiver.url);
  const events = Array.from({ length: 30 }, () => lostEvent());
  for (const event of events) await one.record([event]);
  await receiver.count(10);
  const [flushed] = await world.sql("SELECT pg_current_wal_flush_lsn()::text AS lsn");
  await world.until("the replica has it", async () => {
    const [row] = await world.cluster.query(
      "us-west",
      "SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn AS has",
      [flushed?.lsn],
    );
    return row?.has === true;
  });
  const newest = lostEvent();
  await world.failOver();
  for (const station of stations) await world.open(station);
  receiver.behaviour = ok;
  // The recorder cannot know whether its first recording survived: it repeats it, without effect.
  await two.record([...events.slice(0, 3), newest]);
  await world.until("everything is delivered", async () => {
    const rows = await world.sql("SELECT status FROM highwater.webhook_delivery WHERE endpoint = $1", [
      endpoint.id,
    ]);
    return rows.length === events.length + 1 && rows.every(({ status }) => status === "delivered");
  });
  assert.equal(new Set(receiver.ids()).size, events.length + 1);
  const ids = receiver.received.flatMap(({ body }) =>
    (JSON.parse(body) as { data: { transactions: { id: string }[] } }).data.transactions.map(({ id }) => id),
  );
  assert.deepEqual([...new Set(ids)].sort(), [...events, newest].map(({ data }) => data.id).sort());
  await receiver.close();
});
