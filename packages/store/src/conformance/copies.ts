// Conformance: copies of nodes take the place of the primary or of a replica.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type EpochId } from "@highwater/protocol";
import { type MakeHarness } from "./harness.ts";
import { Bench, offsetOf, refusedWith } from "./bench.ts";

export function copyTests(makeHarness: MakeHarness): void {
  describe("copies", () => {
    it("carries over no more than an older copy of the primary holds", () =>
      Bench.with(makeHarness, olderCopy));
    it("knows a copy of a cleanly stopped node from the node", () => Bench.with(makeHarness, cleanCopy));
    it("counts a replica that was restored from a copy", () => Bench.with(makeHarness, replicaCopy));
  });
}

async function olderCopy(bench: Bench): Promise<void> {
  const { store, harness, primary } = bench;
  const ended = await bench.begin();
  const old = await bench.commit(primary, ended);
  await store.helpFlush(primary, ended);
  const copy = await harness.snapshot(primary);
  const later = await bench.commit(primary, ended);
  await store.helpFlush(primary, ended);
  for (const replica of harness.replicas) await harness.catchUp(replica);
  await harness.kill(primary);
  await harness.restore(primary, copy, "primary");
  store.forget(primary);
  harness.otherStore.forget(primary);

  const report = await store.probe(primary);
  assert.deepEqual([report.role, report.current], ["primary", null]);
  await refusedWith(bench.commit(primary, ended), "epoch_changed");
  const asked = await bench.authority(ended);
  const record = await bench.obey(asked);
  assert.deepEqual(await bench.checkFork(primary, record, [old, later]), [true, false]);
  assert.ok(offsetOf(record.forkOffset) >= old.offset);
  assert.ok(offsetOf(record.forkOffset) < later.offset);

  // The replicas are further, but in another history: their positions are none of this epoch's.
  const epoch = record.id as EpochId;
  await bench.commit(primary, epoch);
  await store.helpFlush(primary, epoch);
  for (const replica of harness.replicas) {
    const { epochs, role } = await store.probe(replica);
    assert.equal(role, "replica");
    assert.ok(epochs.every(({ id }) => id !== epoch));
  }
}

async function cleanCopy(bench: Bench): Promise<void> {
  const { store, harness, primary } = bench;
  const first = await bench.begin();
  const old = await bench.commit(primary, first);
  const { offset: readAt } = await bench.read(primary, first, old.key);
  await harness.stop(primary);
  const copy = await harness.snapshot(primary);
  await harness.start(primary);
  const second = await bench.mint(primary);
  const later = await bench.commit(primary, second.id as EpochId);
  await store.helpFlush(primary, second.id as EpochId);
  await harness.kill(primary);
  await harness.restore(primary, copy, "primary");
  store.forget(primary);
  harness.otherStore.forget(primary);

  const report = await store.probe(primary);
  assert.deepEqual([report.role, report.current, report.epochs.at(-1)?.id], ["primary", null, first]);
  for (const epoch of [first, second.id as EpochId])
    await refusedWith(bench.commit(primary, epoch), "epoch_changed");
  const asked = await bench.authority(second.id as EpochId);
  assert.equal(asked.kind, "none", "to those who know the later epoch it is a zombie");

  await harness.authorize(primary, [second.id as EpochId]);
  const commanded = await bench.authority(second.id as EpochId);
  assert.ok(commanded.kind === "mint" && commanded.supersedes.includes(second.id as EpochId));
  const third = await bench.obey(commanded);
  assert.deepEqual([third.previous, third.commanded], [first, true]);
  assert.ok(third.seq > second.seq);
  assert.deepEqual(await bench.checkFork(primary, third, [old]), [true]);
  const fork = offsetOf(third.forkOffset);
  assert.ok(old.offset <= fork && readAt <= fork, "the first epoch ended cleanly: all of it is in the copy");
  assert.equal(await bench.isPresent(primary, later), false);
  const decided = await bench.authority(second.id as EpochId);
  assert.deepEqual(decided, { kind: "primary", node: primary, epoch: third.id });
}

async function replicaCopy(bench: Bench): Promise<void> {
  const { store, harness, primary } = bench;
  const [replica] = harness.replicas;
  const epoch = await bench.begin();
  const copy = await harness.snapshot(primary);
  const later = await bench.commit(primary, epoch);
  await store.helpFlush(primary, epoch);
  await harness.kill(replica);
  await harness.restore(replica, copy, { replicaOf: primary });
  await harness.catchUp(replica);
  const report = await store.probe(replica);
  assert.deepEqual([report.role, report.current, report.epochs.at(-1)?.id], ["replica", null, epoch]);
  const positions = await store.positions(primary);
  const seen = positions?.replicas.find(({ node }) => node === replica);
  assert.ok(seen !== undefined && seen.flushed >= later.offset);
}
