// Streams and pages of events over real HTTP, from two trackers that share one store; the store is in memory, and fails and
// fails over as the tests want. The behaviour of real servers is in test/integration/events.slow.test.ts.
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect as connectSocket } from "node:net";
import { describe, it } from "node:test";
import { type EpochId, type Offset } from "@highwater/protocol";
import { MemoryEventLog } from "@highwater/store/memory";
import { EPOCH, NEXT, published, record, stored, Tracker } from "../../test/support/events.ts";
import { type SseClient } from "./sse-client.ts";

describe("a stream", () => {
  it("sends every tracker's listeners the same, under the same ids, whichever tracker has recorded it", async () => {
    const store = new MemoryEventLog(EPOCH);
    const [one, two] = [await Tracker.start(store), await Tracker.start(store)];
    await using first = await one.listen();
    await using second = await two.listen();
    await first.begun();
    await second.begun();
    const losses = [published(), published({ verdicts: { disk: "durable", region: "broken" } }), published()];
    for (const each of losses) one.events.onVerdict(each);
    // The other tracker comes to the same verdicts.
    for (const each of losses.toReversed()) two.events.onVerdict(each);
    const mine = published({ owner: 7n, retriedIn: NEXT });
    two.events.onDelayed({ ...mine, settledAt: "" });
    await first.until("all are told", () => first.published.length === 4);
    await second.until("all are told", () => second.published.length === 4);
    assert.deepEqual(first.published, second.published);
    assert.deepEqual(first.ids, ["1.1.e1000000", "1.2.e1000000", "1.3.e1000000", "1.4.e1000000"]);
    assert.deepEqual(
      new Set(first.published.map(({ event }) => event)),
      new Set(["transaction.lost", "transaction.broken", "transaction.delayed"]),
    );
    const delayed = first.published.find(({ event }) => event === "transaction.delayed")?.data as Record<
      string,
      unknown
    >;
    const { id, attempt, verdicts, rule, metadata } = mine;
    assert.deepEqual(delayed["data"], { id, attempt, verdicts, rule, retriedIn: NEXT, metadata });
    assert.equal(delayed["id"], "1.4.e1000000");
    assert.ok(!Number.isNaN(Date.parse(String(delayed["at"]))));
  });

  it("begins now, or behind the last id, or with the oldest, and misses nothing in between", async () => {
    const store = new MemoryEventLog(EPOCH);
    const tracker = await Tracker.start(store);
    for (let at = 0; at < 700; at++) store.append(stored(7n));
    await using now = await tracker.listen();
    await now.begun();
    assert.deepEqual(now.received, [
      { id: "1.700.e1000000", event: "begin", data: { after: "1.700.e1000000", missed: false } },
    ]);
    await using all = await tracker.listen("?after=0.0");
    await all.until("all are told", () => all.published.length === 700);
    store.append(stored(7n));
    await now.until("the next is told", () => now.published.length === 1);
    const resumed = await tracker.listen("?after=0.0", { "last-event-id": "1.350.e1000000" });
    await resumed.until("the rest is told", () => resumed.published.length === 351);
    assert.deepEqual([resumed.ids[0], resumed.lastId], ["1.351.e1000000", "1.701.e1000000"]);
    // Away for a while: missed events come first, then new ones.
    await resumed[Symbol.asyncDispose]();
    for (let at = 0; at < 300; at++) store.append(stored(7n));
    await using back = await tracker.listen("", { "last-event-id": resumed.lastId });
    store.append(stored(7n));
    await back.until("all are told", () => back.published.length === 301);
    assert.deepEqual(
      back.ids,
      Array.from({ length: 301 }, (_, at) => `1.${String(702 + at)}.e1000000`),
    );
    await all.until("everything was told once", () => all.published.length === 1_002);
    assert.equal(new Set(all.ids).size, 1_002);
  });

  it("misses nothing and repeats nothing when it joins in the midst of a storm", async () => {
    const store = new MemoryEventLog(EPOCH);
    const tracker = await Tracker.start(store);
    let isOver = false;
    const storm = (async () => {
      for (let at = 0; at < 400; at++) {
        for (let of = 0; of < 5; of++) store.append(stored(7n));
        if (at % 20 === 0) tracker.events.onVerdict(published());
        await new Promise((resolve) => setImmediate(resolve));
      }
      isOver = true;
    })();
    const clients: SseClient[] = [];
    while (!isOver) {
      clients.push(await tracker.listen("?after=0.0"));
      await clients.at(-1)?.begun();
    }
    await storm;
    assert.ok(clients.length > 3);
    await clients[0]?.until("all are told", () => clients[0]?.published.length === 2_020);
    for (const client of clients) {
      await client.until("all are told", () => client.published.length >= 2_020);
      assert.deepEqual(
        client.ids,
        store.events.map(({ n }) => `1.${String(n)}.e1000000`),
      );
      await client[Symbol.asyncDispose]();
    }
  });

  it("sends each key its own events and everyone's, and only the types that were asked for", async () => {
    const store = new MemoryEventLog(EPOCH);
    const tracker = await Tracker.start(store);
    await using seven = await tracker.listen("?after=0.0");
    await using eight = await tracker.listen("?after=0.0", { authorization: "Bearer eight" });
    await using service = await tracker.listen("?after=0.0", { authorization: "Bearer service" });
    await using epochs = await tracker.listen("?after=0.0&types=epoch.started,promise.broken");
    for (const client of [seven, eight, service, epochs]) await client.begun();
    for (const event of [
      stored(7n),
      stored(-8n),
      stored(0n),
      stored(7n, "transaction.durable"),
      stored(null, "epoch.started"),
    ])
      store.append(event);
    await service.until("all are told", () => service.lastId === "1.5.e1000000");
    await epochs.until("its own", () => epochs.published.length === 1);
    await seven.until("its own", () => seven.published.length === 2);
    await eight.until("its own", () => eight.published.length === 2);
    assert.deepEqual(
      [seven.ids, eight.ids, service.ids, epochs.ids],
      [
        ["1.1.e1000000", "1.5.e1000000"],
        ["1.2.e1000000", "1.5.e1000000"],
        ["1.1.e1000000", "1.2.e1000000", "1.3.e1000000", "1.5.e1000000"],
        ["1.5.e1000000"],
      ],
    );
  });

  it("goes on by itself through a failover and a time without a primary", async () => {
    const store = new MemoryEventLog(EPOCH);
    const tracker = await Tracker.start(store);
    store.append(stored(7n));
    await using early = await tracker.listen("?after=0.0");
    await early.until("the first is told", () => early.published.length === 1);
    tracker.primaryEpochOf(null);
    await using late = await tracker.listen("?after=0.0");
    tracker.events.onVerdict(published());
    store.begin(NEXT);
    tracker.primaryEpochOf(NEXT);
    for (const client of [early, late]) {
      await client.until("both are told", () => client.published.length === 2);
      assert.deepEqual(client.ids, ["1.1.e1000000", "2.1.e2000000"]);
    }
  });

  it("says so when what was asked for may have been dropped", async () => {
    const store = new MemoryEventLog(EPOCH);
    const tracker = await Tracker.start(store);
    for (let at = 0; at < 5; at++) store.append(stored(7n));
    store.nowMs = 1_000;
    store.drop(500);
    store.append(stored(7n));
    const missedOf = async (after: string): Promise<unknown> => {
      await using client = await tracker.listen(`?after=${after}`);
      await client.until("the last is told", () => client.published.length === 1);
      return client.received[0]?.data;
    };
    assert.deepEqual(await missedOf("1.4.e1000000"), { after: "1.4.e1000000", missed: true });
    assert.deepEqual(await missedOf("1.5.e1000000"), { after: "1.5.e1000000", missed: false });
    assert.deepEqual(await missedOf("0.0"), { after: "0.0", missed: false });
  });

  it("ends for a client that does not read, and for all when the tracker stops", async () => {
    const store = new MemoryEventLog(EPOCH);
    // Long enough for the one that reads, in a process that does nothing for seconds.
    const tracker = await Tracker.start(store, { drainMs: 4_000 });
    const { hostname, port } = new URL(tracker.url);
    const deaf = connectSocket(Number(port), hostname);
    deaf.on("error", () => undefined);
    deaf.write(
      "GET /v1/durability/events?after=0.0 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer seven\r\n\r\n",
    );
    await once(deaf, "readable");
    deaf.pause();
    await using other = await tracker.listen("?after=0.0");
    await other.begun();
    assert.equal(tracker.events.streams, 2);
    const big = { text: "x".repeat(100_000) };
    // More than fits between the two sockets, so that the rest waits here.
    for (let at = 0; at < 300; at++) store.append({ ...stored(7n), data: big });
    while (tracker.events.streams > 1) await new Promise((resolve) => setTimeout(resolve, 5));
    deaf.destroy();
    await other.until("the one that reads is told all", () => other.published.length === store.events.length);
    await tracker.events.close();
    await other.ended();
    assert.equal(tracker.events.streams, 0);
  });

  it("is kept alive, and its end is noticed", async () => {
    const tracker = await Tracker.start(new MemoryEventLog(EPOCH), { heartbeatMs: 20 });
    const client = await tracker.listen();
    await client.until("it has heard of life", () => client.blocks > 4);
    await client[Symbol.asyncDispose]();
    while (tracker.events.streams > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  });
});

describe("durable transactions", () => {
  const became = (order: string, owner = 7n) => ({
    ...{ id: published().id, attempt: EPOCH, owner, metadata: { order, shop: "a" } },
    origin: { epoch: EPOCH, offset: 7n as Offset },
  });

  it("are sent live to those who asked, by level, owner and metadata, without an id", async () => {
    const tracker = await Tracker.start(new MemoryEventLog(EPOCH));
    assert.deepEqual(tracker.wishes, []);
    const all = await tracker.listen("?durable=true");
    const one = await tracker.listen("?durable=true&level=region&metadata.order=2&metadata.shop=a");
    await using none = await tracker.listen();
    for (const client of [all, one, none]) await client.begun();
    while (tracker.wishes.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    assert.deepEqual(tracker.wishes, [true]);
    tracker.events.onDurable("disk", [became("1")]);
    const items = [became("1"), became("2"), became("2", -8n)];
    tracker.events.onDurable("region", items);
    tracker.events.onVerdict(published());
    for (const client of [all, one, none])
      await client.until("the loss is told", () =>
        client.published.some(({ event }) => event === "transaction.lost"),
      );
    const durables = ({ published }: SseClient) =>
      published.filter(({ event }) => event === "transaction.durable");
    const idsOf = (client: SseClient) =>
      durables(client).map(({ data }) => (data as { data: { id: string } }).data.id);
    assert.deepEqual(
      [idsOf(all), idsOf(one), idsOf(none)],
      [[items[0]?.id, items[1]?.id], [items[1]?.id], []],
    );
    assert.ok(durables(all).every(({ id }) => id === null));
    assert.deepEqual((durables(one)[0]?.data as { data: unknown }).data, {
      ...{ id: items[1]?.id, attempt: EPOCH, verdicts: { region: "durable" }, rule: "R1 mark" },
      position: { epoch: EPOCH, offset: "7" },
      metadata: { order: "2", shop: "a" },
    });
    await all[Symbol.asyncDispose]();
    await one[Symbol.asyncDispose]();
    while (tracker.wishes.length === 1) await new Promise((resolve) => setTimeout(resolve, 1));
    assert.deepEqual(tracker.wishes, [true, false]);
  });

  it("are recorded where another listener wants them to be, and not sent twice", async () => {
    const store = new MemoryEventLog(EPOCH);
    const tracker = await Tracker.start(store);
    tracker.events.recordDurable((owner, metadata) => owner === 7n && metadata?.["order"] === "2");
    assert.deepEqual(tracker.wishes, [true]);
    const client = await tracker.listen("?durable=true&after=0.0");
    await client.begun();
    tracker.events.onDurable("region", [became("1"), became("2"), became("2", 8n)]);
    tracker.events.onVerdict(published());
    await client.until("the loss is told", () =>
      client.published.some(({ event }) => event === "transaction.lost"),
    );
    assert.deepEqual(
      store.events.map(({ type }) => type),
      ["transaction.durable", "transaction.lost"],
    );
    assert.match(store.events[0]?.key ?? "", /^durable\/[0-9a-f-]{36}\/[0-9a-f-]{36}\/7\/region$/);
    assert.equal(client.published.filter(({ event }) => event === "transaction.durable").length, 2);
    await client[Symbol.asyncDispose]();
    tracker.events.recordDurable(null);
    while (tracker.wishes.at(-1) === true) await new Promise((resolve) => setTimeout(resolve, 1));
  });
});

describe("a page", () => {
  it("is followed by the next until there is no more", async () => {
    const store = new MemoryEventLog(EPOCH);
    const tracker = await Tracker.start(store);
    for (let at = 0; at < 25; at++) store.append(stored(at % 2 === 0 ? 7n : 8n));
    const ids: unknown[] = [];
    let next = "0.0";
    for (let more = true; more;) {
      const { status, body } = await tracker.get(`?format=json&limit=5&after=${next}`);
      assert.equal(status, 200);
      ids.push(...(body["events"] as { id: string }[]).map(({ id }) => id));
      next = String(body["next"]);
      more = body["more"] === true;
    }
    assert.deepEqual(
      ids,
      Array.from({ length: 13 }, (_, at) => `1.${String(2 * at + 1)}.e1000000`),
    );
    assert.equal(next, "1.25.e1000000");
    const { body } = await tracker.get(`?format=json&after=${next}`);
    assert.deepEqual(body, { events: [], next, more: false, missed: false });
  });

  it("is refused without a primary, and to those who may not read", async () => {
    const tracker = await Tracker.start(new MemoryEventLog(EPOCH));
    assert.equal((await tracker.get("?format=json", "writer")).status, 403);
    assert.equal((await tracker.get("?format=json&limit=x")).body["code"], "invalid_request");
    tracker.primaryEpochOf(null);
    const { status, body } = await tracker.get("?format=json");
    assert.deepEqual([status, body["code"]], [503, "primary_unavailable"]);
  });
});

describe("streams", () => {
  it("are limited, for each key and in all", async () => {
    const tracker = await Tracker.start(new MemoryEventLog(EPOCH), { maxStreams: 3, maxStreamsPerKey: 2 });
    await using _one = await tracker.listen();
    await using _two = await tracker.listen();
    const refused = await tracker.get("");
    assert.deepEqual([refused.status, refused.body["code"]], [429, "concurrency_limited"]);
    assert.deepEqual(refused.body["limit"], { name: "eventStreamsPerKey", value: 2 });
    await using _three = await tracker.listen("", { authorization: "Bearer eight" });
    const full = await tracker.get("", "eight");
    assert.deepEqual([full.status, full.body["code"]], [503, "overloaded"]);
    assert.deepEqual(full.body["limit"], { name: "eventStreams", value: 3 });
  });
});

describe("an epoch", () => {
  it("is published once, also one that began while this tracker was down; not an old one", async () => {
    const store = new MemoryEventLog(EPOCH);
    const [one, two] = [await Tracker.start(store), await Tracker.start(store)];
    const old = {
      ...record("00000000-0000-4000-8000-000000000000" as EpochId, 1),
      startedAt: "2020-01-01T00:00:00.000000Z",
    };
    for (const tracker of [one, two]) {
      Object.assign(tracker.state.topology, { ancestry: [old, record(EPOCH, 2)] });
      tracker.events.onEpochs();
      Object.assign(tracker.state.topology, { ancestry: [old, record(EPOCH, 2), record(NEXT, 3)] });
      tracker.events.onEpochs();
      tracker.events.onEpochs();
    }
    await using client = await one.listen("?after=0.0");
    await client.until("both are told", () => client.published.length === 2);
    one.events.onStall({ level: "a level / with ü", epoch: NEXT, offset: "17", pending: 3 }, true);
    two.events.onStall({ level: "a level / with ü", epoch: NEXT, offset: "17", pending: 4 }, true);
    one.events.onStall({ level: "region", epoch: NEXT, offset: "18", pending: 0 }, false);
    const broken = { level: "region", epoch: EPOCH, from: "1", to: "2", transactions: 1 };
    one.events.onBrokenPromise(broken);
    two.events.onBrokenPromise({ ...broken, transactions: 2 });
    // It knows more of what is broken.
    two.events.onBrokenPromise({ ...broken, from: "0", transactions: 3 });
    await client.until("all are told", () => client.published.length === 6);
    // Two trackers report what comes behind the epochs, in no order.
    const keys = store.events.map(({ key }) => key);
    assert.deepEqual(keys.slice(0, 2), [`epoch/${EPOCH}`, `epoch/${NEXT}`]);
    const [whole, promise, recovered, stalled, ...more] = keys.slice(2).sort();
    assert.deepEqual([whole, promise], [`promise/${EPOCH}/region/0-2`, `promise/${EPOCH}/region/1-2`]);
    assert.equal(recovered, `recovered/${NEXT}/region/18`);
    assert.match(stalled ?? "", /^stalled\//);
    assert.deepEqual(more, []);
    assert.deepEqual(store.events[1]?.data, {
      ...{
        epoch: NEXT,
        seq: 3,
        previous: EPOCH,
        node: "east",
        cause: "promotion",
        forkOffset: "0",
        complete: false,
        unlisted: 0,
      },
    });
  });

  it("may lack transactions of several ledgers: each number is published once, also when the lower comes first", async () => {
    const store = new MemoryEventLog(EPOCH);
    const [one, two] = [await Tracker.start(store), await Tracker.start(store)];
    const ids = { first: EPOCH, last: NEXT };
    const part = { epoch: EPOCH, currentEpoch: NEXT, count: 1, from: "8", to: "9", ids };
    await using client = await one.listen("?after=0.0&types=transactions.unlisted");
    one.events.onUnlisted(part, 7n);
    await client.until("the part is published", () => client.published.length === 1);
    two.events.onUnlisted({ ...part, count: 20, from: "1" }, 7n);
    two.events.onUnlisted(part, 7n);
    await client.until("the rest is published", () => client.published.length === 2);
    one.events.onUnlisted({ ...part, ids: { ...ids, first: NEXT } }, 7n);
    await client.until("other ids are published", () => client.published.length === 3);
    assert.deepEqual(
      store.events.map(({ data }) => [data["count"], data["from"]]),
      [
        [1, "8"],
        [20, "1"],
        [1, "8"],
      ],
    );
  });
});
