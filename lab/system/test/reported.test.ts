// Goal: trackers publish an event for a stalled level, a late transaction, and a promise that a
// failover broke. Method: the whole product. A region stops answering, and a node is promoted that
// lacks transactions reported as durable.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { DurabilityEvent, DurabilityEventType, EventPage } from "@highwater/protocol";
import { System } from "../src/index.ts";
import {
  commit,
  commitKeys,
  createTable,
  epochAfter,
  epochOf,
  eventually,
  put,
  verdict,
} from "../src/testing.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
const PAGE = 8_192n;

async function eventsOf(tracker: string, ...types: DurabilityEventType[]): Promise<DurabilityEvent[]> {
  const url = `${tracker}/v1/durability/events?format=json&after=0.0&limit=1000&types=${types.join(",")}`;
  const response = await fetch(url);
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return [...(JSON.parse(text) as EventPage).events] as DurabilityEvent[];
}

/**
 * The replica's disk may have had part of a record, up to the end of a page. A server that was
 * restarted does not say so, and no transaction is in it.
 */
function isPartOfRecord(from: bigint, to: bigint): boolean {
  return to % PAGE === 0n && to - from < 4n * PAGE;
}

test("a stalled level and a late transaction are reported, and both recover when the region is back", async () => {
  await using system = await System.start({ env: { TRACKER_STALL_AFTER_MS: "500" } });
  const [gateway, tracker] = [system.gateway(EAST).url, system.tracker(EAST).url];
  await createTable(system, EAST);
  const levelEvents = async (type: DurabilityEventType): Promise<readonly { level: string }[]> =>
    (await eventsOf(tracker, type)).flatMap(({ data }) =>
      "level" in data ? [data as { level: string }] : [],
    );
  const globally = async (type: DurabilityEventType): Promise<number> =>
    (await levelEvents(type)).filter(({ level }) => level === "global").length;
  // On a busy machine any level may have stalled for half a second.
  const stalledBefore = await globally("durability.stalled");
  await system.cluster.isolate(EUROPE);
  const metadata = { order: "17" };
  const late = await commit(gateway, [put("late")], { maxDelayMs: 500, level: "global", metadata });
  await commit(gateway, [put("in time")], { maxDelayMs: 600_000, level: "region" });
  await eventually(
    "the stall is reported",
    async () => (await globally("durability.stalled")) > stalledBefore,
  );
  const delayed = await eventually("the delay is reported", async () => {
    const found = await eventsOf(tracker, "transaction.delayed");
    return found.length > 0 && found;
  });
  const answered = delayed.map(({ data }) => data as { id: string; metadata?: unknown; verdicts: object });
  assert.deepEqual(
    answered.map(({ id, metadata: words }) => [id, words]),
    [[late.id, metadata]],
    "it alone, and once by all trackers",
  );
  const recoveredBefore = await globally("durability.recovered");
  await system.cluster.healAll();
  await eventually(
    "the end of the stall is reported",
    async () => (await globally("durability.recovered")) > recoveredBefore,
  );
  assert.equal((await verdict(tracker, late.token, { level: "global" })).verdict, "durable");
});

test("a promise that a promotion has broken is reported with its range, and so is each of its transactions", async () => {
  await using system = await System.start({ env: { TRACKER_PUBLISH_PATIENCE_MS: "300" } });
  const { cluster } = system;
  await createTable(system, EAST);
  await commit(system.gateway(EAST).url, [put("early")], { ack: "durable", level: "global" });
  await cluster.waitForStreaming();
  await cluster.isolate(EUROPE);
  const promised = await commitKeys(system.gateway(EAST).url, "promised", 5);
  for (const { token } of promised)
    assert.equal((await verdict(system.tracker(WEST).url, token, { level: "region" })).verdict, "durable");
  const before = await epochOf(system.tracker(EAST).url);
  await system.killRegion(EAST);
  await cluster.kill(WEST);
  // Otherwise, bytes under way would arrive when the link is healed.
  await cluster.kill(EUROPE);
  await cluster.start(EUROPE);
  // A server that is promoted within the second of its start, before it has asked for a stream,
  // does not say where it left the log.
  await eventually("the restarted replica has asked for a stream", async () => {
    const [row] = await cluster.query(EUROPE, "SELECT pg_last_wal_receive_lsn() AS received");
    return row?.["received"] != null;
  });
  await cluster.healAll();
  await cluster.promote(EUROPE);
  const tracker = system.tracker(WEST).url;
  await epochAfter(tracker, before);
  for (const { token } of promised)
    assert.equal((await verdict(tracker, token, { level: "region" })).verdict, "broken");
  // Each tracker reports what it has promised, which may differ between trackers.
  const ranges = await eventually("the range is reported", async () => {
    const found = (await eventsOf(tracker, "promise.broken")).map(
      ({ data }) => data as Record<"level" | "epoch" | "from" | "to", string>,
    );
    const covers = ({ from, to }: (typeof found)[number]): boolean =>
      promised.every(({ body }) => {
        const offset = BigInt(body.position.offset);
        return BigInt(from) < offset && offset <= BigInt(to);
      });
    return found.some(covers) && found;
  });
  for (const { level, epoch, from, to } of ranges) {
    assert.equal(epoch, before);
    if (level !== "region") assert.ok(isPartOfRecord(BigInt(from), BigInt(to)), `${level}: ${from}, ${to}`);
  }
  const single = await eventually("each of them is reported", async () => {
    const found = await eventsOf(tracker, "transaction.broken");
    return found.length >= promised.length && found;
  });
  assert.deepEqual(
    single.map(({ data }) => (data as { id: string }).id).sort(),
    promised.map(({ body }) => body.id).sort(),
  );
});
