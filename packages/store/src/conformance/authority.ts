// Conformance: names the primary end to end, from the reports of real nodes to the next epoch.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type EpochId } from "@highwater/protocol";
import { type MakeHarness } from "./harness.ts";
import { Bench, refusedWith } from "./bench.ts";

export function authorityTests(makeHarness: MakeHarness): void {
  describe("authority", () => {
    it("ignores a zombie, until an operator reinstates it", () => Bench.with(makeHarness, zombie));
    it("stops at a split brain, until an operator settles it", () => Bench.with(makeHarness, splitBrain));
    it("does not carry out a command that waited while another was", () =>
      Bench.with(makeHarness, staleCommand));
    it("does not carry out a command that came along with a copy", () =>
      Bench.with(makeHarness, inheritedCommand));
  });
}

/**
 * A replica is promoted while the old primary lives on: the old one's epoch is an ancestor of the
 * new one's.
 */
async function zombie(bench: Bench): Promise<void> {
  const { store, harness, primary } = bench;
  const [heir] = harness.replicas;
  const first = await bench.begin();
  const old = await bench.commit(primary, first);
  await store.helpFlush(primary, first);
  await harness.catchUp(heir);
  await harness.promote(heir);
  const asked = await bench.authority(first);
  assert.deepEqual(asked, { kind: "mint", node: heir, command: null, supersedes: [] });
  const second = await bench.obey(asked);
  const heirs = { kind: "primary", node: heir, epoch: second.id as EpochId };
  for (const known of [null, first, second.id as EpochId])
    assert.deepEqual(await bench.authority(known), heirs);

  // The zombie goes on committing for those who have not learned of it; its restart makes it no
  // less a zombie.
  const stray = await bench.commit(primary, first);
  assert.equal(await bench.isPresent(heir, stray), false);
  assert.equal(await bench.isPresent(heir, old), true);

  await harness.authorize(primary);
  const commanded = await bench.authority(second.id as EpochId);
  assert.ok(commanded.kind === "mint" && commanded.node === primary && commanded.command !== null);
  assert.deepEqual(commanded.supersedes, [second.id]);
  const request = {
    minSeq: bench.graph.maxSeq + 1,
    supersedes: commanded.supersedes,
    command: commanded.command,
    streamed: null,
    // The caller has followed the epoch that is given up, too. Its offsets mean nothing in the
    // other one's log.
    finalMarks: { [first]: { disk: "5" }, [second.id]: { disk: "7" } },
  };
  const [third, same] = await Promise.all([
    store.mint(primary, request),
    harness.otherStore.mint(primary, request),
  ]);
  assert.equal(same.id, third.id, "one command begins one epoch, whichever process carries it out");
  assert.deepEqual([third.cause, third.previous, third.commanded], ["reinstated", first, true]);
  assert.deepEqual(third.finalMarks, { disk: "5" }, "the marks of the epoch before");
  // A tracker that has seen more of it says so behind the record; lower marks and other records
  // change nothing.
  await store.raiseFinalMarks(primary, third.id as EpochId, { disk: "4", region: "6" });
  await harness.otherStore.raiseFinalMarks(primary, third.id as EpochId, { disk: "10", region: "6" });
  await store.raiseFinalMarks(primary, second.id as EpochId, { disk: "99" });
  const raised = (await store.probe(primary)).epochs.at(-1);
  assert.deepEqual(raised?.finalMarks, { disk: "10", region: "6" });
  assert.equal(third.forkLimit, null, "the old epoch's transactions may still be committing");
  assert.deepEqual(await bench.checkFork(primary, third, [old, stray]), [true, true]);
  const reinstated = { kind: "primary", node: primary, epoch: third.id };
  for (const known of [null, second.id as EpochId, third.id as EpochId])
    assert.deepEqual(await bench.authority(known), reinstated);
  await refusedWith(bench.commit(primary, first), "epoch_changed");

  await harness.crash(primary);
  const recovered = await bench.authority(third.id as EpochId);
  assert.ok(recovered.kind === "mint" && recovered.node === primary && recovered.command === null);
}

/** Two nodes have each begun an epoch that the other does not know. */
async function splitBrain(bench: Bench): Promise<void> {
  const { store, harness, primary } = bench;
  const [heir] = harness.replicas;
  const first = await bench.begin();
  await store.helpFlush(primary, first);
  await harness.catchUp(heir);
  await harness.promote(heir);
  await harness.crash(primary);
  const both = await bench.authority(first);
  assert.equal(both.kind, "split", "two between epochs, and nothing ranks them");

  const mine = await bench.mint(primary);
  const theirs = await bench.mint(heir);
  for (const known of [null, first, mine.id as EpochId, theirs.id as EpochId]) {
    const split = await bench.authority(known);
    assert.ok(split.kind === "split");
    assert.deepEqual([...split.nodes].sort(), [primary, heir].sort());
  }
  await harness.authorize(heir);
  const commanded = await bench.authority(mine.id as EpochId);
  assert.ok(commanded.kind === "mint" && commanded.node === heir);
  assert.deepEqual(commanded.supersedes, [mine.id]);
  const settled = await bench.obey(commanded);
  assert.deepEqual([settled.previous, settled.commanded], [theirs.id, true]);
  const winner = { kind: "primary", node: heir, epoch: settled.id };
  for (const known of [null, first, mine.id as EpochId, theirs.id as EpochId])
    assert.deepEqual(await bench.authority(known), winner);

  // More epochs, and a higher sequence number, do not bring the loser back.
  await harness.crash(primary);
  for (const known of [null, mine.id as EpochId, settled.id as EpochId])
    assert.deepEqual(await bench.authority(known), winner);
  const later = await bench.mint(primary, { minSeq: 1_000 });
  assert.ok(later.seq > settled.seq);
  for (const known of [null, settled.id as EpochId]) assert.deepEqual(await bench.authority(known), winner);
}

/**
 * The first command is given on a node that no process reaches; then another node is chosen, and
 * the first one returns.
 */
async function staleCommand(bench: Bench): Promise<void> {
  const { store, harness, primary } = bench;
  const [heir] = harness.replicas;
  const first = await bench.begin();
  await store.helpFlush(primary, first);
  await harness.catchUp(heir);
  await harness.authorize(primary);
  await harness.stop(primary);
  await harness.promote(heir);
  await harness.authorize(heir);
  const commanded = await bench.authority(first);
  assert.ok(commanded.kind === "mint" && commanded.node === heir && commanded.command !== null);
  const second = await bench.obey(commanded);
  const kept = await bench.commit(heir, second.id as EpochId);

  await harness.start(primary);
  store.forget(primary);
  const { role, command } = await store.probe(primary);
  assert.ok(role === "primary" && command !== null, "the first command is still there");
  const heirs = { kind: "primary", node: heir, epoch: second.id };
  for (const known of [null, first, second.id as EpochId])
    assert.deepEqual(await bench.authority(known), heirs);
  await harness.cleanRestart(heir);
  const restarted = await bench.authority(second.id as EpochId);
  assert.ok(restarted.kind === "mint" && restarted.node === heir && restarted.command === null);
  const third = await bench.obey(restarted);
  assert.equal(await bench.isPresent(heir, kept), true);

  // Alone it is no better, to those who remember; they say what a command would have to name.
  await harness.kill(heir);
  const alone = await bench.authority(third.id as EpochId);
  assert.ok(alone.kind === "none" && alone.reason.includes(third.id), JSON.stringify(alone));
  await harness.authorize(primary, [second.id as EpochId]);
  const again = await bench.authority(third.id as EpochId);
  assert.ok(again.kind === "mint" && again.node === primary && again.command !== command.id);
  assert.deepEqual([...again.supersedes].sort(), [second.id, third.id].sort());
  const fourth = await bench.obey(again);
  assert.deepEqual([fourth.previous, fourth.commanded], [first, true]);
  assert.equal((await store.probe(primary)).command, null, "the later command has settled the earlier one");
}

/**
 * A replica inherits the row that names its primary, is promoted, and the old primary is cloned
 * from it.
 */
async function inheritedCommand(bench: Bench): Promise<void> {
  const { store, harness, primary } = bench;
  const [heir] = harness.replicas;
  const first = await bench.begin();
  await store.helpFlush(primary, first);
  await harness.authorize(primary);
  await harness.catchUp(heir);
  await harness.kill(primary);
  await harness.promote(heir);
  const second = await bench.obey(await bench.authority(first));
  assert.deepEqual([second.node, second.commanded], [heir, false], "the row names another node");
  await harness.restore(primary, await harness.snapshot(heir), { replicaOf: heir });
  await harness.catchUp(primary);
  await harness.kill(heir);
  await harness.promote(primary);
  store.forget(primary);
  const asked = await bench.authority(second.id as EpochId);
  assert.deepEqual(asked, { kind: "mint", node: primary, command: null, supersedes: [] });
  const third = await bench.obey(asked);
  assert.deepEqual([third.previous, third.commanded], [second.id, false]);
}
