// Conformance: transactions that stay open between calls, and what remains of them after each way
// to end.
import assert from "node:assert/strict";
import { after, before, describe } from "node:test";
import { type EpochId, type ErrorCode } from "@highwater/protocol";
import { type It, type MakeHarness } from "./harness.ts";
import { type OpenTransaction, type StoreNode, type TransactionSpec } from "../port.ts";
import { Bench, committed, PATIENCE_MS, refusedWith } from "./bench.ts";

/** The possible answers to an open transaction whose epoch has ended under it. */
const ENDED_UNDER_IT: readonly ErrorCode[] = ["transaction_aborted", "epoch_changed", "commit_unconfirmed"];

export function sessionTests(makeHarness: MakeHarness, it: It): void {
  describe("interactive transactions", () => {
    let bench: Bench;
    let epoch: EpochId;
    before(async () => {
      bench = new Bench(await makeHarness());
      epoch = await bench.begin();
    });
    after(() => bench.harness.close());

    it("show nothing to others before their commit, and everything at once behind it", () =>
      commitsAtOnce(bench, epoch));
    it("leave nothing when they are rolled back, and free their id", () => rollsBack(bench, epoch));
    it("are not opened under an id that is settled", () => usedId(bench, epoch));
    it("commit once, of two that are opened under one id", () => twoUnderOneId(bench, epoch));
    it("keep nothing of themselves when a statement fails", () => failing(bench, epoch));
    it("are not opened when a statement that rides along fails", () => failingBegin(bench, epoch));
    it("keep nothing when a statement that rides on the commit fails", () => failingCommit(bench, epoch));
    it("only read when they are read-only, at a position above what they read", () => readOnly(bench, epoch));
    it("are over when they have ended", () => overIsOver(bench, epoch));
    it("are not opened in another epoch, nor on a replica", () => notHere(bench, epoch));
    it("are over when their connections are dropped", () => forgotten(bench, epoch));
    // These end the epoch, each by its own means.
    it("end with their epoch in a crash", () => endedEpoch(bench, (node) => bench.harness.crash(node)));
    it("end with their epoch in a clean restart", () =>
      endedEpoch(bench, (node) => bench.harness.cleanRestart(node)));
    it("are not opened on a node that is down", () => notWhenDown(bench));
  });
}

async function open(
  bench: Bench,
  spec: TransactionSpec,
  on: { readonly store?: typeof bench.store; readonly node?: StoreNode["id"] } = {},
): Promise<OpenTransaction> {
  const { store = bench.store, node = bench.primary } = on;
  const opening = await store.begin(node, spec);
  assert.ok(opening.kind === "open", `expected an open transaction, got ${opening.kind}`);
  assert.equal(opening.results.length, spec.statements.length);
  assert.equal(opening.transaction.isOver, false);
  return opening.transaction;
}

/** The transaction is not there, and its id can be used. */
async function checkFree(bench: Bench, spec: TransactionSpec, keys: readonly string[]): Promise<void> {
  const { store, primary } = bench;
  for (const key of keys) assert.equal((await bench.read(primary, spec.epoch, key)).value, null, key);
  assert.equal((await store.lookUp(primary, [spec])).receipts[0]?.kind, "absent");
  const again = { ...spec, statements: [bench.harness.statements.put(bench.newKey(), "1")] };
  committed(await store.execute(primary, again));
}

async function commitsAtOnce(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const { put, get } = harness.statements;
  const keys = [bench.newKey(), bench.newKey(), bench.newKey(), bench.newKey()] as const;
  const spec = bench.spec(epoch, [put(keys[0], "a")], { digest: -(2n ** 62n) });
  const transaction = await open(bench, spec);
  const [, seen] = await transaction.run([put(keys[1], "b"), get(keys[0])]);
  assert.deepEqual(seen?.rows, [["a"]], "it sees what it has written in an earlier call");
  assert.deepEqual((await transaction.run([put(keys[2], "c")])).length, 1);
  for (const key of keys) assert.equal((await bench.read(primary, epoch, key)).value, null);
  const before = (await store.positions(primary))?.applied ?? 0n;
  const { offset, results } = committed(await transaction.commit([put(keys[3], "d"), get(keys[1])]));
  assert.ok(offset > before);
  assert.deepEqual([results.length, results[1]?.rows], [2, [["b"]]], "the commit's own results");
  assert.equal(transaction.isOver, true);
  for (const [index, key] of keys.entries())
    assert.equal((await bench.read(primary, epoch, key)).value, "abcd"[index]);
  const receipt = { kind: "commit", epoch, digest: -(2n ** 62n) };
  assert.deepEqual((await store.lookUp(primary, [spec])).receipts[0], receipt);
}

async function rollsBack(bench: Bench, epoch: EpochId): Promise<void> {
  const { put } = bench.harness.statements;
  const keys = [bench.newKey(), bench.newKey()] as const;
  const spec = bench.spec(epoch, [put(keys[0], "1")]);
  const transaction = await open(bench, spec);
  await transaction.run([put(keys[1], "1")]);
  await transaction.rollback();
  assert.equal(transaction.isOver, true);
  await transaction.rollback();
  await checkFree(bench, spec, keys);
}

async function usedId(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const { id, key } = await bench.commit(primary, epoch);
  const again = bench.spec(epoch, [harness.statements.put(key, "2")], { id });
  for (const process of [store, harness.otherStore])
    assert.deepEqual(await process.begin(primary, again), { kind: "already_settled" });
  const aborted = bench.spec(epoch, [harness.statements.put(key, "3")]);
  const settling = { epoch, keys: [aborted], tombstone: "aborted", patienceMs: PATIENCE_MS } as const;
  await store.settle(primary, settling);
  assert.deepEqual(await store.begin(primary, aborted), { kind: "already_settled" });
  assert.equal((await bench.read(primary, epoch, key)).value, "1");
}

async function twoUnderOneId(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const { put } = harness.statements;
  const key = bench.newKey();
  const spec = bench.spec(epoch, [put(key, "first")]);
  const first = await open(bench, spec);
  // A store may let the second one wait for the first, or find out at its commit.
  const second = harness.otherStore.begin(primary, { ...spec, statements: [put(key, "second")] });
  committed(await first.commit([]));
  const opening = await second;
  if (opening.kind === "open")
    assert.deepEqual(await opening.transaction.commit([]), { kind: "already_settled" });
  assert.equal((await bench.read(primary, epoch, key)).value, "first");
  assert.equal((await store.lookUp(primary, [spec])).receipts[0]?.kind, "commit");
}

async function failing(bench: Bench, epoch: EpochId): Promise<void> {
  const { put, get, failing: refused } = bench.harness.statements;
  const keys = [bench.newKey(), bench.newKey(), bench.newKey()] as const;
  const spec = bench.spec(epoch, [put(keys[0], "1")]);
  const transaction = await open(bench, spec);
  const error = await refusedWith(transaction.run([put(keys[1], "1"), refused]), "constraint_violation");
  assert.deepEqual([error.outcome, error.details.statement], ["not_applied", 1]);
  assert.equal(transaction.isOver, false, "it waits for its client to end it");
  await refusedWith(transaction.run([put(keys[2], "1")]), "statement_failed");
  await refusedWith(transaction.run([get(keys[0])]), "statement_failed");
  const refusal = await refusedWith(transaction.commit([]), "statement_failed");
  assert.deepEqual([refusal.outcome, transaction.isOver], ["not_applied", true]);
  await checkFree(bench, spec, keys);
}

async function failingBegin(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, primary } = bench;
  const { put, failing: refused } = bench.harness.statements;
  const key = bench.newKey();
  const spec = bench.spec(epoch, [put(key, "1"), refused]);
  const error = await refusedWith(store.begin(primary, spec), "constraint_violation");
  assert.deepEqual([error.outcome, error.details.statement], ["not_applied", 1]);
  await checkFree(bench, spec, [key]);
}

async function failingCommit(bench: Bench, epoch: EpochId): Promise<void> {
  const { put, failing: refused } = bench.harness.statements;
  const keys = [bench.newKey(), bench.newKey()] as const;
  const spec = bench.spec(epoch, [put(keys[0], "1")]);
  const transaction = await open(bench, spec);
  const error = await refusedWith(transaction.commit([put(keys[1], "1"), refused]), "constraint_violation");
  assert.deepEqual([error.outcome, error.details.statement], ["not_applied", 1]);
  assert.equal(transaction.isOver, true);
  await checkFree(bench, spec, keys);
}

async function readOnly(bench: Bench, epoch: EpochId): Promise<void> {
  const { harness, primary } = bench;
  const { put, get } = harness.statements;
  for (const isolation of ["read committed", "repeatable read", "serializable"] as const) {
    const { offset, key } = await bench.commit(primary, epoch);
    const transaction = await open(bench, bench.spec(epoch, [get(key)], { readOnly: true, isolation }));
    const [seen] = await transaction.run([get(key)]);
    assert.deepEqual(seen?.rows, [["1"]]);
    const end = committed(await transaction.commit([]));
    assert.ok(end.offset >= offset, `${isolation}: ${String(end.offset)} is not above ${String(offset)}`);
    const writer = await open(bench, bench.spec(epoch, [], { readOnly: true, isolation }));
    await refusedWith(writer.run([put(key, "2")]), "statement_failed");
    await writer.rollback();
    assert.equal((await bench.read(primary, epoch, key)).value, "1");
  }
}

async function overIsOver(bench: Bench, epoch: EpochId): Promise<void> {
  const { put } = bench.harness.statements;
  const key = bench.newKey();
  const ends: ((transaction: OpenTransaction) => Promise<unknown>)[] = [
    (transaction) => transaction.commit([]),
    (transaction) => transaction.rollback(),
  ];
  for (const end of ends) {
    const transaction = await open(bench, bench.spec(epoch, []));
    await end(transaction);
    await refusedWith(transaction.run([put(key, "late")]), "transaction_aborted");
    await refusedWith(transaction.commit([put(key, "late")]), "transaction_aborted");
    await transaction.rollback();
  }
  assert.equal((await bench.read(bench.primary, epoch, key)).value, null);
}

async function notHere(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const stranger = harness.newId() as string as EpochId;
  for (const isReadOnly of [false, true]) {
    const spec = bench.spec(stranger, [], { readOnly: isReadOnly });
    const opening = store.begin(primary, spec);
    // A reader asserts no epoch with its first statement; it may get the error only at its end.
    const ended = opening.then((opened): unknown =>
      opened.kind === "open" && isReadOnly ? opened.transaction.commit([]) : opened,
    );
    const error = await refusedWith(ended, "epoch_changed");
    assert.equal(error.outcome, "not_applied");
  }
  const [replica] = harness.replicas;
  const refused = store.begin(replica, bench.spec(epoch, []));
  await refusedWith(refused, "primary_unavailable", "epoch_changed");
}

async function forgotten(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const { put } = harness.statements;
  const key = bench.newKey();
  const transaction = await open(bench, bench.spec(epoch, [put(key, "1")]));
  store.forget(primary);
  const error = await refusedWith(
    transaction.run([put(bench.newKey(), "1")]),
    "transaction_aborted",
    "epoch_changed",
  );
  assert.deepEqual([error.outcome, transaction.isOver], ["not_applied", true]);
  await transaction.rollback();
  assert.equal((await bench.read(primary, epoch, key)).value, null);
  await (await open(bench, bench.spec(epoch, [put(key, "2")]))).commit([]);
  assert.equal((await bench.read(primary, epoch, key)).value, "2");
}

async function endedEpoch(bench: Bench, end: (node: string) => Promise<void>): Promise<void> {
  const { store, harness, primary } = bench;
  const { put, get } = harness.statements;
  const ended = (await store.probe(primary)).current;
  assert.ok(ended !== null);
  const before = await bench.commit(primary, ended);
  await store.helpFlush(primary, ended);
  const keys = [bench.newKey(), bench.newKey(), bench.newKey()] as const;
  const specs = keys.map((key) => bench.spec(ended, [put(key, "1")]));
  const [committing, running, silent] = await Promise.all(specs.map((spec) => open(bench, spec)));
  const reader = await open(bench, bench.spec(ended, [get(before.key)], { readOnly: true }));
  await end(primary);
  await refusedWith(committing?.commit([]) ?? Promise.resolve(), ...ENDED_UNDER_IT);
  const { id } = await bench.mint(primary);
  const epoch = id as EpochId;
  // Nor in the epoch that follows: a late service finds nothing open any more.
  await refusedWith(running?.run([put(keys[1], "2")]) ?? Promise.resolve(), ...ENDED_UNDER_IT);
  await refusedWith(silent?.commit([]) ?? Promise.resolve(), ...ENDED_UNDER_IT);
  await refusedWith(reader.commit([]), "primary_unavailable", ...ENDED_UNDER_IT);
  for (const transaction of [committing, running, silent, reader]) assert.equal(transaction?.isOver, true);
  for (const key of keys) assert.equal((await bench.read(primary, epoch, key)).value, null);
  const { receipts } = await store.lookUp(primary, specs);
  assert.deepEqual(
    receipts,
    Array.from(keys, () => ({ kind: "absent" })),
  );
  assert.ok(await bench.isPresent(primary, before));
  await bench.commit(primary, epoch);
}

async function notWhenDown(bench: Bench): Promise<void> {
  const { store, harness, primary } = bench;
  const { current } = await store.probe(primary);
  assert.ok(current !== null);
  await harness.stop(primary);
  const error = await refusedWith(
    store.begin(primary, bench.spec(current, [])),
    "primary_unavailable",
    "transaction_aborted",
  );
  assert.equal(error.outcome, "not_applied");
}
