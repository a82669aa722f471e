// Goal: exposure stays within its limit while trackers report no marks, for any reason, and the
// service recovers without help. Method: the whole product as real processes; the test kills the
// trackers, or cuts off every replica.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Problem } from "@highwater/protocol";
import { System } from "../src/index.ts";
import {
  assertTruth,
  commit,
  createTable,
  epochAfter,
  epochOf,
  eventually,
  put,
  putAhead,
  send,
  starve,
  type TransactionReply,
} from "../src/testing.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
const MOST = 12;
const FILL_MS = 60_000;

/**
 * Commits until the gateway refuses with this many at risk by its own count; returns the commits
 * and the refusal. On a busy machine its tracker may be silent for a second, and then it keeps to a
 * share of the limit and refuses with less for a while.
 */
async function fill(
  gateway: string,
  prefix: string,
  atRisk: number,
): Promise<{ written: { key: string; token: string }[]; refusal: Problem }> {
  const written: { key: string; token: string }[] = [];
  const untilMs = performance.now() + FILL_MS;
  for (;;) {
    const key = `${prefix}-${String(written.length)}`;
    const answer: TransactionReply = await send(gateway, [put(key)]);
    if (answer.status === 503) {
      const refusal = answer.body as unknown as Problem;
      assert.equal(refusal.code, "exposure_limit", JSON.stringify(refusal));
      if ((refusal.exposure?.transactions ?? 0) >= atRisk) return { written, refusal };
      assert.ok(performance.now() < untilMs, JSON.stringify(refusal));
      await untilBound(gateway, atRisk);
      continue;
    }
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    written.push({ key, token: answer.body.token });
    assert.ok(written.length <= 2 * MOST, "there is no limit");
  }
}

async function metric(gateway: string, sample: string): Promise<number> {
  const text = await (await fetch(`${gateway}/metrics`)).text();
  const line = text.split("\n").find((one) => one.startsWith(`${sample} `));
  return Number(line?.slice(sample.length + 1));
}

/** The gateway's transactions at risk, by its own count. */
const pendingOn = (gateway: string): Promise<number> =>
  metric(gateway, 'highwater_gateway_exposure_transactions{state="pending"}');

/** The count against the limit: its own transactions, and what trackers reported of others. */
const usedOf = (gateway: string): Promise<number> =>
  metric(gateway, 'highwater_gateway_exposure_used{limit="exposureTransactions"}');

const boundOf = (gateway: string): Promise<number> =>
  metric(gateway, 'highwater_gateway_exposure_bound{limit="exposureTransactions"}');

const untilBound = (gateway: string, most: number): Promise<true> =>
  eventually(`it keeps to ${String(most)}`, async () => (await boundOf(gateway)) === most);

/** By its own count, and by the last report about the others. */
const untilDurable = (gateway: string): Promise<true> =>
  eventually(
    "nothing is at risk",
    async () => (await pendingOn(gateway)) === 0 && (await usedOf(gateway)) === 0,
  );

test("without trackers each gateway keeps to its share of the limit, and recovers when a tracker is back", async () => {
  await using system = await System.start({
    env: { GATEWAY_EXPOSURE_TRANSACTIONS: String(MOST), GATEWAY_EXPOSURE_GATEWAYS: "3" },
  });
  await createTable(system, EAST);
  for (const region of system.regions) {
    const gateway = system.gateway(region).url;
    await untilDurable(gateway);
    await untilBound(gateway, MOST);
  }
  for (const region of system.regions) await system.tracker(region).kill();
  const all: { key: string; token: string }[] = [];
  for (const region of system.regions) {
    const gateway = system.gateway(region).url;
    await untilBound(gateway, MOST / 3);
    const { written, refusal } = await fill(gateway, region, MOST / 3);
    all.push(...written);
    assert.ok(all.length <= MOST, `${String(all.length)} are at risk where ${String(MOST)} may be`);
    assert.deepEqual(refusal.limit, { name: "exposureTransactions", value: MOST });
    assert.equal(refusal.exposure?.transactions, written.length);
  }
  assert.equal(all.length, MOST, "every gateway had its share");
  const gateway = system.gateway(EAST).url;
  assert.equal((await send(gateway, [{ sql: "SELECT 1" }], { readOnly: true })).status, 200);
  assert.equal((await send(gateway, [put("safe")], { ack: "durable", maxWaitMs: 100 })).status, 202);
  assert.equal((await send(gateway, [put("refused")])).status, 503);
  for (const region of system.regions) await system.restartService(region, "tracker");
  for (const region of system.regions)
    await commit(system.gateway(region).url, [put(`after-${region}`)], { ack: "durable" });
  for (const region of system.regions) await untilDurable(system.gateway(region).url);
  assert.equal((await send(gateway, [put("again")])).status, 200);
  await assertTruth(system, { tracker: system.tracker(EAST).url, node: EAST }, all);
});

test("every replica is cut off: the limit holds, marks of the primary's own disk do not count, and healing is enough", async () => {
  await using system = await System.start({ env: { GATEWAY_EXPOSURE_TRANSACTIONS: String(MOST) } });
  await createTable(system, EAST);
  const gateway = system.gateway(EAST).url;
  await untilDurable(gateway);
  for (const region of [WEST, EUROPE]) await system.cluster.link(EAST, region).cut();
  const { written, refusal } = await fill(gateway, "cut", MOST);
  assert.equal(written.length, MOST);
  assert.equal(refusal.exposure?.transactions, MOST);
  assert.ok(BigInt(refusal.exposure.bytes) > 0n);
  const onDisk = await commit(gateway, [put("on-disk")], { ack: "durable", level: "disk" });
  assert.equal(onDisk.state, "durable", "a safe transaction of a level that can be reached goes on");
  assert.equal((await send(gateway, [put("refused")])).status, 503);
  for (const region of [WEST, EUROPE]) await system.cluster.link(EAST, region).heal();
  await untilDurable(gateway);
  assert.equal((await send(gateway, [put("healed")])).status, 200);
  await assertTruth(system, { tracker: system.tracker(EAST).url, node: EAST }, written);
});

test("what one gateway has at risk counts on the others: together they stop at the limit", async () => {
  await using system = await System.start({ env: { GATEWAY_EXPOSURE_TRANSACTIONS: String(MOST) } });
  await createTable(system, EAST);
  const [east, west] = [system.gateway(EAST).url, system.gateway(WEST).url];
  await untilDurable(east);
  await untilDurable(west);
  // The replicas are paused, and every service can reach the primary.
  await system.cluster.pause(WEST);
  await system.cluster.pause(EUROPE);
  const half: { key: string; token: string }[] = [];
  for (let count = 0; count < MOST / 2; count++) {
    const key = `half-${String(count)}`;
    half.push({ key, token: (await commit(east, [put(key)])).token });
  }
  await eventually("the other gateway knows", async () => (await usedOf(west)) === MOST / 2);
  const { written, refusal } = await fill(west, "rest", MOST);
  assert.equal(written.length, MOST / 2);
  assert.equal(refusal.exposure?.transactions, MOST);
  await eventually("the first one knows", async () => (await usedOf(east)) === MOST);
  assert.equal((await send(east, [put("refused")])).status, 503);
  await system.cluster.resume(WEST);
  await system.cluster.resume(EUROPE);
  for (const gateway of [east, west]) await untilDurable(gateway);
  assert.equal((await send(east, [put("again")])).status, 200);
  await assertTruth(system, { tracker: system.tracker(EAST).url, node: EAST }, [...half, ...written]);
});

test("a failover frees no exposure: transactions at risk count until the next history is durable", async () => {
  await using system = await System.start({ env: { GATEWAY_EXPOSURE_TRANSACTIONS: String(MOST) } });
  await createTable(system, EAST);
  const [gateway, tracker] = [system.gateway(EAST).url, system.tracker(EAST).url];
  await untilDurable(gateway);
  const before = await epochOf(tracker);
  // A cut link keeps sent bytes and delivers them when it heals, so the streams end first.
  await putAhead(system, { heir: WEST, other: EUROPE });
  await starve(system, WEST);
  await system.cluster.isolate(EAST);
  const { written } = await fill(gateway, "lost", MOST);
  assert.equal(written.length, MOST);
  await system.cluster.kill(EAST);
  await system.cluster.link(EAST, WEST).heal();
  await system.cluster.link(WEST, EUROPE).cut();
  await system.cluster.promote(WEST);
  await epochAfter(tracker, before);
  await commit(gateway, [put("on-disk")], { ack: "durable", level: "disk" });
  const refused = await send(gateway, [put("refused")]);
  assert.deepEqual([refused.status, refused.body.code], [503, "exposure_limit"]);
  assert.equal(await pendingOn(gateway), MOST + 1);
  await system.cluster.healAll();
  await untilDurable(gateway);
  assert.equal((await send(gateway, [put("after")])).status, 200);
  const judged = await assertTruth(system, { tracker, node: WEST }, written);
  for (const { verdict } of judged.values()) assert.equal(verdict, "lost");
});
