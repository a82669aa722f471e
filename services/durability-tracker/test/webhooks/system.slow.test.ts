// Goal: through the loss of a region and kill -9 of every tracker in mid-delivery, a receiver gets
// every lost transaction and no other. Method: the whole product as real processes. The endpoint is
// made through the tracker of the region that dies; the lost commits provably have not replicated;
// the receiver hangs while the trackers are killed, and then comes back.
import assert from "node:assert/strict";
import { test } from "node:test";
import { System } from "@highwater/lab-system";
import { Webhook as Verifier } from "standardwebhooks";
import {
  type CreatedWebhook,
  type DeliveryList,
  type TransactionResponse,
  type TransactionsPage,
  validate,
  WebhookMessage,
} from "@highwater/protocol";
import { commit, createTable, eventually, starve, verdict } from "@highwater/lab-system/testing";
import { ok, Receiver } from "@highwater/lab-system/receiver";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
const LOST = 200;
const TAKEOVER_LIMIT_MS = 120_000;
/** Attempts fail while the receiver hangs, and the test waits for the next ones. */
const DELAYS_MS = Array<number>(100).fill(1_000);

function insert(key: string): { sql: string; params: string[] } {
  return { sql: "INSERT INTO kv (key, value) VALUES ($1, 1)", params: [key] };
}

/** A tracker opens the queue a little after it begins to serve, and asks callers to wait. */
async function makeEndpoint(system: System, url: string, more: object): Promise<CreatedWebhook> {
  return eventually("the endpoint is made", async () => {
    const response = await fetch(`${system.tracker(EAST).url}/v1/webhooks`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ url, ...more }),
    });
    const text = await response.text();
    if (response.status === 503) return false;
    assert.equal(response.status, 201, text);
    return JSON.parse(text) as CreatedWebhook;
  });
}

/** From here on announcements leave the region, but no log does. */
async function commitLost(system: System): Promise<string[]> {
  await system.cluster.waitForStreaming();
  // Not by stopping the senders: after five seconds the replicas would stream from new ones.
  for (const replica of [EUROPE, WEST]) await starve(system, replica);
  const ids: string[] = [];
  for (let order = 0; order < LOST; order++) {
    const options = { metadata: { order: String(order), padding: "x".repeat(200) } };
    ids.push((await commit(system.gateway(EAST).url, [insert(`lost-${String(order)}`)], options)).id);
  }
  for (const region of [WEST, EUROPE])
    await eventually(`the tracker in ${region} holds them`, async () => {
      const text = await (await fetch(`${system.tracker(region).url}/metrics`)).text();
      const [, pending] = /^highwater_pending_transactions\{level="region"\} ([0-9]+)$/m.exec(text) ?? [];
      return Number(pending) >= LOST;
    });
  return ids;
}

function receivedBy(receiver: Receiver, type: string): string[] {
  return receiver.received.flatMap(({ body }) => {
    const message = JSON.parse(body) as { type: string; data: TransactionsPage };
    return message.type === type ? message.data.transactions.map(({ id }) => id) : [];
  });
}

test("a region dies, then every tracker in mid-delivery: the receiver gets all that was lost", async () => {
  await using receiver = await Receiver.start();
  const env = {
    ...{ TRACKER_WEBHOOK_ALLOW: "127.0.0.1" },
    TRACKER_WEBHOOK_DELAYS_MS: DELAYS_MS.join(),
  };
  await using system = await System.start({ env });
  await createTable(system, EAST);
  const asked = { events: ["transaction.lost", "transaction.durable"], filter: {} };
  const endpoint = await makeEndpoint(system, receiver.url, asked);

  // Durable transactions are recorded from the moment when the trackers know of the subscription.
  const kept: TransactionResponse[] = [];
  await eventually("a durable transaction is reported", async () => {
    kept.push(await commit(system.gateway(EAST).url, [insert(`kept-${String(kept.length)}`)]));
    return receivedBy(receiver, "transaction.durable").length > 0;
  });
  // Otherwise it could be lost with the others.
  const { token = "" } = kept.at(-1) ?? {};
  assert.equal((await verdict(system.tracker(WEST).url, token, { level: "global" })).verdict, "durable");
  receiver.behaviour = () => undefined;
  const lost = await commitLost(system);
  const before = receiver.received.length;
  await system.killRegion(EAST);
  await system.cluster.promote(await system.cluster.mostAdvancedReplica());
  await receiver.until(
    () => receiver.received.slice(before).some(({ body }) => body.includes('"transaction.lost"')),
    "the first page of the loss",
    TAKEOVER_LIMIT_MS,
  );
  await Promise.all([system.tracker(WEST).kill(), system.tracker(EUROPE).kill()]);
  receiver.behaviour = ok;
  await system.restartService(EUROPE, "tracker");
  await receiver.until(
    () => new Set(receivedBy(receiver, "transaction.lost")).size >= LOST,
    "all that was lost",
    TAKEOVER_LIMIT_MS,
  );
  const pending = `${system.tracker(EUROPE).url}/v1/webhooks/${endpoint.id}/deliveries?status=pending`;
  const isSettled = async (): Promise<boolean> => {
    const response = await fetch(pending);
    return response.ok && ((await response.json()) as DeliveryList).deliveries.length === 0;
  };
  await eventually("every delivery is settled", isSettled, TAKEOVER_LIMIT_MS);
  assert.deepEqual([...new Set(receivedBy(receiver, "transaction.lost"))].sort(), lost.toSorted());
  assert.deepEqual(
    kept.filter(({ id }) => lost.includes(id)),
    [],
  );
  for (const { headers, body } of receiver.received) {
    const message = new Verifier(endpoint.secret).verify(body, headers);
    const checked = validate(WebhookMessage, message);
    assert.ok(checked.ok, JSON.stringify(checked));
    assert.ok(Buffer.byteLength(body) < 20_000);
  }
  // Recorded in the new epoch. Events that the old epoch lost again would have other ids.
  const ofLoss = receiver.received.filter(({ body }) => body.includes('"transaction.lost"'));
  const sent = Map.groupBy(ofLoss, ({ headers }) => headers["webhook-id"]);
  for (const [id, same] of sent) assert.equal(new Set(same.map(({ body }) => body)).size, 1, id);
});
