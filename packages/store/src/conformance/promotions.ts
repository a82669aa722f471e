// Conformance: what survives a promotion, and what the record of the next epoch says about it.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type EpochId, type Offset } from "@highwater/protocol";
import { type MakeHarness } from "./harness.ts";
import { Bench, DIGEST, offsetOf, PATIENCE_MS, refusedWith } from "./bench.ts";

export function promotionTests(makeHarness: MakeHarness): void {
  describe("promotions", () => {
    it("keeps what had reached the replica, and nothing else", () => Bench.with(makeHarness, promotion));
    it("believes a stream that was watched, and only that", () => Bench.with(makeHarness, watchedStream));
    it("does not carry over what an unnoticed crash of the old primary has lost", () =>
      Bench.with(makeHarness, crashThenPromotion));
  });
}

async function promotion(bench: Bench): Promise<void> {
  const { store, harness, primary } = bench;
  const [heir, other] = harness.replicas;
  const ended = await bench.begin();
  const kept = await bench.commit(primary, ended);
  await store.helpFlush(primary, ended);
  await harness.writePastTheService(primary, 4_000);
  for (const replica of harness.replicas) await harness.catchUp(replica);
  const arrived = await watch(bench, heir);
  await harness.cut(heir);
  const lost = await bench.commit(primary, ended);
  await store.helpFlush(primary, ended);
  await harness.catchUp(other);
  await harness.kill(primary);
  assert.equal((await bench.authority(ended)).kind, "none");

  await harness.promote(heir);
  await refusedWith(bench.commit(heir, ended), "epoch_changed");
  const asked = await bench.authority(ended);
  assert.deepEqual(asked, { kind: "mint", node: heir, command: null, supersedes: [] });
  // What arrived in a stream of some other epoch proves nothing about this one.
  const streamed = { epoch: harness.newId() as string as EpochId, ...arrived };
  const record = await bench.mint(heir, { streamed });
  assert.ok(offsetOf(record.forkOffset) < arrived.offset);
  const epoch = record.id as EpochId;
  assert.deepEqual([record.cause, record.previous, record.node], ["promotion", ended, heir]);
  assert.deepEqual(await bench.checkFork(heir, record, [kept, lost]), [true, false]);
  assert.ok(offsetOf(record.forkOffset) >= kept.offset, "its witness arrived with it");
  assert.ok(record.forkLimit !== null && offsetOf(record.forkLimit) >= offsetOf(record.forkOffset));
  assert.ok(offsetOf(record.forkLimit) < lost.offset, "the log was left before it");
  assert.deepEqual(await bench.authority(ended), { kind: "primary", node: heir, epoch });

  const request = { epoch, keys: [kept, lost], tombstone: "lost", patienceMs: PATIENCE_MS } as const;
  const { receipts } = await store.settle(heir, request);
  assert.deepEqual(receipts, [
    { kind: "commit", epoch: ended, digest: DIGEST },
    { kind: "lost", epoch, digest: 0n },
  ]);
  const retried = bench.spec(epoch, [harness.statements.put(lost.key, "2")], { id: lost.id });
  assert.equal((await store.execute(heir, retried)).kind, "already_settled", "a lost id never commits again");
  await refusedWith(bench.commit(heir, ended), "epoch_changed");

  // The other replica is further than the promoted one: it cannot follow, and must not be counted.
  await harness.heal(heir);
  await harness.follow(other, heir);
  await bench.commit(heir, epoch);
  await store.helpFlush(heir, epoch);
  const stranger = await store.probe(other);
  assert.ok(
    stranger.epochs.every(({ id }) => id !== epoch),
    "it has not read the new epoch's record",
  );
}

/** How far the caller has seen the epoch's stream arrive on the replica. */
async function watch(bench: Bench, replica: string): Promise<{ offset: Offset; incarnation: string }> {
  const { incarnation, upstream } = await bench.store.probe(replica);
  assert.ok(upstream !== null);
  return { offset: upstream.flushed, incarnation };
}

async function watchedStream(bench: Bench): Promise<void> {
  const { store, harness, primary } = bench;
  const [heir, other] = harness.replicas;
  const ended = await bench.begin();
  await store.helpFlush(primary, ended);
  const { offset: readAt } = await bench.read(primary, ended, bench.newKey());
  await harness.writePastTheService(primary, 4_000);
  await harness.catchUp(heir);
  await harness.catchUp(other);
  const streamed = { epoch: ended, ...(await watch(bench, heir)) };
  assert.ok(streamed.offset > readAt);
  const before = { epoch: ended, ...(await watch(bench, other)) };
  await harness.cleanRestart(other);
  await harness.kill(primary);
  await harness.promote(heir);
  const record = await bench.mint(heir, { streamed });
  assert.ok(offsetOf(record.forkOffset) >= readAt, "the watched stream had passed it");
  assert.ok(offsetOf(record.forkOffset) <= streamed.offset);

  // Before a restart it proves nothing.
  await harness.promote(other);
  const elsewhere = await bench.mint(other, { streamed: before });
  assert.ok(offsetOf(elsewhere.forkOffset) < before.offset);
}

async function crashThenPromotion(bench: Bench): Promise<void> {
  const { store, harness, primary } = bench;
  const [heir, other] = harness.replicas;
  const ended = await bench.begin();
  const kept = await bench.commit(primary, ended);
  await store.helpFlush(primary, ended);
  for (const replica of harness.replicas) await harness.catchUp(replica);
  const streamed = { epoch: ended, ...(await watch(bench, heir)) };
  await harness.holdFlush(primary);
  const lost = await bench.commit(primary, ended);
  const { offset: readAt } = await bench.read(primary, ended, lost.key);
  await harness.crash(primary);
  // No service begins an epoch; the log goes on past the lost transaction's position, and the
  // replica gets all of it.
  await harness.writePastTheService(primary, Number(readAt - streamed.offset) + 4_000);
  await harness.catchUp(heir);
  await harness.catchUp(other);
  await harness.kill(primary);
  await harness.promote(heir);
  const record = await bench.mint(heir, { streamed });
  assert.ok(record.forkLimit !== null && offsetOf(record.forkLimit) >= lost.offset, "or this tests nothing");
  assert.ok(offsetOf(record.forkOffset) < lost.offset);
  assert.deepEqual(await bench.checkFork(heir, record, [kept, lost]), [true, false]);
  await harness.follow(other, heir);
  await store.helpFlush(heir, record.id as EpochId);
  await harness.catchUp(other);
  assert.equal((await store.probe(other)).epochs.at(-1)?.id, record.id, "an equal replica follows");
  const seen = await store.positions(heir);
  assert.ok(seen?.replicas.some(({ node }) => node === other));
}
