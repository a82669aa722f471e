// Conformance: receipts and tombstones, and how long they are kept.
import assert from "node:assert/strict";
import { after, before, describe } from "node:test";
import { type EpochId, txnTimestampMs } from "@highwater/protocol";
import { type It, type MakeHarness } from "./harness.ts";
import { type ReceiptKey, type ReceiptState } from "../port.ts";
import { Bench, committed, DIGEST, keyOf, PATIENCE_MS, refusedWith } from "./bench.ts";

/** Longer than the patience and a retry take together, on a busy machine too. */
const LIMIT_MS = 8_000;

export function receiptTests(makeHarness: MakeHarness, it: It): void {
  describe("receipts", () => {
    let bench: Bench;
    let epoch: EpochId;
    before(async () => {
      bench = new Bench(await makeHarness());
      epoch = await bench.begin();
    });
    after(() => bench.harness.close());

    it("reports every state of an id", () => everyState(bench, epoch));
    it("settles an absent id for good", () => settleAbsent(bench, epoch));
    it("leaves a commit alone", () => settleCommitted(bench, epoch));
    it("makes two that settle at once agree", () => settleTogether(bench, epoch));
    it("keeps the same id of two owners apart", () => twoOwners(bench, epoch));
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
  const newKey = (ageMs = 0): ReceiptKey => keyOf(harness.newId(ageMs));
  const [aborted, lost, absent] = [newKey(), newKey(), newKey()];
  const expired = newKey(100 * harness.retentionMs);
  const early = newKey(-100 * harness.retentionMs);
  const settle = { epoch, patienceMs: PATIENCE_MS };
  await store.settle(primary, { ...settle, keys: [aborted], tombstone: "aborted" });
  await store.settle(primary, { ...settle, keys: [lost], tombstone: "lost" });

  const keys = [commit, aborted, lost, absent, expired, early];
  const found = await harness.otherStore.lookUp(primary, keys);
  assert.deepEqual(found.receipts, [
    { kind: "commit", epoch, digest: DIGEST },
    { kind: "aborted", epoch, digest: 0n },
    { kind: "lost", epoch, digest: 0n },
    { kind: "absent" },
    { kind: "expired" },
    { kind: "out_of_window" },
  ]);
  assert.equal(found.epoch, epoch);
  assert.ok(found.asOf >= commit.offset);
  const end = await harness.otherStore.logEnd(primary);
  assert.ok(end.epoch === epoch && end.offset >= found.asOf);
  const settled = await store.settle(primary, { ...settle, keys: [expired, early], tombstone: "lost" });
  assert.deepEqual(
    settled.receipts.map(({ kind }) => kind),
    ["expired", "out_of_window"],
  );
  const old = await refusedWith(bench.commit(primary, epoch, { id: expired.id }), "id_expired");
  assert.equal(old.outcome, "unknown", "its receipt may have been dropped");
  await refusedWith(bench.commit(primary, epoch, { id: early.id }), "id_out_of_window");
}

async function settleAbsent(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const key = bench.newKey();
  const spec = bench.spec(epoch, [harness.statements.put(key, "1")]);
  const request = { epoch, keys: [spec], patienceMs: PATIENCE_MS };
  const settled = await store.settle(primary, { ...request, tombstone: "lost" });
  assert.deepEqual(settled.receipts[0], { kind: "lost", epoch, digest: 0n });
  const flushed = (await store.positions(primary))?.flushed ?? 0n;
  assert.ok(flushed >= settled.asOf, "a tombstone is durable on the primary when it is reported");
  assert.deepEqual(await store.execute(primary, spec), { kind: "already_settled" });
  assert.equal((await bench.read(primary, epoch, key)).value, null);
  const again = await store.settle(primary, { ...request, tombstone: "aborted" });
  assert.deepEqual(again.receipts[0], { kind: "lost", epoch, digest: 0n }, "the first word stands");
}

async function settleCommitted(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, primary } = bench;
  const transaction = await bench.commit(primary, epoch);
  const request = { epoch, keys: [transaction], tombstone: "aborted", patienceMs: PATIENCE_MS } as const;
  const { receipts, asOf } = await store.settle(primary, request);
  assert.deepEqual(receipts[0], { kind: "commit", epoch, digest: DIGEST });
  assert.ok(asOf >= transaction.offset);
  assert.ok(await bench.isPresent(primary, transaction));
}

async function settleTogether(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const keys = Array.from({ length: 20 }, () => keyOf(harness.newId()));
  const request = { epoch, patienceMs: 10 * PATIENCE_MS };
  const [mine, theirs] = await Promise.all([
    store.settle(primary, { ...request, keys, tombstone: "aborted" }),
    harness.otherStore.settle(primary, { ...request, keys: [...keys].reverse(), tombstone: "lost" }),
  ]);
  assert.deepEqual(mine.receipts, [...theirs.receipts].reverse());
}

async function twoOwners(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const { put, slow } = harness.statements;
  const id = harness.newId();
  const [mine, theirs, nobodys] = ["mine", "theirs", "nobody's"].map((owner) => keyOf(id, owner));
  assert.ok(mine !== undefined && theirs !== undefined && nobodys !== undefined);
  const key = bench.newKey();
  const held = bench.spec(epoch, [put(bench.newKey(), "1"), slow], theirs);
  const outcome = refusedWith(store.execute(primary, held), "commit_unconfirmed");
  await harness.untilSlowRuns(primary);
  committed(await harness.otherStore.execute(primary, bench.spec(epoch, [put(key, "1")], mine)));
  const settle = { epoch, tombstone: "aborted", patienceMs: PATIENCE_MS } as const;
  const none = await harness.otherStore.settle(primary, { ...settle, keys: [nobodys, mine] });
  assert.deepEqual(none.receipts, [
    { kind: "aborted", epoch, digest: 0n },
    { kind: "commit", epoch, digest: DIGEST },
  ]);
  const before = await store.lookUp(primary, [theirs, mine]);
  assert.deepEqual(before.receipts[0], { kind: "absent" }, "settling the others did not end it");
  store.forget(primary);
  await outcome;
  await store.settle(primary, { ...settle, keys: [theirs] });
  const after = await store.lookUp(primary, [theirs, mine, nobodys]);
  assert.deepEqual(
    after.receipts.map(({ kind }) => kind),
    ["aborted", "commit", "aborted"],
  );
  assert.deepEqual(await store.execute(primary, bench.spec(epoch, [], mine)), { kind: "already_settled" });
}

async function settleElsewhere(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const key = keyOf(harness.newId());
  const stranger = harness.newId() as string as EpochId;
  const request = { keys: [key], tombstone: "lost", patienceMs: PATIENCE_MS } as const;
  await refusedWith(store.settle(primary, { ...request, epoch: stranger }), "epoch_changed");
  assert.equal((await store.lookUp(primary, [key])).receipts[0]?.kind, "absent");
  await bench.commit(primary, epoch, { id: key.id });
}

async function settleHeld(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const key = bench.newKey();
  const statements = [harness.statements.put(key, "1"), harness.statements.slow];
  const spec = bench.spec(epoch, statements, { limitMs: LIMIT_MS });
  const outcome = refusedWith(store.execute(primary, spec), "commit_unconfirmed");
  await harness.untilSlowRuns(primary);
  const others = [keyOf(harness.newId()), keyOf(harness.newId())] as const;
  const keys = [others[0], spec, others[1]];
  const request = { epoch, keys, tombstone: "aborted", patienceMs: PATIENCE_MS } as const;
  const settle = async (): Promise<ReceiptState | undefined> => {
    const { receipts } = await harness.otherStore.settle(primary, request);
    for (const at of [0, 2]) assert.equal(receipts[at]?.kind, "aborted");
    return receipts[1];
  };
  assert.deepEqual(await settle(), { kind: "held" }, "its time is not over");
  const refused = await refusedWith(bench.commit(primary, epoch, { id: spec.id }), "transaction_in_progress");
  assert.equal(refused.outcome, "unknown");
  let settled = await settle();
  while (settled?.kind === "held") settled = await settle();
  assert.deepEqual(settled, { kind: "aborted", epoch, digest: 0n });
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
    keys: [mine, theirs],
    tombstone: "aborted",
    patienceMs: PATIENCE_MS,
  } as const;
  const { receipts } = await store.settle(primary, request);
  assert.deepEqual(
    receipts.map(({ kind }) => kind),
    ["aborted", "held"],
  );
  harness.otherStore.forget(primary);
  await outcomes[1];
  const last = await harness.otherStore.settle(primary, request);
  assert.equal(last.receipts[1]?.kind, "aborted");
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
  const keys = [kept, old];
  const kinds = (await store.lookUp(primary, keys)).receipts.map(({ kind }) => kind);
  assert.deepEqual(kinds, ["commit", "expired"]);
  const settle = { epoch, keys, tombstone: "lost", patienceMs: PATIENCE_MS } as const;
  const settled = await store.settle(primary, settle);
  assert.equal(settled.receipts[1]?.kind, "expired", "what has expired is not settled anew");
  await refusedWith(bench.commit(primary, epoch, { id: old.id }), "id_expired");
  assert.equal(
    (await store.maintain(primary, { expireBeforeMs: null })).expiredBeforeMs,
    after.expiredBeforeMs,
  );
  const again = bench.spec(epoch, [harness.statements.put(kept.key, "2")], { id: kept.id });
  assert.equal((await store.execute(primary, again)).kind, "already_settled");
  committed(await store.execute(primary, bench.spec(epoch, [harness.statements.get(kept.key)])));
}
