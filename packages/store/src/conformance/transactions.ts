// Conformance: the tables, the first epoch, and transactions without failures.
import assert from "node:assert/strict";
import { after, before, describe } from "node:test";
import { type EpochId } from "@highwater/protocol";
import { type TransactionSpec } from "../port.ts";
import { Bench, committed, PATIENCE_MS, refusedWith } from "./bench.ts";
import { type It, type MakeHarness } from "./harness.ts";

export function transactionTests(makeHarness: MakeHarness, it: It): void {
  describe("a store that has not been used yet", () => {
    it("is prepared, begins its first epoch and runs a transaction", () =>
      Bench.with(makeHarness, firstContact));
  });

  describe("transactions", () => {
    let bench: Bench;
    let epoch: EpochId;
    before(async () => {
      bench = new Bench(await makeHarness());
      epoch = await bench.begin();
    });
    after(() => bench.harness.close());

    it("commits, at a position above everything before it", () => risingPositions(bench, epoch));
    it("brings a commit to every replica once the flush is helped along", () => reachReplicas(bench, epoch));
    it("runs a read-only transaction at a position above what it read", () => readOnly(bench, epoch));
    it("does not run the same id twice", () => replay(bench, epoch));
    it("runs one of two concurrent attempts of one id", () => concurrentAttempts(bench, epoch));
    it("applies nothing of a transaction that fails, and frees its id", () => failing(bench, epoch));
    it("says before it sends a write that it does, and nothing of what it does not send", () =>
      beforeSend(bench, epoch));
    it("refuses another epoch's transaction and goes on with its own", () => wrongEpoch(bench, epoch));
    it("runs on after its connections were dropped", () => forgotten(bench, epoch));
    it("leaves a replica out while it is cut off", () => cutReplica(bench, epoch));
    it("reports which streams are synchronous, with their positions", () => synchronousStreams(bench));
    it("begins no epoch on a replica, and runs nothing there", () => notOnReplica(bench, epoch));
  });
}

async function firstContact(bench: Bench): Promise<void> {
  const { harness, store, primary } = bench;
  const { otherStore } = harness;
  const blank = await store.probe(primary);
  assert.deepEqual([blank.role, blank.prepared, blank.current, blank.epochs], ["primary", false, null, []]);
  assert.equal(blank.unfit, null);
  assert.deepEqual(await bench.authority(null), { kind: "prepare", node: primary });

  await Promise.all([store.prepare(primary), otherStore.prepare(primary)]);
  await store.prepare(primary);
  const prepared = await store.probe(primary);
  assert.deepEqual([prepared.prepared, prepared.current, prepared.epochs], [true, null, []]);
  assert.equal(await store.positions(primary), null);
  const nobodys = harness.newId() as string as EpochId;
  await refusedWith(bench.commit(primary, nobodys), "epoch_changed");
  await refusedWith(bench.read(primary, nobodys, "key"), "epoch_changed");
  await refusedWith(store.helpFlush(primary, nobodys), "epoch_changed");
  assert.equal((await bench.authority(null)).kind, "mint");

  const request = { minSeq: 7, supersedes: [], command: null, streamed: null, finalMarks: {} };
  const [mine, theirs] = await Promise.all([store.mint(primary, request), otherStore.mint(primary, request)]);
  assert.deepEqual(mine, theirs, "two that mint at once begin one epoch");
  assert.deepEqual(await store.mint(primary, { ...request, minSeq: 9 }), mine);
  const { seq, previous, node, cause, forkOffset, commanded, supersedes } = mine;
  assert.deepEqual(
    { seq, previous, node, cause, forkOffset, commanded, supersedes },
    {
      seq: 7,
      previous: null,
      node: primary,
      cause: "first",
      forkOffset: "0",
      commanded: false,
      supersedes: [],
    },
  );
  assert.ok(!Number.isNaN(Date.parse(mine.startedAt)), mine.startedAt);
  const begun = await store.probe(primary);
  assert.deepEqual([begun.current, begun.epochs], [mine.id, [mine]]);
  const epoch = mine.id as EpochId;
  assert.deepEqual(await bench.authority(null), { kind: "primary", node: primary, epoch });

  const transaction = await bench.commit(primary, epoch);
  assert.ok(transaction.offset > BigInt(mine.startOffset));
  assert.ok(await bench.isPresent(primary, transaction));
}

async function risingPositions(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  let last = (await store.positions(primary))?.applied ?? 0n;
  for (let i = 0; i < 5; i++) {
    const { offset } = await bench.commit(primary, epoch);
    assert.ok(offset > last, `${String(offset)} is not above ${String(last)}`);
    const positions = await harness.otherStore.positions(primary);
    assert.ok(positions !== null && positions.applied >= offset);
    assert.deepEqual([positions.node, positions.epoch], [primary, epoch]);
    last = positions.applied;
  }
}

async function reachReplicas(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const { offset, key } = await bench.commit(primary, epoch);
  const reached = await store.helpFlush(primary, epoch);
  assert.ok(reached >= offset, `${key}: reached ${String(reached)}, committed at ${String(offset)}`);
  const flushed = (await store.positions(primary))?.flushed ?? 0n;
  assert.ok(flushed >= reached, `${key}: flushed ${String(flushed)}, reached ${String(reached)}`);
  for (const replica of harness.replicas) {
    await harness.catchUp(replica);
    const seen = (await store.positions(primary))?.replicas.find(({ node }) => node === replica);
    assert.ok(seen !== undefined && seen.flushed >= offset, `${replica} is at ${String(seen?.flushed)}`);
    const report = await store.probe(replica);
    assert.deepEqual([report.role, report.current, report.command], ["replica", null, null]);
    assert.equal(report.epochs.at(-1)?.id, epoch);
    assert.ok(report.flushed >= offset && report.applied >= offset);
    assert.ok(report.upstream !== null && report.upstream.flushed >= offset);
  }
}

async function readOnly(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, primary, harness } = bench;
  const { offset, key } = await bench.commit(primary, epoch);
  const { value, offset: readAt } = await bench.read(primary, epoch, key);
  assert.equal(value, "1");
  assert.ok(readAt >= offset);
  assert.equal((await bench.read(primary, epoch, bench.newKey())).value, null);
  const spec = bench.spec(epoch, [harness.statements.put(key, "2")], { readOnly: true });
  await refusedWith(store.execute(primary, spec), "statement_failed");
  assert.equal((await bench.read(primary, epoch, key)).value, "1");
}

async function replay(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const { id, key } = await bench.commit(primary, epoch);
  const again = bench.spec(epoch, [harness.statements.put(key, "2")], { id });
  assert.deepEqual(await store.execute(primary, again), { kind: "already_settled" });
  assert.deepEqual(await harness.otherStore.execute(primary, again), { kind: "already_settled" });
  assert.equal((await bench.read(primary, epoch, key)).value, "1");
}

async function concurrentAttempts(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const key = bench.newKey();
  const spec = bench.spec(epoch, [harness.statements.put(key, "1")]);
  const attempts = await Promise.all([
    store.execute(primary, spec),
    harness.otherStore.execute(primary, spec),
    store.execute(primary, spec),
  ]);
  const kinds = attempts.map(({ kind }) => kind).sort();
  assert.deepEqual(kinds, ["already_settled", "already_settled", "committed"]);
}

async function failing(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const { put, failing: refused } = harness.statements;
  const key = bench.newKey();
  const spec = bench.spec(epoch, [put(key, "1"), refused]);
  const error = await refusedWith(store.execute(primary, spec), "constraint_violation");
  assert.deepEqual([error.outcome, error.details.statement], ["not_applied", 1]);
  assert.equal((await bench.read(primary, epoch, key)).value, null);
  assert.equal((await store.lookUp(primary, [spec])).receipts[0]?.kind, "absent");
  const mended = { ...spec, statements: [put(key, "2")] };
  committed(await store.execute(primary, mended));
  assert.equal((await bench.read(primary, epoch, key)).value, "2");
}

async function beforeSend(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const { put, failing: refused } = harness.statements;
  let sent = 0;
  const onBeforeSend = (): void => {
    sent++;
  };
  const write = (more: Partial<TransactionSpec> = {}): TransactionSpec =>
    bench.spec(epoch, [put(bench.newKey(), "1")], { ...more, onBeforeSend });
  committed(await store.execute(primary, write()));
  assert.equal(sent, 1);
  await refusedWith(store.execute(primary, write({ statements: [refused] })), "constraint_violation");
  assert.equal(sent, 2, "the server refused it, so it was sent");
  await assert.rejects(store.execute(primary, write(), AbortSignal.abort()));
  assert.equal(sent, 2, "cancelled before it was sent");

  const opening = await store.begin(primary, write());
  assert.ok(opening.kind === "open");
  assert.equal(sent, 2, "a begin is no commit");
  const { transaction } = opening;
  await assert.rejects(transaction.commit([{ sql: "COMMIT" }], { onBeforeSend }));
  assert.equal(sent, 2, "refused by the store itself");
  committed(await transaction.commit([], { onBeforeSend }));
  assert.equal(sent, 3);
}

async function wrongEpoch(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, primary, harness } = bench;
  const stranger = harness.newId() as string as EpochId;
  const key = bench.newKey();
  const spec = bench.spec(stranger, [harness.statements.put(key, "1")]);
  const error = await refusedWith(store.execute(primary, spec), "epoch_changed");
  assert.equal(error.outcome, "not_applied");
  await refusedWith(bench.read(primary, stranger, key), "epoch_changed");
  await refusedWith(store.helpFlush(primary, stranger), "epoch_changed");
  committed(await store.execute(primary, { ...spec, epoch }));
  await refusedWith(bench.commit(primary, stranger), "epoch_changed");
  assert.equal((await bench.read(primary, epoch, key)).value, "1");
}

async function forgotten(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const spec = bench.spec(epoch, [harness.statements.put(bench.newKey(), "1"), harness.statements.slow]);
  const waiting = store.execute(primary, spec);
  const outcome = refusedWith(waiting, "commit_unconfirmed");
  await harness.untilSlowRuns(primary);
  store.forget(primary);
  assert.equal((await outcome).outcome, "unknown");
  await bench.commit(primary, epoch);
  // The server may not have noticed, and may hold the id still.
  const request = { epoch, keys: [spec], tombstone: "aborted", patienceMs: PATIENCE_MS } as const;
  const { receipts } = await store.settle(primary, request);
  assert.equal(receipts[0]?.kind, "aborted");
}

async function cutReplica(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const [cut, other] = harness.replicas;
  await harness.cut(cut);
  const { offset } = await bench.commit(primary, epoch);
  await store.helpFlush(primary, epoch);
  await harness.catchUp(other);
  const positions = await store.positions(primary);
  const of = (replica: string): bigint =>
    positions?.replicas.find(({ node }) => node === replica)?.flushed ?? 0n;
  assert.ok(of(other) >= offset);
  assert.ok(of(cut) < offset);
  await harness.heal(cut);
  await harness.catchUp(cut);
  const healed = (await store.positions(primary))?.replicas.find(({ node }) => node === cut);
  assert.ok(healed !== undefined && healed.flushed >= offset);
}

async function synchronousStreams(bench: Bench): Promise<void> {
  const { store, harness, primary } = bench;
  const [first, second] = harness.replicas;
  const shown = async (): Promise<string[]> => {
    // At the pace of a poll: what was known of the streams before must not be taken for what they
    // are now.
    const replicas = (await store.positions(primary))?.replicas ?? [];
    assert.equal(replicas.length, 2);
    return replicas.flatMap(({ node, synchronous }) => (synchronous ? [node] : [])).sort();
  };
  assert.deepEqual(await shown(), []);
  for (const chosen of [[first], [second], [first, second], []]) {
    await shown();
    await harness.setSynchronous(primary, chosen);
    assert.deepEqual(await shown(), [...chosen].sort());
  }
}

async function notOnReplica(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness } = bench;
  const [replica] = harness.replicas;
  await assert.rejects(bench.mint(replica));
  await assert.rejects(store.positions(replica));
  const error = await refusedWith(bench.commit(replica, epoch), "primary_unavailable", "epoch_changed");
  assert.equal(error.outcome, "not_applied");
}
