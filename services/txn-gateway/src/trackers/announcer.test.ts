import assert from "node:assert/strict";
import { test } from "node:test";
import { type EpochId, type Offset } from "@highwater/protocol";
import { EPOCH_A, FakeClock, MemoryLog, newId, ScriptedTransport, settle } from "../../test/support/fakes.ts";
import { Announcer } from "./announcer.ts";

const NEAR = "http://near:1";
const FAR = "http://far:2";
const attempt = (owner = 0n) => ({ id: newId(), primaryEpoch: { epoch: EPOCH_A as EpochId }, owner });
const LEVEL = { level: "region", endsWithinMs: 63_000 };

function makeAnnouncer(
  options: { trackers?: string[]; maxPending?: number; maxContentsBytes?: number } = {},
) {
  const clock = new FakeClock();
  const transport = new ScriptedTransport();
  const log = new MemoryLog();
  const announcer = new Announcer(
    { clock, transport, log, rng: { random: () => 0.5 } },
    {
      gateway: "g1",
      region: "r",
      trackers: options.trackers ?? [NEAR],
      maxPending: options.maxPending ?? 1_000,
      maxContentsBytes: options.maxContentsBytes ?? 1_000_000,
      onContact: () => undefined,
      parentOf: () => null,
    },
  );
  return { clock, transport, log, announcer };
}

const kinds = (sent: { body: { announcements: { kind: string }[] } } | undefined): string[] =>
  (sent?.body.announcements ?? []).map(({ kind }) => kind);

test("one batch is in flight; what comes meanwhile goes in the next, in order", async () => {
  const { announcer, transport, clock } = makeAnnouncer();
  const first = announcer.announce(attempt(), { ...LEVEL, metadata: { order: "7" } });
  await settle();
  assert.deepEqual(transport.sent[0]?.body.gateway, "g1");
  assert.deepEqual(kinds(transport.sent[0]), ["intent"]);
  first.position(5n as Offset);
  const second = announcer.announce(attempt(), LEVEL);
  second.withdraw();
  await settle();
  assert.equal(transport.sent.length, 1);
  assert.equal(first.reached, false);
  transport.sent[0]?.answer(204);
  await clock.advance(10);
  assert.equal(first.reached, true);
  assert.deepEqual(kinds(transport.sent[1]), ["position", "intent", "withdrawn"]);
  assert.equal(transport.sent[1]?.body.announcements[0]?.offset, "5");
  transport.sent[1]?.answer(204);
  await clock.advance(10);
  assert.equal(announcer.pending, 0);
  assert.equal(transport.sent.length, 2);
});

test("announcements of one tick share a batch", async () => {
  const { announcer, transport } = makeAnnouncer();
  for (let count = 0; count < 3; count++) announcer.announce(attempt(), LEVEL);
  await settle();
  assert.deepEqual(kinds(transport.sent[0]), ["intent", "intent", "intent"]);
});

test("after a large batch the queue rests, unless the gateway ends; a small one hardly delays the next", async () => {
  for (const [count, restMs] of [
    [31, 2],
    [32, 5],
  ] as const) {
    const { announcer, transport, clock } = makeAnnouncer();
    for (let each = 0; each < count; each++) announcer.announce(attempt(), LEVEL);
    await settle();
    const last = announcer.announce(attempt(), LEVEL);
    transport.sent[0]?.answer(204);
    await clock.advance(restMs - 1);
    assert.equal(transport.sent.length, 1);
    await clock.advance(1);
    assert.equal(transport.sent.length, 2);
    for (let each = 0; each < count; each++) last.position(5n as Offset);
    transport.sent[1]?.answer(204);
    await clock.advance(restMs);
    last.withdraw();
    transport.sent[2]?.answer(204);
    await settle();
    const flushed = announcer.flush(1_000);
    await settle();
    transport.sent[3]?.answer(204);
    await settle();
    assert.equal(await flushed, 0);
  }
});

test("reports of answers go together, by owner, until they are sent; none goes before its contents", async () => {
  const { announcer, transport, clock } = makeAnnouncer();
  const all = [7n, 7n, 8n, 7n].map((owner) => announcer.announce(attempt(owner), LEVEL));
  await settle();
  const [first, second, third, fourth] = all;
  for (const each of [first, second, third]) each?.answered("yes");
  void fourth?.contents("5", "sealed");
  fourth?.answered("yes");
  first?.answered("no");
  transport.sent[0]?.answer(204);
  await clock.advance(10);
  const sent = transport.sent[1]?.body.announcements as unknown as Record<string, unknown>[];
  const ids = (transport.sent[0]?.body.announcements ?? []).map(({ id }) => id);
  const said = sent.map(({ kind, id, also, answered }) => [
    ...[kind, answered, ids.indexOf(id as string)],
    (also as string[] | undefined)?.map((each) => ids.indexOf(each)),
  ]);
  assert.deepEqual(said, [
    ["answered", "yes", 0, [1]],
    ["answered", "yes", 2, []],
    ["contents", undefined, 3, undefined],
    ["answered", "yes", 3, []],
    ["answered", "no", 0, []],
  ]);
  second?.answered("yes");
  transport.sent[1]?.answer(204);
  await clock.advance(10);
  assert.equal(transport.sent[2]?.body.announcements.length, 1);
});

test("a batch is sent again, whole, until it is acknowledged; the pauses grow", async () => {
  const { announcer, transport, clock } = makeAnnouncer();
  announcer.announce(attempt(), LEVEL).position(1n as Offset);
  const times: number[] = [];
  for (let attempt = 0; attempt < 6; attempt++) {
    await settle();
    const sent = transport.sent.at(-1);
    assert.equal(transport.sent.length, attempt + 1);
    times.push(clock.monotonicMs());
    if (attempt % 2 === 0) sent?.fail();
    else sent?.answer(503);
    while (transport.sent.length === attempt + 1) await clock.advance(10);
  }
  const pauses = times.slice(1).map((time, index) => time - (times[index] ?? 0));
  assert.deepEqual(
    pauses,
    [...pauses].sort((a, b) => a - b),
  );
  assert.ok((pauses.at(-1) ?? 0) > 4 * (pauses[0] ?? 0), pauses.join());
  for (const sent of transport.sent) assert.deepEqual(kinds(sent), ["intent", "position"]);
  transport.sent.at(-1)?.answer(204);
  await clock.advance(10);
  assert.equal(announcer.pending, 0);
});

test("every tracker gets everything; one acknowledgement is enough for `announced`", async () => {
  const { announcer, transport, clock } = makeAnnouncer({ trackers: [NEAR, FAR] });
  const announced = announcer.announce(attempt(), LEVEL);
  await settle();
  transport.to(NEAR)[0]?.fail();
  transport.to(FAR)[0]?.answer(204);
  await clock.advance(1);
  assert.equal(announced.reached, true);
  assert.equal(announcer.pending, 0);
  assert.deepEqual(announcer.queueLengths(), [
    { tracker: "near:1", length: 1 },
    { tracker: "far:2", length: 0 },
  ]);
  await clock.advance(1_000);
  transport.to(NEAR)[1]?.answer(204);
  await clock.advance(10);
  assert.equal(announcer.queueLengths()[0]?.length, 0);
});

test("however many are not acknowledged, nothing is dropped", async () => {
  const { announcer, transport, clock } = makeAnnouncer({ maxPending: 10 });
  for (let count = 0; count < 100; count++) announcer.announce(attempt(), LEVEL);
  assert.equal(announcer.pending, 100);
  await settle();
  assert.equal(transport.sent[0]?.body.announcements.length, 100);
  transport.sent[0].answer(204);
  await clock.advance(1);
  assert.equal(announcer.pending, 0);
});

test("the owner goes with the intent and the position; the longest delay goes with its level, the region with the batch", async () => {
  const { announcer, transport } = makeAnnouncer();
  announcer.announce(attempt(-5n), { ...LEVEL, maxDelayMs: 2_000 }).position(5n as Offset);
  announcer.announce(attempt(), LEVEL).position(6n as Offset);
  await settle();
  const [sent] = transport.sent;
  assert.equal((sent?.body as { region?: string }).region, "r");
  const announcements = (sent?.body.announcements ?? []) as { id: string; by?: string }[];
  const said = announcements.map(({ id: _id, by: _by, ...rest }) => rest);
  const names = announcements.flatMap(({ by }) => by ?? []);
  assert.equal(new Set(names).size, 2, "each attempt has a name of its own");
  const epoch = EPOCH_A;
  const { endsWithinMs } = LEVEL;
  assert.deepEqual(said, [
    { kind: "intent", epoch, endsWithinMs, owner: "-5", maxDelayMs: 2_000, level: "region" },
    { kind: "position", epoch, owner: "-5", offset: "5" },
    { kind: "intent", epoch, endsWithinMs },
    { kind: "position", epoch, offset: "6" },
  ]);
});

test("a tracker that stays away is spared what another one holds, and nothing else", async () => {
  const { announcer, transport, clock } = makeAnnouncer({ trackers: [NEAR, FAR], maxPending: 10 });
  for (let count = 0; count < 100; count++) {
    announcer.announce(attempt(), LEVEL);
    await settle();
    transport.to(FAR).at(-1)?.answer(204);
    await clock.advance(3);
  }
  const [near] = announcer.queueLengths();
  assert.ok((near?.length ?? 0) <= 40, String(near?.length));
  assert.equal(announcer.pending, 0);

  const alone = makeAnnouncer({ trackers: [NEAR, FAR], maxPending: 10 });
  for (let count = 0; count < 100; count++) alone.announcer.announce(attempt(), LEVEL);
  assert.deepEqual(
    alone.announcer.queueLengths().map(({ length }) => length),
    [100, 100],
  );
});

test("a batch that is too large for the tracker is sent in smaller ones", async () => {
  const { announcer, transport, clock } = makeAnnouncer({ maxPending: 100_000 });
  const metadata = Object.fromEntries(
    Array.from({ length: 16 }, (_, n) => [`k${String(n)}`, "x".repeat(250)]),
  );
  for (let count = 0; count < 300; count++) announcer.announce(attempt(), { ...LEVEL, metadata });
  await settle();
  const first = transport.sent[0]?.body.announcements.length ?? 0;
  assert.ok(first > 1 && first < 300, String(first));
  transport.sent[0]?.answer(413);
  await clock.advance(1_000);
  const second = transport.sent[1]?.body.announcements.length ?? 0;
  assert.ok(second < first && second > 0, String(second));
});

test("flushing at the end tries a held-up tracker again at once, and is bounded", async () => {
  const { announcer, transport, clock } = makeAnnouncer();
  announcer.announce(attempt(), LEVEL);
  for (let attempt = 0; attempt < 8; attempt++) {
    await settle();
    transport.sent.at(-1)?.fail();
    await clock.advance(attempt < 7 ? 10_000 : 0);
  }
  const before = transport.sent.length;
  let left: number | undefined;
  void announcer.flush(2_000).then((count) => (left = count));
  await settle();
  assert.equal(transport.sent.length, before + 1, "without waiting for the backoff");
  await clock.advance(2_000);
  assert.equal(left, 1);
  transport.sent.at(-1)?.answer(204);
  await settle();
  assert.equal(await announcer.flush(2_000), 0);
  announcer.stop();
});

test("without trackers nothing is kept", () => {
  const { announcer } = makeAnnouncer({ trackers: [], maxPending: 1 });
  for (let count = 0; count < 5; count++) announcer.announce(attempt(), LEVEL).position(1n as Offset);
  assert.equal(announcer.pending, 0);
});
