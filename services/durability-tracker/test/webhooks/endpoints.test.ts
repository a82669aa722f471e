// Goal: endpoints are managed over HTTP, faults are refused, and owners see only their own.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  CreatedWebhook,
  DeliveryList,
  LIMITS,
  type Problem,
  validate,
  Webhook,
  WEBHOOK_LIMITS,
  WebhookList,
} from "@highwater/protocol";
import { type Station, World } from "./world.ts";

const URL_ALLOWED = "http://127.0.0.1:9/hook";
const ASKED = { url: URL_ALLOWED, events: ["transaction.lost"] };
let world: World;
let station: Station;

before(async () => {
  world = await World.start();
  station = await world.open(world.station("one", { webhookEndpoints: 3 }));
});
after(() => world.close());

async function create(
  more: Record<string, unknown> = {},
  as = "7 webhooks",
): Promise<{ status: number; body: unknown }> {
  return station.call("POST", "", { body: { ...ASKED, ...more }, as });
}

function codeOf(answer: { status: number; body: unknown }): string {
  return `${String(answer.status)} ${(answer.body as Problem).code}`;
}

test("created, listed, read, changed, deleted", async () => {
  const filter = { shop: "a\u0000b", __proto__x: "🙂" };
  const { status, body } = await create({ filter, description: "orders" }, "20 webhooks");
  assert.equal(status, 201);
  const checked = validate(CreatedWebhook, body);
  assert.ok(checked.ok, JSON.stringify(checked));
  const { secret, ...webhook } = checked.value;
  assert.match(secret, /^whsec_/);
  assert.deepEqual(webhook.filter, filter);
  const as = "20 webhooks";
  const path = `/${webhook.id}`;
  const list = (await station.call("GET", "", { as })).body;
  assert.ok(validate(WebhookList, list).ok);
  assert.deepEqual(list, { webhooks: [webhook] }, "without the secret");
  assert.deepEqual((await station.call("GET", path, { as })).body, webhook);
  assert.deepEqual((await station.call("GET", `${path}/secret`, { as })).body, { secret });

  const change = { events: ["epoch.started", "promise.broken"], description: "", filter: {}, disabled: true };
  const changed = (await station.call("PATCH", path, { body: change, as })).body as Webhook;
  assert.ok(validate(Webhook, changed).ok);
  assert.deepEqual([changed.events, changed.description, changed.filter], [change.events, "", {}]);
  assert.deepEqual([changed.disabled, changed.disabledWhy], [true, "by_request"]);
  assert.equal(changed.url, URL_ALLOWED, "what is not named stays");
  const enabled = (await station.call("PATCH", path, { body: { disabled: false }, as })).body as Webhook;
  assert.deepEqual([enabled.disabled, enabled.disabledWhy, enabled.disabledAt], [false, null, null]);

  assert.equal((await station.call("DELETE", path, { as })).status, 204);
  for (const [method, path2] of [
    ["GET", path],
    ["DELETE", path],
    ["GET", `${path}/secret`],
  ] as const)
    assert.equal(codeOf(await station.call(method, path2, { as })), "404 not_found");
});

test("each change is in the audit log, with whose request it was, and no secret", async () => {
  const as = "21 webhooks";
  const { id, secret } = (await create({}, as)).body as CreatedWebhook;
  await station.call("PATCH", `/${id}`, { body: { description: "changed" }, as });
  const rotated = (await station.call("POST", `/${id}/secret/rotate`, { body: {}, as })).body as {
    secret: string;
  };
  // The audit log has no changes by deliveries, except that a tracker disables an endpoint.
  await world.sql(
    "UPDATE highwater.webhook_endpoint SET failing_since = now(), must_tell = true WHERE id = $1",
    [id],
  );
  await world.sql(
    "UPDATE highwater.webhook_endpoint SET disabled_at = now(), disabled_why = 'failing' WHERE id = $1",
    [id],
  );
  await station.call("DELETE", `/${id}`, { as });
  const entries = await world.sql(
    "SELECT actor, action, detail FROM highwater_audit.entry WHERE target = $1 ORDER BY n",
    [id],
  );
  assert.deepEqual(
    entries.map(({ actor, action }) => `${String(actor)} ${String(action)}`),
    [
      ...["owner 21 webhook.create", "owner 21 webhook.change", "owner 21 webhook.rotate"],
      ...["postgres webhook.change", "owner 21 webhook.delete"],
    ],
  );
  const text = JSON.stringify(entries);
  assert.ok(!text.includes(secret) && !text.includes(rotated.secret));
  assert.ok(text.includes(URL_ALLOWED));
});

test("an owner neither sees nor touches another's endpoints", async () => {
  const { id } = (await create({}, "30 webhooks")).body as CreatedWebhook;
  const as = "31 webhooks";
  assert.deepEqual((await station.call("GET", "", { as })).body, { webhooks: [] });
  const since = { since: "2000-01-01T00:00:00Z" };
  for (const [method, path, body] of [
    ["GET", ""],
    ["PATCH", "", { description: "mine" }],
    ["DELETE", ""],
    ["GET", "/secret"],
    ["POST", "/secret/rotate", {}],
    ["POST", "/test"],
    ["GET", "/deliveries"],
    ["GET", "/deliveries/msg_1"],
    ["POST", "/deliveries/msg_1/redeliver"],
    ["POST", "/recover", since],
  ] as const)
    assert.equal(
      codeOf(await station.call(method, `/${id}${path}`, { as, body })),
      "404 not_found",
      `${method} ${path}`,
    );
  assert.equal((await station.call("GET", `/${id}`, { as: "30 webhooks" })).status, 200);
});

test("only with the scope webhooks", async () => {
  for (const [method, path] of [
    ["GET", ""],
    ["POST", ""],
    ["GET", "/ep_1"],
    ["GET", "/ep_1/secret"],
    ["POST", "/ep_1/test"],
  ] as const)
    assert.equal(
      codeOf(await station.call(method, path, { as: "7 read write admin" })),
      "403 forbidden",
      `${method} ${path}`,
    );
});

test("a bounded number per owner, also when they come at once", async () => {
  const answers = await Promise.all(Array.from({ length: 8 }, () => create({}, "40 webhooks")));
  assert.equal(answers.filter(({ status }) => status === 201).length, 3);
  for (const answer of answers)
    if (answer.status !== 201) {
      assert.equal(codeOf(answer), "409 webhook_limit");
      assert.match((answer.body as Problem).detail ?? "", /has 3 webhook endpoints/);
    }
  assert.equal((await create({}, "41 webhooks")).status, 201);
});

test("what is refused: places that are not public, and requests that make no sense", async () => {
  const { id } = (await create({}, "50 webhooks")).body as CreatedWebhook;
  for (const url of [
    ...[
      "http://127.0.0.2/",
      "https://127.0.0.3/",
      "https://10.0.0.1/",
      "https://169.254.169.254/",
      "https://[::1]/",
    ],
    ...[
      "https://[::ffff:127.0.0.1]/",
      "ftp://127.0.0.1/",
      "http://user:x@127.0.0.1/",
      "nothing",
      "https://does-not-exist.invalid/",
    ],
  ]) {
    assert.equal(codeOf(await create({ url }, "51 webhooks")), "422 webhook_url_refused", url);
    assert.equal(
      codeOf(await station.call("PATCH", `/${id}`, { body: { url }, as: "50 webhooks" })),
      "422 webhook_url_refused",
      url,
    );
  }
  for (const more of [
    { events: [] },
    { events: ["nothing"] },
    { events: ["transaction.lost", "transaction.lost"] },
    { filter: { a: 1 } },
    { filter: { a: "x".repeat(LIMITS.metadataChars + 1) } },
    { description: "x".repeat(WEBHOOK_LIMITS.descriptionChars + 1) },
    { description: "\u0000" },
    { url: 7 },
    { secret: "whsec_mine" },
  ])
    assert.equal(codeOf(await create(more, "51 webhooks")), "400 invalid_request", JSON.stringify(more));
  const as = "50 webhooks";
  for (const [method, path, body] of [
    ["PATCH", `/${id}`, {}],
    ["POST", `/${id}/secret/rotate`, { overlapSeconds: -1 }],
    ["POST", `/${id}/recover`, {}],
    ["POST", `/${id}/recover`, { since: "yesterday" }],
    ["GET", `/${id}/deliveries?status=lost`],
    ["GET", `/${id}/deliveries?limit=0`],
    ["GET", `/${id}/deliveries?limit=101`],
    ["GET", `/${id}/deliveries?before=x`],
    ["GET", `/${id}/deliveries?what=x`],
  ] as const)
    assert.equal(
      codeOf(await station.call(method, path, { as, body })),
      "400 invalid_request",
      `${method} ${path}`,
    );
  for (const path of ["/%00", "/..%2f", `/${id}/deliveries/%27`])
    assert.equal(codeOf(await station.call("GET", path, { as })), "404 not_found", path);
});

test("deliveries come in pages, newest first, each once", async () => {
  const as = "60 webhooks";
  const { id } = (await create({}, as)).body as CreatedWebhook;
  const made: string[] = [];
  for (let index = 0; index < 7; index++)
    made.push(((await station.call("POST", `/${id}/test`, { as })).body as { id: string }).id);
  const found: string[] = [];
  let before = "";
  for (;;) {
    const { body } = await station.call("GET", `/${id}/deliveries?limit=3${before}`, { as });
    const checked = validate(DeliveryList, body);
    assert.ok(checked.ok, JSON.stringify(checked));
    found.push(...checked.value.deliveries.map((delivery) => delivery.id));
    if (checked.value.next === null) break;
    before = `&before=${checked.value.next}`;
  }
  assert.deepEqual(found, made.reverse());
});
