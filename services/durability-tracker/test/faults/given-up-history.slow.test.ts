// Goal: a consumer that has read events of an abandoned history misses no event of the history that is kept.
// Method: the whole product; two primaries side by side, which number their epochs and events alike; ids are opaque here, as they
// are to a consumer.
import assert from "node:assert/strict";
import { test } from "node:test";
import { System } from "@highwater/lab-system";
import { commitKeys, createTable, epochAfter, eventually, marksOf } from "@highwater/lab-system/testing";
import { type EventPage } from "@highwater/protocol";
import { SseClient } from "../../src/events/sse-client.ts";

const [EAST, WEST] = ["us-east", "us-west"] as const;

const eventsUrl = (system: System, region: string): string =>
  `${system.tracker(region).url}/v1/durability/events`;

async function pageOf(system: System, region: string, after: string): Promise<EventPage> {
  return eventually("the tracker reads its store", async () => {
    const response = await fetch(`${eventsUrl(system, region)}?format=json&limit=1000&after=${after}`);
    if (response.status === 503) return undefined;
    assert.equal(response.status, 200);
    return (await response.json()) as EventPage;
  });
}

const epochsIn = ({ events }: Pick<EventPage, "events">): unknown[] =>
  events.filter(({ type }) => type === "epoch.started").map(({ data }) => (data as { epoch: string }).epoch);

test("a reader of the side that is given up gets every event of the kept one, by page and by stream", async () => {
  await using system = await System.start();
  const { cluster } = system;
  await createTable(system, EAST);
  const [east, west] = [system.tracker(EAST).url, system.tracker(WEST).url];
  const first = (await marksOf(east)).marks?.epoch ?? "";
  await using live = await SseClient.open(`${eventsUrl(system, EAST)}?after=0.0`);
  await cluster.isolate(EAST);
  await cluster.promote(WEST);
  const kept = (await epochAfter(west, first)).marks?.epoch ?? "";
  await cluster.crashBackend(EAST);
  const wrong = (await epochAfter(east, first)).marks;
  assert.equal((await marksOf(west)).marks?.seq, wrong?.seq, "both sides have numbered it alike");
  const read = await eventually("the wrong side has told of its epoch", async () => {
    const page = await pageOf(system, EAST, "0.0");
    return epochsIn(page).includes(wrong?.epoch) ? page : undefined;
  });
  await live.until("and to the stream", () => live.ids.includes(read.events.at(-1)?.id ?? ""));
  const written = await commitKeys(system.gateway(WEST).url, "west", 3);
  assert.equal(written.length, 3);
  await cluster.healAll();
  await eventually(
    "the wrong side follows the kept one",
    async () => (await marksOf(east)).marks?.epoch === kept,
  );
  const all = await eventually("the kept side has told of its epoch", async () => {
    const page = await pageOf(system, WEST, "0.0");
    return epochsIn(page).includes(kept) ? page : undefined;
  });
  const before = new Set(read.events.map(({ id }) => id));
  const known = new Set(before);
  const onwards = await pageOf(system, EAST, read.next);
  for (const { id } of onwards.events) known.add(id);
  assert.deepEqual(
    all.events.filter(({ id }) => !known.has(id)),
    [],
    `missed without a word: ${JSON.stringify({ missed: onwards.missed, next: read.next })}`,
  );
  assert.ok(epochsIn(onwards).includes(kept));
  assert.equal(onwards.missed, false);
  await live.until("the stream has told all of it", () =>
    all.events.every(({ id }) => live.ids.includes(id)),
  );
  assert.ok(live.published.some(({ data }) => (data as { data: { epoch?: string } }).data.epoch === kept));
  // Who comes back with the last id, at any tracker, goes on from there.
  await using resumed = await SseClient.open(eventsUrl(system, WEST), { "last-event-id": read.next });
  await resumed.until("all is told", () =>
    all.events.every(({ id }) => resumed.ids.includes(id) || before.has(id)),
  );
  assert.ok(resumed.published.some(({ data }) => (data as { data: { epoch?: string } }).data.epoch === kept));
});
