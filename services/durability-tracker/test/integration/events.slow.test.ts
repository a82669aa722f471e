// Goal: every surviving tracker reports each loss once and under the same event id, and no kill makes it forget one.
// Method: the whole product as real processes; commits that provably cannot have replicated (the region is cut off before
// them); the region dies, another node is promoted; what the streams report is compared with the database and the verdicts.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { System } from "@highwater/lab-system";
import { type EventPage } from "@highwater/protocol";
import { commit, commitKeys, createTable, eventually, starve, verdicts } from "@highwater/lab-system/testing";
import { SseClient } from "../../src/events/sse-client.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
const LOST = 20;
/** On a slow machine the levels stand still for longer than usual, and the trackers differ in when they report that. */
const NO_STALLS = { TRACKER_STALL_AFTER_MS: "3600000" };

interface StreamedEvent {
  readonly id: string;
  readonly type: string;
  readonly data: { readonly id: string; readonly epoch?: string; readonly metadata?: Record<string, string> };
}

const eventsUrl = (system: System, region: string): string =>
  `${system.tracker(region).url}/v1/durability/events`;
const ofType = (client: SseClient, type: string): StreamedEvent[] =>
  client.published.filter(({ event }) => event === type).map(({ data }) => data as StreamedEvent);

/** Until this test's trackers hold so many that are not durable in another region. */
async function untilPending(system: System, count: number): Promise<void> {
  for (const region of [WEST, EUROPE])
    await eventually(`the tracker in ${region} holds them`, async () => {
      const text = await (await fetch(`${system.tracker(region).url}/metrics`)).text();
      const [, pending] = /^highwater_pending_transactions\{level="region"\} ([0-9]+)$/m.exec(text) ?? [];
      return Number(pending) >= count;
    });
}

/** Commits what the death of the region will take: from here on no log leaves it, while announcements do. */
async function commitLost(system: System): Promise<{ id: string; token: string }[]> {
  await system.cluster.waitForStreaming();
  // Not by stopping the senders: after five seconds the replicas would give them up and stream from new ones.
  for (const replica of [EUROPE, WEST]) await starve(system, replica);
  const lost: { id: string; token: string }[] = [];
  for (let order = 0; order < LOST; order++) {
    const statement = {
      sql: "INSERT INTO kv (key, value) VALUES ($1, 1)",
      params: [`lost-${String(order)}`],
    };
    lost.push(await commit(system.gateway(EAST).url, [statement], { metadata: { order: String(order) } }));
  }
  await untilPending(system, LOST);
  return lost;
}

async function failOver(system: System): Promise<string> {
  await system.killRegion(EAST);
  const node = await system.cluster.mostAdvancedReplica();
  await system.cluster.promote(node);
  return node;
}

async function pageOf(system: System, region: string, query = ""): Promise<EventPage> {
  return eventually("the tracker reads its store", async () => {
    const response = await fetch(`${eventsUrl(system, region)}?format=json&limit=1000${query}`);
    const text = await response.text();
    if (response.status === 503) return undefined;
    assert.equal(response.status, 200, text);
    return JSON.parse(text) as EventPage;
  });
}

/** Reported to the client that asked for it by metadata, when it is true, and nothing else is. */
async function checkDurable(system: System): Promise<void> {
  await using client = await SseClient.open(
    `${eventsUrl(system, WEST)}?durable=true&level=global&metadata.order=17`,
  );
  await client.begun();
  const put = (order: string) =>
    commit(
      system.gateway(EAST).url,
      [{ sql: "INSERT INTO kv (key, value) VALUES ($1, 1)", params: [`order-${order}`] }],
      { metadata: { order, shop: "a" } },
    );
  await put("16");
  const wanted = await put("17");
  const last = await put("18");
  await client.until("it is told", () => client.published.length > 0);
  const [published] = ofType(client, "transaction.durable");
  assert.equal(published?.data.id, wanted.id);
  const [judged] = await verdicts(system.tracker(WEST).url, [wanted.token], { level: "global", waitMs: 0 });
  assert.equal(judged?.verdict, "durable");
  assert.equal(client.published.length, 1);
  // What has not left the region by now is lost with the others.
  const [everywhere] = await verdicts(system.tracker(WEST).url, [last.token], { level: "global" });
  assert.equal(everywhere?.verdict, "durable");
}

const idsOf = (published: readonly StreamedEvent[]): string[] => published.map(({ data }) => data.id).sort();

describe("the events of a failover", () => {
  test("are the same on every surviving tracker, in streams that go on, and for a client that moves to another", async () => {
    await using system = await System.start({ env: NO_STALLS });
    await createTable(system, EAST);
    const kept = await commitKeys(system.gateway(EAST).url, "kept", 5);
    const west = await SseClient.open(`${eventsUrl(system, WEST)}?after=0.0`);
    await using europe = await SseClient.open(`${eventsUrl(system, EUROPE)}?after=0.0`);
    for (const client of [west, europe])
      await client.until("the first epoch is told", () => ofType(client, "epoch.started").length === 1);
    await checkDurable(system);
    const lost = await commitLost(system);
    await failOver(system);
    for (const client of [west, europe])
      await client.until("all are told", () => ofType(client, "transaction.lost").length >= LOST);
    assert.deepEqual(idsOf(ofType(west, "transaction.lost")), lost.map(({ id }) => id).sort());
    assert.deepEqual(west.published, europe.published);
    assert.equal(ofType(west, "epoch.started").length, 2);
    for (const { data } of ofType(west, "transaction.lost"))
      assert.equal(data.metadata?.["order"], String(lost.findIndex(({ id }) => id === data.id)));
    const positions = west.published.map(({ id }) => (id ?? "").split(".").map(Number));
    assert.deepEqual(
      positions,
      positions.toSorted(([a = 0, b = 0], [c = 0, d = 0]) => a - c || b - d),
    );
    assert.ok(kept.every(({ body }) => !idsOf(ofType(west, "transaction.lost")).includes(body.id)));
    // Pages say the same, and one goes on at the other tracker with the ids of the first.
    const [inWest, inEurope] = [await pageOf(system, WEST), await pageOf(system, EUROPE)];
    assert.deepEqual(inWest.events, inEurope.events);
    assert.deepEqual(
      inWest.events.map(({ id }) => id),
      west.ids,
    );
    const half = west.ids[10] ?? "";
    await system.tracker(WEST).kill();
    await west.ended();
    await using moved = await SseClient.open(eventsUrl(system, EUROPE), { "last-event-id": half });
    await moved.until("the rest is told", () => moved.ids.length === west.ids.length - 11);
    assert.deepEqual([...west.ids.slice(0, 11), ...moved.ids], europe.ids);
  });

  test("survive kill -9 of every tracker between the verdict and the recording, and come once", async () => {
    await using system = await System.start();
    await createTable(system, EAST);
    // While `hold` has a row nothing can be recorded of a loss: the trackers have their verdicts and go on trying.
    for (const sql of [
      "CREATE TABLE hold (n int)",
      "GRANT SELECT ON hold TO PUBLIC",
      "INSERT INTO hold VALUES (1)",
      `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
       BEGIN IF EXISTS (SELECT FROM public.hold) THEN RAISE EXCEPTION 'held up by the test'; END IF; RETURN NEW; END $$`,
    ])
      await system.cluster.query(EAST, sql);
    await eventually(
      "the first epoch is recorded",
      async () => (await pageOf(system, EAST)).events.length > 0,
    );
    await system.cluster.query(
      EAST,
      `CREATE TRIGGER hold BEFORE INSERT ON highwater.event FOR EACH ROW
       WHEN (NEW.type = 'transaction.lost') EXECUTE FUNCTION refuse()`,
    );
    const held = await commitKeys(system.gateway(EAST).url, "kept", 1);
    await verdicts(
      system.tracker(WEST).url,
      held.map(({ token }) => token),
      { level: "global" },
    );
    const lost = await commitLost(system);
    const node = await failOver(system);
    for (const region of [WEST, EUROPE]) {
      const judged = await verdicts(
        system.tracker(region).url,
        lost.map(({ token }) => token),
      );
      assert.ok(
        judged.every(({ verdict }) => verdict === "lost"),
        JSON.stringify(judged),
      );
    }
    assert.deepEqual(
      await system.cluster.query(node, "SELECT FROM highwater.event WHERE type = 'transaction.lost'"),
      [],
    );
    await Promise.all([system.tracker(WEST).kill(), system.tracker(EUROPE).kill()]);
    await system.cluster.query(node, "DELETE FROM hold");
    for (const region of [WEST, EUROPE]) await system.restartService(region, "tracker");
    for (const region of [WEST, EUROPE]) {
      await using client = await SseClient.open(
        `${eventsUrl(system, region)}?after=0.0&types=transaction.lost`,
      );
      await client.until("all are told", () => client.published.length >= LOST);
      assert.deepEqual(idsOf(ofType(client, "transaction.lost")), lost.map(({ id }) => id).sort());
    }
    // Killed once more, behind the recording: nothing comes twice.
    for (const region of [WEST, EUROPE]) {
      await system.tracker(region).kill();
      await system.restartService(region, "tracker");
    }
    const after = await commit(system.gateway(WEST).url, [
      { sql: "INSERT INTO kv (key, value) VALUES ('after', 1)" },
    ]);
    const [judged] = await verdicts(system.tracker(WEST).url, [after.token]);
    assert.equal(judged?.verdict, "durable");
    const { events } = await pageOf(system, WEST, "&types=transaction.lost");
    assert.equal(events.length, LOST);
  });
});
