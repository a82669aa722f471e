// Conformance: receipts and tombstones, and how long they are kept.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { type EpochId, txnTimestampMs } from "@highwater/protocol";
import { type MakeHarness } from "../conformance.ts";
import { type ReceiptState } from "../port.ts";
import { Bench, committed, PATIENCE_MS, refusedWith } from "./bench.ts";

/** Longer than the patience and a retry take together. */
const LIMIT_MS = 2_000;

export function receiptTests(makeHarness: MakeHarness): void {
  describe("receipts", () => {
    let bench: Bench;
    let epoch: EpochId;
    before(async () => {
      bench = new Bench(await makeHarness());
      epoch = await bench.begin();
    });
    after(() => bench.harness.close());

    it("tells every state of an id", () => everyState(bench, epoch));
    it("settles an absent id for good", () => settleAbsent(bench, epoch));
    it("leaves a commit alone", () => settleCommitted(bench, epoch));
    it("makes two that settle at once agree", () => settleTogether(bench, epoch));
    it("settles nothing in an epoch that is not the current one", () => settleElsewhere(bench, epoch));
    it("leaves a living transaction its id, and ends it when its time is over", () =>
      settleHeld(bench, epoch));
    it("ends at once what its own process has given up, and no other's", () => settleGivenUp(bench, epoch));
    it("expires what is old, for good", () => expire(bench, epoch));
  });
}

async function everyState(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const commit = await bench.commit(primary, epoch);
  const [aborted, lost, absent] = [harness.newId(), harness.newId(), harness.newId()];
  const expired = harness.newId(100 * harness.retentionMs);
  const early = harness.newId(-100 * harness.retentionMs);
  const settle = { epoch, patienceMs: PATIENCE_MS };
  await store.settle(primary, { ...settle, ids: [aborted], tombstone: "aborted" });
  await store.settle(primary, { ...settle, ids: [lost], tombstone: "lost" });

  const ids = [commit.id, aborted, lost, absent, expired, early];
  const found = await harness.otherStore.lookUp(primary, ids);
  assert.deepEqual(
    ids.map((id) => found.receipts.get(id)),
    [
      { kind: "commit", epoch, owner: 0n, digest: 0n },
      { kind: "aborted", epoch, owner: 0n, digest: 0n },
      { kind: "lost", epoch, owner: 0n, digest: 0n },
      { kind: "absent" },
      { kind: "expired" },
      { kind: "out_of_window" },
    ],
  );
  assert.equal(found.epoch, epoch);
  assert.ok(found.asOf >= commit.offset);
  const settled = await store.settle(primary, { ...settle, ids: [expired, early], tombstone: "lost" });
  assert.deepEqual(
    [...settled.receipts.values()].map(({ kind }) => kind),
    ["expired", "out_of_window"],
  );
  const old = await refusedWith(bench.commit(primary, epoch, { id: expired }), "id_expired");
  assert.equal(old.outcome, "unknown", "its receipt may have been dropped");
  await refusedWith(bench.commit(primary, epoch, { id: early }), "id_out_of_window");
}

async function settleAbsent(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const key = bench.newKey();
  const spec = bench.spec(epoch, [harness.statements.put(key, "1")]);
  const request = { epoch, ids: [spec.id], patienceMs: PATIENCE_MS };
  const settled = await store.settle(primary, { ...request, tombstone: "lost" });
  assert.deepEqual(settled.receipts.get(spec.id), { kind: "lost", epoch, owner: 0n, digest: 0n });
  const flushed = (await store.positions(primary))?.flushed ?? 0n;
  assert.ok(flushed >= settled.asOf, "a tombstone is durable on the primary when it is reported");
  assert.deepEqual(await store.execute(primary, spec), { kind: "already_settled" });
  assert.equal((await bench.read(primary, epoch, key)).value, null);
  const again = await store.settle(primary, { ...request, tombstone: "aborted" });
  assert.deepEqual(
    again.receipts.get(spec.id),
    { kind: "lost", epoch, owner: 0n, digest: 0n },
    "the first word stands",
  );
}

async function settleCommitted(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, primary } = bench;
  const transaction = await bench.commit(primary, epoch);
  const request = { epoch, ids: [transaction.id], tombstone: "aborted", patienceMs: PATIENCE_MS } as const;
  const { receipts, asOf } = await store.settle(primary, request);
  assert.deepEqual(receipts.get(transaction.id), { kind: "commit", epoch, owner: 0n, digest: 0n });
  assert.ok(asOf >= transaction.offset);
  assert.ok(await bench.isPresent(primary, transaction));
}

async function settleTogether(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const ids = Array.from({ length: 20 }, () => harness.newId());
  const request = { epoch, patienceMs: 10 * PATIENCE_MS };
  const [mine, theirs] = await Promise.all([
    store.settle(primary, { ...request, ids, tombstone: "aborted" }),
    harness.otherStore.settle(primary, { ...request, ids: [...ids].reverse(), tombstone: "lost" }),
  ]);
  for (const id of ids) assert.deepEqual(mine.receipts.get(id), theirs.receipts.get(id));
}

async function settleElsewhere(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const id = harness.newId();
  const stranger = harness.newId() as string as EpochId;
  const request = { ids: [id], tombstone: "lost", patienceMs: PATIENCE_MS } as const;
  await refusedWith(store.settle(primary, { ...request, epoch: stranger }), "epoch_changed");
  assert.equal((await store.lookUp(primary, [id])).receipts.get(id)?.kind, "absent");
  await bench.commit(primary, epoch, { id });
}

async function settleHeld(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const key = bench.newKey();
  const statements = [harness.statements.put(key, "1"), harness.statements.slow];
  const spec = bench.spec(epoch, statements, { limitMs: LIMIT_MS });
  const outcome = refusedWith(store.execute(primary, spec), "commit_unconfirmed");
  await harness.untilSlowRuns(primary);
  const others = [harness.newId(), harness.newId()] as const;
  const ids = [others[0], spec.id, others[1]];
  const request = { epoch, ids, tombstone: "aborted", patienceMs: PATIENCE_MS } as const;
  const settle = async (): Promise<ReceiptState | undefined> => {
    const { receipts } = await harness.otherStore.settle(primary, request);
    for (const other of others) assert.equal(receipts.get(other)?.kind, "aborted");
    return receipts.get(spec.id);
  };
  assert.deepEqual(await settle(), { kind: "held" }, "its time is not over");
  const refused = await refusedWith(bench.commit(primary, epoch, { id: spec.id }), "transaction_in_progress");
  assert.equal(refused.outcome, "unknown");
  let settled = await settle();
  while (settled?.kind === "held") settled = await settle();
  assert.deepEqual(settled, { kind: "aborted", epoch, owner: 0n, digest: 0n });
  await outcome;
  assert.equal((await bench.read(primary, epoch, key)).value, null);
}

async function settleGivenUp(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const { slow } = harness.statements;
  const [mine, theirs] = [bench.spec(epoch, [slow]), bench.spec(epoch, [slow])];
  const outcomes = [
    refusedWith(store.execute(primary, mine), "commit_unconfirmed"),
    refusedWith(harness.otherStore.execute(primary, theirs), "commit_unconfirmed"),
  ];
  await harness.untilSlowRuns(primary, outcomes.length);
  store.forget(primary);
  await outcomes[0];
  const request = {
    epoch,
    ids: [mine.id, theirs.id],
    tombstone: "aborted",
    patienceMs: PATIENCE_MS,
  } as const;
  const { receipts } = await store.settle(primary, request);
  assert.deepEqual([receipts.get(mine.id)?.kind, receipts.get(theirs.id)?.kind], ["aborted", "held"]);
  harness.otherStore.forget(primary);
  await outcomes[1];
  const last = await harness.otherStore.settle(primary, request);
  assert.equal(last.receipts.get(theirs.id)?.kind, "aborted");
}

async function expire(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const { retentionMs } = harness;
  const kept = await bench.commit(primary, epoch);
  const old = await bench.commit(primary, epoch, { id: harness.newId(0.9 * retentionMs) });
  const before = await store.maintain(primary, { expireBeforeMs: null });
  assert.ok(before.expiredBeforeMs <= txnTimestampMs(old.id));
  assert.ok(before.ceilingMs > before.serverTimeMs + retentionMs);
  assert.ok(before.position.epoch === epoch && before.position.offset >= old.offset);

  const request = { expireBeforeMs: before.serverTimeMs - 0.3 * retentionMs };
  const after = await store.maintain(primary, request);
  assert.ok(
    after.expiredBeforeMs > txnTimestampMs(old.id) && after.expiredBeforeMs <= request.expireBeforeMs,
  );
  const ids = [kept.id, old.id];
  const kinds = [...(await store.lookUp(primary, ids)).receipts.values()].map(({ kind }) => kind);
  assert.deepEqual(kinds, ["commit", "expired"]);
  const settle = { epoch, ids, tombstone: "lost", patienceMs: PATIENCE_MS } as const;
  const settled = await store.settle(primary, settle);
  assert.equal(settled.receipts.get(old.id)?.kind, "expired", "what has expired is not settled anew");
  await refusedWith(bench.commit(primary, epoch, { id: old.id }), "id_expired");
  assert.equal(
    (await store.maintain(primary, { expireBeforeMs: null })).expiredBeforeMs,
    after.expiredBeforeMs,
  );
  const again = bench.spec(epoch, [harness.statements.put(kept.key, "2")], { id: kept.id });
  assert.equal((await store.execute(primary, again)).kind, "already_settled");
  committed(await store.execute(primary, bench.spec(epoch, [harness.statements.get(kept.key)])));
}
