// Conformance: what a primary loses when it ends and comes back, and what the record of its next
// epoch says about it.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { type EpochId, type EpochRecord } from "@highwater/protocol";
import { type MakeHarness } from "./harness.ts";
import { Bench, type Committed, offsetOf, PATIENCE_MS, refusedWith } from "./bench.ts";

export function restartTests(makeHarness: MakeHarness): void {
  describe("restarts of the primary", () => {
    let bench: Bench;
    before(async () => {
      bench = new Bench(await makeHarness());
      await bench.begin();
    });
    after(() => bench.harness.close());

    // One cluster for all of them: each begins where the last one ended.
    it("loses nothing in a clean restart", () => cleanRestart(bench));
    it("knows what a crash has lost", () => crash(bench));
    it("carries over what a witness has seen before a crash", () => crashAfterFlush(bench));
    it("does not mistake other log for what was lost in a crash", () => crashTwice(bench));
    it("comes back from the death of its host", () => hostDeath(bench));
    it("never runs an old epoch's transaction in a new one", () => oldEpochRefused(bench));
  });
}

/** The current epoch, or a new one if the last test has left the node without. */
async function current(bench: Bench): Promise<EpochId> {
  const { store, primary } = bench;
  const report = await store.probe(primary);
  bench.graph.add(report.epochs);
  return report.current ?? ((await bench.mint(primary)).id as EpochId);
}

/** The server is back, and nothing may commit until somebody has begun an epoch. */
async function checkInterregnum(bench: Bench, ended: EpochId): Promise<void> {
  const { store, primary } = bench;
  const report = await store.probe(primary);
  assert.deepEqual([report.role, report.current, report.epochs.at(-1)?.id], ["primary", null, ended]);
  assert.equal(await store.positions(primary), null);
  store.forget(primary);
  await refusedWith(bench.commit(primary, ended), "epoch_changed");
  await refusedWith(bench.read(primary, ended, bench.newKey()), "epoch_changed");
  await refusedWith(store.helpFlush(primary, ended), "epoch_changed");
  assert.deepEqual((await bench.authority(ended)).kind, "mint");
}

async function succeed(bench: Bench, ended: EpochId): Promise<EpochRecord> {
  const seqBefore = bench.graph.get(ended)?.seq ?? 0;
  const record = await bench.mint(bench.primary);
  assert.deepEqual([record.previous, record.node, record.commanded], [ended, bench.primary, false]);
  assert.ok(record.seq > seqBefore);
  assert.equal((await bench.store.probe(bench.primary)).current, record.id);
  return record;
}

async function cleanRestart(bench: Bench): Promise<void> {
  const { store, harness, primary } = bench;
  const ended = await current(bench);
  const transactions = [await bench.commit(primary, ended)];
  await store.helpFlush(primary, ended);
  // A helper that knows less than another, or than before, hides nothing.
  await store.helpFlush(primary, ended, { disk: "9", region: "10" });
  await harness.otherStore.helpFlush(primary, ended, { disk: "10", region: "7" });
  await store.helpFlush(primary, ended);
  const witness = await store.witnessOf(primary, ended);
  assert.ok(witness !== null);
  assert.deepEqual(witness.marks, { disk: "10", region: "10" });
  assert.ok(witness.reached >= (transactions[0]?.offset ?? 0n) && witness.seenBy > witness.reached);
  assert.equal(await store.witnessOf(primary, crypto.randomUUID() as EpochId), null);
  transactions.push(await bench.commit(primary, ended));
  const { offset: readAt } = await bench.read(primary, ended, bench.newKey());
  const { incarnation } = await store.probe(primary);
  await harness.cleanRestart(primary);
  assert.notEqual((await store.probe(primary)).incarnation, incarnation);
  await checkInterregnum(bench, ended);

  const record = await succeed(bench, ended);
  assert.equal(record.cause, "clean_restart");
  assert.deepEqual(await bench.checkFork(primary, record, transactions), [true, true]);
  const fork = offsetOf(record.forkOffset);
  for (const { offset } of transactions) assert.ok(offset <= fork);
  assert.ok(readAt <= fork);
  assert.ok(record.forkLimit !== null && offsetOf(record.forkLimit) >= fork);
  await bench.commit(primary, record.id as EpochId);
}

async function crash(bench: Bench): Promise<void> {
  const { store, harness, primary } = bench;
  const ended = await current(bench);
  const transactions = [await bench.commit(primary, ended)];
  await store.helpFlush(primary, ended);
  await harness.holdFlush(primary);
  for (let i = 0; i < 10; i++) transactions.push(await bench.commit(primary, ended));
  await harness.crash(primary);
  await checkInterregnum(bench, ended);

  const record = await succeed(bench, ended);
  assert.equal(record.cause, "crash_recovery");
  const presence = await bench.checkFork(primary, record, transactions);
  assert.equal(presence[0], true, "it was on disk");
  assert.equal(presence.at(-1), false, "a crash that loses nothing tests nothing");
  const epoch = record.id as EpochId;
  const keys = transactions.filter((_, index) => presence[index] === false);
  const request = { epoch, keys, tombstone: "lost", patienceMs: PATIENCE_MS } as const;
  const { receipts } = await store.settle(primary, request);
  assert.deepEqual(
    receipts,
    keys.map(() => ({ kind: "lost", epoch, digest: 0n })),
  );
}

async function crashAfterFlush(bench: Bench): Promise<void> {
  const { store, harness, primary } = bench;
  const ended = await current(bench);
  const seen = await bench.commit(primary, ended);
  const { offset: readAt } = await bench.read(primary, ended, seen.key);
  await store.helpFlush(primary, ended);
  await harness.crash(primary);
  const record = await succeed(bench, ended);
  const fork = offsetOf(record.forkOffset);
  assert.ok(fork >= seen.offset && fork >= readAt, "what was flushed with help needs no look-up");
  assert.deepEqual(await bench.checkFork(primary, record, [seen]), [true]);
}

async function crashTwice(bench: Bench): Promise<void> {
  const { store, harness, primary } = bench;
  const ended = await current(bench);
  await harness.holdFlush(primary);
  const { flushed } = await store.probe(primary);
  const transactions: Committed[] = [];
  for (let i = 0; i < 3; i++) transactions.push(await bench.commit(primary, ended));
  const { applied } = await store.probe(primary);
  await harness.crash(primary);
  // The log below the lost transactions' positions is now another one.
  await harness.writePastTheService(primary, Number(applied - flushed));
  await harness.crash(primary);
  const record = await succeed(bench, ended);
  const presence = await bench.checkFork(primary, record, transactions);
  assert.deepEqual(presence, [false, false, false]);
  assert.ok(offsetOf(record.startOffset) > (transactions.at(-1)?.offset ?? 0n));
  const begun = bench.graph.get(ended)?.startOffset ?? "";
  assert.ok(offsetOf(record.forkOffset) >= offsetOf(begun), "the ended epoch's own record is here");
}

async function hostDeath(bench: Bench): Promise<void> {
  const { store, harness, primary } = bench;
  const ended = await current(bench);
  const seen = await bench.commit(primary, ended);
  await store.helpFlush(primary, ended);
  const { incarnation } = await store.probe(primary);
  await harness.kill(primary);
  await assert.rejects(store.probe(primary));
  await assert.rejects(store.positions(primary));
  assert.equal(
    (await refusedWith(bench.commit(primary, ended), "primary_unavailable", "commit_unconfirmed")).name,
    "HighwaterError",
  );
  assert.deepEqual((await bench.authority(ended)).kind, "none");
  await harness.start(primary);
  assert.notEqual((await store.probe(primary)).incarnation, incarnation);
  await checkInterregnum(bench, ended);
  const record = await succeed(bench, ended);
  assert.equal(record.cause, "crash_recovery");
  assert.deepEqual(await bench.checkFork(primary, record, [seen]), [true]);
}

async function oldEpochRefused(bench: Bench): Promise<void> {
  const { store, harness, primary } = bench;
  const ended = await current(bench);
  const seen = await bench.commit(primary, ended);
  await store.helpFlush(primary, ended);
  await harness.crash(primary);
  const epoch = (await succeed(bench, ended)).id as EpochId;
  for (const process of [store, harness.otherStore]) {
    const spec = bench.spec(ended, [harness.statements.put(seen.key, "2")]);
    await refusedWith(
      process.execute(primary, spec),
      "epoch_changed",
      "primary_unavailable",
      "commit_unconfirmed",
    );
    await refusedWith(process.execute(primary, spec), "epoch_changed");
    assert.equal((await store.lookUp(primary, [spec])).receipts[0]?.kind, "absent");
  }
  assert.equal((await bench.read(primary, epoch, seen.key)).value, "1");
  const replay = bench.spec(epoch, [harness.statements.put(seen.key, "3")], { id: seen.id });
  assert.equal(
    (await store.execute(primary, replay)).kind,
    "already_settled",
    "ids are unique over all epochs",
  );
}
