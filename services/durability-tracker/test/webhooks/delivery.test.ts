// Goal: a receiver gets every event, whether it fails, hangs, redirects, asks for a delay or comes
// back. Method: a real PostgreSQL, a real receiver, and one or more dispatchers on one queue.
import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { Webhook as Verifier } from "standardwebhooks";
import {
  type DeliveryDetails,
  type DeliveryList,
  LIMITS,
  type TransactionsPage,
  validate,
  type WebhookDelivery,
  type Webhook,
  WebhookMessage,
  type WebhookSecret,
} from "@highwater/protocol";
import { type RecordedEvent } from "@highwater/store";
import { answers, type Behaviour, ok, Receiver } from "@highwater/lab-system/receiver";
import { lostEvent, OWNER, type Station, World } from "./world.ts";

let world: World;
let station: Station;
const receivers: Receiver[] = [];

before(async () => {
  world = await World.start();
  station = await world.open(world.station("one"));
});
after(() => world.close());
afterEach(async () => {
  // One at a time, as over HTTP: a statement that locks several would lock in its own order.
  for (const { id } of await world.sql("SELECT id FROM highwater.webhook_endpoint"))
    await world.sql("DELETE FROM highwater.webhook_endpoint WHERE id = $1", [id]);
  for (const receiver of receivers.splice(0)) await receiver.close();
});

async function receive(behaviour: Behaviour = ok): Promise<Receiver> {
  const receiver = await Receiver.start();
  receiver.behaviour = behaviour;
  receivers.push(receiver);
  return receiver;
}

async function listed(endpoint: string, query = ""): Promise<WebhookDelivery[]> {
  const { status, body } = await station.call("GET", `/${endpoint}/deliveries${query}`);
  assert.equal(status, 200);
  return (body as DeliveryList).deliveries;
}

async function details(endpoint: string, delivery: string): Promise<DeliveryDetails> {
  return (await station.call("GET", `/${endpoint}/deliveries/${delivery}`)).body as DeliveryDetails;
}

async function read(endpoint: string): Promise<Webhook> {
  return (await station.call("GET", `/${endpoint}`)).body as Webhook;
}

/** Waits until every delivery of the endpoint has the status. */
async function settled(endpoint: string, status: string, many = 1): Promise<WebhookDelivery[]> {
  let found: WebhookDelivery[] = [];
  await world.until(`${String(many)} deliveries are ${status}`, async () => {
    found = await listed(endpoint);
    return found.length === many && found.every((delivery) => delivery.status === status);
  });
  return found;
}

test("a lost transaction arrives, signed, in the documented shape", async () => {
  const receiver = await receive();
  const endpoint = await station.endpoint(receiver.url);
  const event = lostEvent({ order: "7" });
  await station.record([event]);
  const [got] = await receiver.count(1);
  const verified = new Verifier(endpoint.secret).verify(got?.body ?? "", got?.headers ?? {});
  const checked = validate(WebhookMessage, verified);
  assert.ok(checked.ok, JSON.stringify(checked));
  const { page, pages, transactions } = checked.value.data as TransactionsPage;
  assert.deepEqual([checked.value.type, page, pages], ["transaction.lost", 1, 1]);
  assert.deepEqual(
    transactions.map(({ id, metadata }) => [id, metadata]),
    [[event.data.id, { order: "7" }]],
  );
  const [delivery] = await settled(endpoint.id, "delivered");
  assert.equal(delivery?.id, got?.headers["webhook-id"]);
  const { history, body } = await details(endpoint.id, delivery?.id ?? "");
  assert.equal(body, got?.body);
  assert.deepEqual(
    history.map(({ n, outcome, status }) => [n, outcome, status]),
    [[1, "delivered", 204]],
  );
});

test("the same events recorded again make no second delivery, whichever tracker records them", async () => {
  const receiver = await receive();
  const endpoint = await station.endpoint(receiver.url);
  const other = await world.open(world.station("another"));
  const events = [lostEvent(), lostEvent()];
  await Promise.all([station.record(events), other.record(events), other.record(events.toReversed())]);
  await station.record([lostEvent()]);
  await receiver.count(2);
  await settled(endpoint.id, "delivered", 2);
  assert.equal(receiver.received.length, 2);
  await other.close();
});

test("a large loss arrives in pages, each transaction once, each body under 20 KB", async () => {
  const receiver = await receive();
  const endpoint = await station.endpoint(receiver.url);
  const metadata = Object.fromEntries(
    Array.from({ length: LIMITS.metadataEntries }, (_, index) => [
      `name${String(index)}`,
      "\u0001ü".repeat(128),
    ]),
  );
  const events = [...Array.from({ length: 500 }, () => lostEvent()), lostEvent(metadata)];
  await station.record(events);
  await receiver.until(() => transactionsOf(receiver).size === events.length, "all transactions");
  assert.deepEqual([...transactionsOf(receiver).keys()].sort(), events.map(({ data }) => data.id).sort());
  assert.deepEqual(transactionsOf(receiver).get(events.at(-1)?.data.id as string), metadata);
  const pages = receiver.received.map(({ body }) => {
    assert.ok(Buffer.byteLength(body) < 20_000);
    return (JSON.parse(body) as { data: TransactionsPage }).data;
  });
  assert.deepEqual(
    pages.map(({ page }) => page).sort((a, b) => a - b),
    pages.map((_, index) => index + 1),
  );
  assert.ok(pages.length > 3, String(pages.length));
  for (const page of pages) assert.equal(page.pages, pages.length);
  await settled(endpoint.id, "delivered", pages.length);
});

/** Metadata by transaction id, joined from the parts. */
function transactionsOf(receiver: Receiver): Map<string, Record<string, string>> {
  const found = new Map<string, Record<string, string>>();
  for (const { body } of receiver.received)
    for (const { id, metadata } of (JSON.parse(body) as { data: TransactionsPage }).data.transactions)
      found.set(id, { ...found.get(id), ...metadata });
  return found;
}

test("an endpoint gets what is its owner's, of its types, and passes its filter", async () => {
  const [mine, filtered, stranger] = [await receive(), await receive(), await receive()];
  await station.endpoint(mine.url);
  await station.endpoint(filtered.url, {
    filter: { shop: "a" },
    events: ["transaction.lost", "epoch.started"],
  });
  const theirs = { url: stranger.url, events: ["transaction.lost"] };
  assert.equal((await station.call("POST", "", { body: theirs, as: "8 webhooks" })).status, 201);
  const [plain, shop] = [lostEvent(), lostEvent({ shop: "a", extra: "b" })];
  await station.record([plain, shop, lostEvent({ shop: "a" }, OWNER + 2n)]);
  const started = {
    epoch: world.primaryEpoch.epoch,
    seq: 1,
    previous: null,
    node: "us-east",
    cause: "first",
    forkOffset: "0",
    complete: true,
    unlisted: 0,
  };
  await station.record([{ key: "epoch/x", type: "epoch.started", owner: null, data: started }]);
  await filtered.count(2);
  await mine.count(1);
  assert.deepEqual([...transactionsOf(mine).keys()], [plain.data.id, shop.data.id]);
  const types = filtered.received.map(({ body }) => (JSON.parse(body) as { type: string }).type);
  assert.deepEqual(types.sort(), ["epoch.started", "transaction.lost"]);
  assert.equal(stranger.received.length, 0);
});

test("it fails, hangs, redirects and breaks off; every attempt is kept; then it comes back", async () => {
  const patient = await world.open(
    // Long enough that only a receiver that hangs reaches it.
    world.station("patient", { webhookTimeoutMs: 4_000, webhookDelaysMs: Array<number>(20).fill(30) }),
  );
  const elsewhere = await receive();
  const script: Behaviour[] = [
    answers(500, {}, "out of order"),
    () => undefined,
    answers(302, { location: elsewhere.url }),
    (response) => {
      response.destroy();
    },
    answers(429, { "retry-after": "1" }),
    ok,
  ];
  const receiver = await receive(async (response, received, request) =>
    script[receiver.received.length - 1]?.(response, received, request),
  );
  // Runs only the patient one; the other would send some of the deliveries.
  await withoutStation(async () => {
    const endpoint = await patient.endpoint(receiver.url);
    await patient.record([lostEvent()]);
    const beginMs = performance.now();
    await receiver.count(script.length);
    assert.ok(performance.now() - beginMs >= 1_000, "Retry-After was honoured");
    let found: DeliveryDetails | null = null;
    await world.until("it is delivered", async () => {
      const { body } = await patient.call("GET", `/${endpoint.id}/deliveries/${receiver.ids()[0] ?? ""}`);
      found = body as DeliveryDetails;
      return found.status === "delivered";
    });
    const { history } = found as unknown as DeliveryDetails;
    assert.deepEqual(
      history.map(({ n, outcome, status }) => [n, outcome, status]),
      [
        [1, "status", 500],
        [2, "timeout", null],
        [3, "redirect", 302],
        [4, "connection", null],
        [5, "status", 429],
        [6, "delivered", 204],
      ],
    );
    assert.equal(history[0]?.answer, "out of order");
    assert.equal(elsewhere.received.length, 0);
    // One message: the same id and body each time, with a new timestamp.
    assert.equal(new Set(receiver.ids()).size, 1);
    assert.equal(new Set(receiver.received.map(({ body }) => body)).size, 1);
    for (const { body, headers } of receiver.received) new Verifier(endpoint.secret).verify(body, headers);
    assert.equal((await patient.call("GET", `/${endpoint.id}`)).status, 200);
  });
  await patient.close();
});

/** Stops the first dispatcher meanwhile. */
async function withoutStation(work: () => Promise<void>): Promise<void> {
  station.primaryEpoch = null;
  const connections = "SELECT 1 FROM pg_catalog.pg_stat_activity WHERE application_name = $1";
  await world.until("the first one has closed its connections", async () => {
    return (await world.sql(connections, ["highwater:one:webhooks"])).length === 0;
  });
  try {
    await work();
  } finally {
    station.primaryEpoch = world.primaryEpoch;
    await world.open(station);
  }
}

test("after the last attempt a delivery has failed; it can be sent again one by one or all since a time", async () => {
  const receiver = await receive(answers(500));
  const endpoint = await station.endpoint(receiver.url);
  await station.record([lostEvent()]);
  await station.record([lostEvent()]);
  const deliveries = await settled(endpoint.id, "failed", 2);
  assert.deepEqual(
    deliveries.map(({ attempts, nextAttemptAt }) => [attempts, nextAttemptAt]),
    [
      [4, null],
      [4, null],
    ],
  );
  assert.notEqual((await read(endpoint.id)).failingSince, null);
  assert.equal((await listed(endpoint.id, "?status=failed&limit=1")).length, 1);
  assert.equal((await listed(endpoint.id, "?status=delivered")).length, 0);

  receiver.behaviour = ok;
  const [one, two] = deliveries;
  const again = await station.call("POST", `/${endpoint.id}/deliveries/${one?.id ?? ""}/redeliver`);
  assert.equal(again.status, 202);
  await receiver.count(9);
  assert.equal(receiver.ids().at(-1), one?.id, "under the same webhook-id");
  await world.until(
    "it is delivered",
    async () => (await details(endpoint.id, one?.id ?? "")).status === "delivered",
  );
  assert.equal((await read(endpoint.id)).failingSince, null);

  const recover = (since: string): Promise<{ status: number; body: unknown }> =>
    station.call("POST", `/${endpoint.id}/recover`, { body: { since } });
  assert.deepEqual((await recover("2099-01-01T00:00:00Z")).body, { recovered: 0, more: false });
  assert.deepEqual((await recover("2000-01-01T00:00:00Z")).body, { recovered: 1, more: false });
  await receiver.count(10);
  assert.equal(receiver.ids().at(-1), two?.id);
  await settled(endpoint.id, "delivered", 2);
  assert.equal((await details(endpoint.id, two?.id ?? "")).history.length, 5);
});

test("410 disables at once, the owner gets an event, and what comes meanwhile is kept until it is recovered", async () => {
  const [receiver, watcher] = [await receive(answers(410)), await receive()];
  const endpoint = await station.endpoint(receiver.url);
  await station.endpoint(watcher.url, { events: ["webhook.disabled"] });
  await station.record([lostEvent()]);
  await watcher.count(1);
  const sent = JSON.parse(watcher.received[0]?.body ?? "") as { type: string; data: Record<string, unknown> };
  assert.equal(sent.type, "webhook.disabled");
  assert.deepEqual([sent.data.endpoint, sent.data.why], [endpoint.id, "gone"]);
  const { disabled, disabledWhy } = await read(endpoint.id);
  assert.deepEqual([disabled, disabledWhy], [true, "gone"]);
  const { node, epoch } = world.primaryEpoch;
  const events = await station.events.read(node, epoch, {
    after: { seq: 0, n: 0 },
    owner: OWNER,
    types: ["webhook.disabled"],
    limit: 100,
  });
  assert.equal(events.filter(({ data }) => data.endpoint === endpoint.id).length, 1);

  await station.record([lostEvent()]);
  await settled(endpoint.id, "held", 2);
  assert.equal(receiver.received.length, 1);
  for (const path of [`/deliveries/${receiver.ids()[0] ?? ""}/redeliver`, "/recover"]) {
    const refused = await station.call("POST", `/${endpoint.id}${path}`, {
      body: { since: "2000-01-01T00:00:00Z" },
    });
    assert.deepEqual([refused.status, (refused.body as { code: string }).code], [409, "webhook_disabled"]);
  }
  receiver.behaviour = ok;
  const enabled = await station.call("PATCH", `/${endpoint.id}`, { body: { disabled: false } });
  assert.equal((enabled.body as Webhook).disabled, false);
  await station.call("POST", `/${endpoint.id}/recover`, { body: { since: "2000-01-01T00:00:00Z" } });
  await receiver.count(3);
  await settled(endpoint.id, "delivered", 2);
});

test("what a clock that was ahead has put off is sent once the clock is right, and nothing else is", async () => {
  const receiver = await receive(answers(503, { "retry-after": "600" }));
  const endpoint = await station.endpoint(receiver.url);
  for (let event = 0; event < 4; event++) await station.record([lostEvent()]);
  let ids: readonly string[] = [];
  await world.until("all have failed once", async () => {
    const all = await listed(endpoint.id);
    ids = all.map(({ id }) => id);
    return all.length === 4 && all.every(({ attempts, status }) => attempts === 1 && status === "pending");
  });
  // None of them is due within ten minutes.
  receiver.behaviour = ok;
  const [failed, untried, claimed, waiting] = ids;
  // As if the clock had been a day ahead: one delivery has failed, one was never tried, and the
  // sender of one has died. In one statement, because the tracker may look at any time.
  await world.sql(
    `WITH tried AS (UPDATE highwater.webhook_attempt SET at = at + interval '1 day' WHERE delivery = $1),
      forgotten AS (DELETE FROM highwater.webhook_attempt WHERE delivery = $2),
      jobs AS (UPDATE highwater_jobs.job SET start_after = start_after + interval '1 day'
        WHERE state < 'active' AND data->>'delivery' IN ($1, $2, $3))
    UPDATE highwater.webhook_delivery SET
      attempts = CASE WHEN id = $2 THEN 0 ELSE attempts END,
      created_at = created_at + CASE WHEN id = $2 THEN interval '1 day' ELSE interval '0' END,
      next_attempt_at = next_attempt_at + CASE WHEN id = $3 THEN interval '0' ELSE interval '1 day' END,
      sending_until = CASE WHEN id = $3 THEN clock_timestamp() + interval '1 day' END
    WHERE id IN ($1, $2, $3)`,
    [failed, untried, claimed],
  );
  // The sender may be alive: the tracker cuts the claim to the usual length, and the test ends it.
  await world.until("the claim is as long as any other", async () => {
    const cut = `UPDATE highwater.webhook_delivery SET sending_until = clock_timestamp()
      WHERE id = $1 AND coalesce(sending_until, clock_timestamp()) < clock_timestamp() + interval '1 minute' RETURNING id`;
    return (await world.sql(cut, [claimed])).length === 1;
  });
  await world.until(
    "three are delivered",
    async () => (await listed(endpoint.id, "?status=delivered")).length === 3,
  );
  const left = (await listed(endpoint.id)).filter(({ status }) => status !== "delivered");
  assert.deepEqual(
    left.map(({ id, status, attempts }) => [id, status, attempts]),
    [[waiting, "pending", 1]],
  );
});

test("five days of nothing but failures disable it; a success begins them anew", async () => {
  const receiver = await receive(answers(503));
  const endpoint = await station.endpoint(receiver.url);
  const age = (interval: string): Promise<unknown> =>
    world.sql(
      `UPDATE highwater.webhook_endpoint SET failing_since = failing_since - interval '${interval}' WHERE id = $1`,
      [endpoint.id],
    );
  await station.record([lostEvent()]);
  await settled(endpoint.id, "failed");
  await age("4 days 23 hours");
  await station.record([lostEvent()]);
  await settled(endpoint.id, "failed", 2);
  assert.equal((await read(endpoint.id)).disabled, false);
  receiver.behaviour = ok;
  await station.record([lostEvent()]);
  await world.until("it has succeeded", async () => (await read(endpoint.id)).failingSince === null);
  receiver.behaviour = answers(503);
  await station.record([lostEvent()]);
  await world.until("it fails again", async () => (await read(endpoint.id)).failingSince !== null);
  await world.until(
    "three have failed",
    async () => (await listed(endpoint.id, "?status=failed")).length === 3,
  );
  await age("5 days");
  await station.record([lostEvent()]);
  await world.until("it is disabled", async () => (await read(endpoint.id)).disabledWhy === "failing");
  const [newest] = await listed(endpoint.id, "?status=held");
  assert.equal(newest?.attempts, 1);
  const unpublished = "SELECT count(*)::int AS count FROM highwater.webhook_endpoint WHERE must_tell";
  await world.until("its owner is told", async () => (await world.sql(unpublished))[0]?.count === 0);
});

test("many dispatchers over one queue: everything arrives, and nothing is sent by two at a time", async () => {
  const others = await Promise.all(["two", "three"].map((name) => world.open(world.station(name))));
  const receiver = await receive(async (response) => {
    await new Promise((resolve) => setTimeout(resolve, 5 + Math.random() * 20));
    response.writeHead(Math.random() < 0.3 ? 500 : 200).end();
  });
  const endpoint = await station.endpoint(receiver.url);
  const events = Array.from({ length: 60 }, () => lostEvent());
  await Promise.all(
    events.map((event, index) => ([station, ...others][index % 3] ?? station).record([event])),
  );
  await world.until("everything is settled", async () => {
    const found = await listed(endpoint.id);
    return (
      found.length === events.length &&
      found.every(({ status }) => status === "delivered" || status === "failed")
    );
  });
  assert.equal(new Set(receiver.ids()).size, events.length);
  assert.deepEqual(
    [...receiver.atOnce.values()].filter(({ max }) => max > 1),
    [],
  );
  const attempts = (await listed(endpoint.id)).reduce((sum, delivery) => sum + delivery.attempts, 0);
  assert.equal(attempts, receiver.received.length);
  for (const other of others) await other.close();
});

test("what is done is dropped, however much of it there is: jobs soon, deliveries after their time", async () => {
  const receiver = await receive();
  const endpoint = await station.endpoint(receiver.url);
  await world.sql(
    `INSERT INTO highwater.webhook_delivery (id, endpoint, type, body, status, created_at)
     SELECT 'old' || i, $1, 'transaction.lost', '{}', 'delivered', now() - interval '2 minutes'
     FROM generate_series(1, 2500) i`,
    [endpoint.id],
  );
  const brief = await world.open(world.station("brief", { webhookKeepMs: 60_000, webhookExpireS: 4 }));
  await brief.record([lostEvent()]);
  await settled(endpoint.id, "delivered");
  const jobs = "SELECT FROM highwater_jobs.job WHERE data ->> 'endpoint' = $1";
  await world.until("no job is left", async () => (await world.sql(jobs, [endpoint.id])).length === 0);
  await brief.close();
});

test("one that hangs does not keep the others waiting", async () => {
  const narrow = await world.open(
    world.station("narrow", {
      webhookConcurrency: 3,
      webhookConcurrencyPerEndpoint: 1,
      // So long that no second attempt is counted.
      webhookTimeoutMs: 120_000,
    }),
  );
  await withoutStation(async () => {
    const [hanging, quick] = [await receive(() => undefined), await receive()];
    await narrow.endpoint(hanging.url);
    for (let index = 0; index < 6; index++) await narrow.record([lostEvent()]);
    await hanging.count(1);
    await narrow.endpoint(quick.url);
    for (let index = 0; index < 3; index++) await narrow.record([lostEvent()]);
    await quick.count(3);
    assert.equal(hanging.received.length, 1, "no more than one at once to the one that hangs");
  });
  await narrow.close();
});

test("one owner's endpoints that never answer leave places to other owners", async () => {
  const narrow = await world.open(
    world.station("shared", {
      webhookConcurrency: 4,
      webhookConcurrencyPerEndpoint: 1,
      // No attempt ends during this test.
      webhookTimeoutMs: 120_000,
    }),
  );
  await withoutStation(async () => {
    const hanging = await Promise.all(Array.from({ length: 5 }, () => receive(() => undefined)));
    for (const { url } of hanging) await narrow.endpoint(url);
    for (let index = 0; index < 10; index++) await narrow.record([lostEvent()]);
    const began = (): number => hanging.reduce((sum, { received }) => sum + received.length, 0);
    await world.until("two attempts hang", () => Promise.resolve(began() === 2));
    const quick = await receive();
    await narrow.endpoint(quick.url, {}, "8 webhooks");
    await narrow.record([lostEvent(undefined, 8n), lostEvent(undefined, 8n)]);
    await quick.count(1);
    assert.equal(began(), 2, "one owner gets half of the places");
  });
  await narrow.close();
});

test("a rotated secret: both sign during the overlap, only the new one after it", async () => {
  const receiver = await receive();
  const endpoint = await station.endpoint(receiver.url);
  const rotated = (
    await station.call("POST", `/${endpoint.id}/secret/rotate`, { body: { overlapSeconds: 3_600 } })
  ).body as WebhookSecret;
  assert.equal(rotated.previous?.secret, endpoint.secret);
  assert.deepEqual((await station.call("GET", `/${endpoint.id}/secret`)).body, rotated);
  await station.record([lostEvent()]);
  const [during] = await receiver.count(1);
  for (const secret of [endpoint.secret, rotated.secret])
    new Verifier(secret).verify(during?.body ?? "", during?.headers ?? {});
  await world.sql("UPDATE highwater.webhook_endpoint SET previous_until = clock_timestamp() WHERE id = $1", [
    endpoint.id,
  ]);
  await station.record([lostEvent()]);
  const behind = (await receiver.count(2))[1];
  new Verifier(rotated.secret).verify(behind?.body ?? "", behind?.headers ?? {});
  assert.throws(() => new Verifier(endpoint.secret).verify(behind?.body ?? "", behind?.headers ?? {}));
  assert.deepEqual((await station.call("GET", `/${endpoint.id}/secret`)).body, { secret: rotated.secret });
  const atOnce = (
    await station.call("POST", `/${endpoint.id}/secret/rotate`, { body: { overlapSeconds: 0 } })
  ).body as WebhookSecret;
  assert.equal(atOnce.previous, undefined);
});

test("a test event arrives, at a disabled endpoint too, once", async () => {
  const receiver = await receive(answers(500));
  const endpoint = await station.endpoint(receiver.url);
  await station.call("PATCH", `/${endpoint.id}`, { body: { disabled: true } });
  const { status, body } = await station.call("POST", `/${endpoint.id}/test`);
  assert.equal(status, 202);
  await receiver.count(1);
  const [delivery] = await settled(endpoint.id, "failed");
  assert.equal(delivery?.id, (body as WebhookDelivery).id);
  const message = new Verifier(endpoint.secret).verify(
    receiver.received[0]?.body ?? "",
    receiver.received[0]?.headers ?? {},
  );
  assert.ok(validate(WebhookMessage, message).ok);
  assert.equal((message as { type: string }).type, "webhook.test");
});

test("what is checked at creation is checked again at each delivery", async () => {
  const receiver = await receive();
  let address = "127.0.0.1";
  const resolve = () => Promise.resolve([{ address, family: 4 as const }]);
  const rebound = await world.open(world.station("rebound", {}, resolve));
  await withoutStation(async () => {
    const { id } = await rebound.endpoint(`http://hooks.example:${String(receiver.port)}/`);
    await rebound.record([lostEvent()]);
    await receiver.count(1);
    address = "127.0.0.2";
    await rebound.record([lostEvent()]);
    await world.until("it has failed", async () => {
      const { body } = await rebound.call("GET", `/${id}/deliveries?status=failed`);
      return (body as DeliveryList).deliveries.length === 1;
    });
    assert.equal(receiver.received.length, 1);
    const refused = await rebound.call("POST", "", {
      body: { url: "http://hooks.example/", events: ["transaction.lost"] },
    });
    assert.deepEqual([refused.status, (refused.body as { code: string }).code], [422, "webhook_url_refused"]);
  });
  await rebound.close();
});

test("every tracker knows which endpoints want durable transactions", async () => {
  const other = await world.open(world.station("listener"));
  const receiver = await receive();
  await station.endpoint(receiver.url, { events: ["transaction.durable"], filter: { mail: "yes" } });
  await world.until("both know", async () => station.wants !== null && other.wants !== null);
  for (const { wants } of [station, other]) {
    assert.equal(wants?.(OWNER, { mail: "yes", more: "x" }), true);
    assert.equal(wants?.(OWNER, { mail: "no" }), false);
    assert.equal(wants?.(OWNER, null), false);
    assert.equal(wants?.(OWNER + 1n, { mail: "yes" }), false);
  }
  await world.sql("DELETE FROM highwater.webhook_endpoint");
  await world.until("nobody wants any more", async () => station.wants === null && other.wants === null);
  await other.close();
});

test("without a queue events that somebody waits for are not recorded; without anybody waiting they are", async () => {
  await withoutStation(async () => {
    const recorded: RecordedEvent[] = [...(await station.record([lostEvent()])).events];
    assert.equal(recorded.length, 1);
    await world.sql(`INSERT INTO highwater.webhook_endpoint (id, owner, url, description, events, filter, secret)
      VALUES ('ep_x', ${String(OWNER)}, 'https://example.com/', '', '{transaction.lost}', '{}', 'whsec_AAAA')`);
    const event = lostEvent();
    await assert.rejects(station.record([event]), { code: "primary_unavailable" });
    const { node, epoch } = world.primaryEpoch;
    const events = await station.events.read(node, epoch, {
      after: { seq: 0, n: 0 },
      owner: OWNER,
      types: null,
      limit: 10_000,
    });
    assert.ok(!events.some(({ key }) => key === event.key));
  });
});

test("the log has neither secrets nor bodies, and the metrics neither endpoints nor URLs", async () => {
  const receiver = await receive(answers(500));
  const endpoint = await station.endpoint(receiver.url);
  await station.record([lostEvent({ private: "very private" })]);
  await settled(endpoint.id, "failed");
  const text = JSON.stringify(station.log) + station.webhooks.metrics.render();
  assert.match(text, /webhook_sent/);
  assert.match(text, /highwater_webhook_attempts_total\{outcome="status"\}/);
  assert.doesNotMatch(text, /whsec_|very private|webhook-signature/);
  assert.doesNotMatch(station.webhooks.metrics.render(), /ep_|127\.0\.0\.1/);
});
