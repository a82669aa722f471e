// Conformance: reads on replicas. A read shows at least what its caller asks for, or the replica
// says that it is behind. That also holds when the log of another history reuses the positions of a
// lost transaction.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { type EpochId, type Statement } from "@highwater/protocol";
import { type MakeHarness } from "./harness.ts";
import { type ReplicaRead, type ReplicaReading } from "../port.ts";
import { Bench, type Committed, offsetOf, refusedWith } from "./bench.ts";

const LEVELS = ["read committed", "repeatable read"] as const;

export function replicaReadTests(makeHarness: MakeHarness): void {
  describe("reads on replicas", () => {
    let bench: Bench;
    let epoch: EpochId;
    before(async () => {
      bench = new Bench(await makeHarness());
      epoch = await bench.begin();
    });
    after(() => bench.harness.close());

    it("show what they have to, at a position that covers it", () => showsAfter(bench, epoch));
    it("are not made where it cannot be known to be there", () => behind(bench, epoch));
    it("refuse to write, and say which statement failed", () => refusals(bench, epoch));
    it("are not made on a primary", () => notOnPrimary(bench, epoch));
    it("are not made on a replica that is cut off", () => notWhenCut(bench, epoch));
  });

  describe("reads on replicas of another history", () => {
    it("are not made before the service has been prepared there", () =>
      Bench.with(makeHarness, notBeforeTheFirstEpoch));
    it("do not miss what a promotion has lost", () => Bench.with(makeHarness, afterPromotion));
    it("do not miss what a crash in place has lost", () => Bench.with(makeHarness, afterCrash));
  });
}

function readOf(
  statements: readonly Statement[],
  from: Pick<Committed, "epoch" | "offset"> | null,
  isolation: ReplicaRead["isolation"] = "repeatable read",
): ReplicaRead {
  const after = from === null ? null : { epoch: from.epoch, offset: from.offset };
  return { statements, isolation, after, maxRows: 1_000, maxBytes: 1_000_000 };
}

function seen(reading: ReplicaReading): Extract<ReplicaReading, { kind: "read" }> {
  assert.ok(reading.kind === "read", "expected a read; the replica is behind");
  return reading;
}

async function isBehind(
  bench: Bench,
  node: string,
  from: Pick<Committed, "epoch" | "offset"> | null,
): Promise<void> {
  // Run, the statement would fail.
  const statements = [bench.harness.statements.failing];
  for (const isolation of LEVELS) {
    const reading = await bench.store.readReplica(node, readOf(statements, from, isolation));
    assert.deepEqual(reading, { kind: "behind" }, isolation);
  }
}

async function valueAt(
  bench: Bench,
  node: string,
  { key }: Pick<Committed, "key">,
  from: Pick<Committed, "epoch" | "offset"> | null,
): Promise<{ value: string | null; position: { epoch: EpochId; offset: bigint } }> {
  const read = readOf([bench.harness.statements.get(key)], from);
  const { results, position } = seen(await bench.store.readReplica(node, read));
  return { value: results[0]?.rows[0]?.[0] ?? null, position };
}

async function reachAll(bench: Bench, epoch: EpochId, primary = bench.primary): Promise<void> {
  await bench.store.helpFlush(primary, epoch);
  for (const replica of bench.harness.replicas) if (replica !== primary) await bench.harness.catchUp(replica);
}

async function showsAfter(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  let last = 0n;
  for (let i = 0; i < 3; i++) {
    const transaction = await bench.commit(primary, epoch);
    await reachAll(bench, epoch);
    for (const replica of harness.replicas)
      for (const isolation of LEVELS) {
        const get = harness.statements.get(transaction.key);
        const read = readOf([get, get], transaction, isolation);
        const { results, position, ageMs } = seen(await store.readReplica(replica, read));
        assert.deepEqual(
          results.map(({ rows }) => rows),
          [[["1"]], [["1"]]],
        );
        assert.equal(position.epoch, epoch);
        assert.ok(position.offset >= transaction.offset && position.offset >= last);
        assert.ok(ageMs === null || ageMs >= 0);
        const end = (await store.positions(primary))?.applied ?? 0n;
        assert.ok(
          position.offset <= end,
          `${String(position.offset)} lies above the primary's ${String(end)}`,
        );
        last = position.offset;
      }
  }
}

async function behind(bench: Bench, epoch: EpochId): Promise<void> {
  const { harness, primary } = bench;
  const [replica] = harness.replicas;
  const transaction = await bench.commit(primary, epoch);
  // It may be there, or be on its way.
  await isBehind(bench, replica, transaction);
  await reachAll(bench, epoch);
  assert.equal((await valueAt(bench, replica, transaction, transaction)).value, "1");
  assert.equal((await valueAt(bench, replica, transaction, null)).value, "1");
  const nobodys = harness.newId() as string as EpochId;
  await isBehind(bench, replica, { ...transaction, epoch: nobodys });
  const end = (await bench.store.positions(primary))?.applied ?? 0n;
  const farOff = (end + 1_000_000_000n) as typeof transaction.offset;
  await isBehind(bench, replica, { epoch, offset: farOff });
}

async function refusals(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const { put, get } = harness.statements;
  const [replica] = harness.replicas;
  const transaction = await bench.commit(primary, epoch);
  await reachAll(bench, epoch);
  for (const isolation of LEVELS) {
    const statements = [get(transaction.key), put(transaction.key, "2")];
    const writing = store.readReplica(replica, readOf(statements, transaction, isolation));
    const error = await refusedWith(writing, "statement_failed");
    assert.deepEqual([error.outcome, error.details.statement], ["not_applied", 1]);
  }
  assert.equal((await valueAt(bench, replica, transaction, transaction)).value, "1");
}

async function notOnPrimary(bench: Bench, epoch: EpochId): Promise<void> {
  const transaction = await bench.commit(bench.primary, epoch);
  await reachAll(bench, epoch);
  await isBehind(bench, bench.primary, transaction);
  await isBehind(bench, bench.primary, null);
  await bench.commit(bench.primary, epoch);
}

async function notWhenCut(bench: Bench, epoch: EpochId): Promise<void> {
  const { store, harness, primary } = bench;
  const [replica] = harness.replicas;
  const transaction = await bench.commit(primary, epoch);
  await reachAll(bench, epoch);
  await harness.cut(replica);
  while ((await store.probe(replica)).upstream !== null) await bench.read(primary, epoch, transaction.key);
  await isBehind(bench, replica, transaction);
  await isBehind(bench, replica, null);
  await harness.heal(replica);
  await reachAll(bench, epoch);
  assert.equal((await valueAt(bench, replica, transaction, transaction)).value, "1");
}

async function notBeforeTheFirstEpoch(bench: Bench): Promise<void> {
  const { store, harness, primary } = bench;
  const [replica] = harness.replicas;
  await isBehind(bench, replica, null);
  await store.prepare(primary);
  await harness.catchUp(replica);
  await isBehind(bench, replica, null);
  const epoch = (await bench.mint(primary)).id as EpochId;
  const transaction = await bench.commit(primary, epoch);
  await reachAll(bench, epoch);
  assert.equal((await valueAt(bench, replica, transaction, transaction)).value, "1");
}

/** Log of others, on the node and its replica, until it covers the position. */
async function writeOver(
  bench: Bench,
  node: string,
  replica: string,
  { offset }: Pick<Committed, "offset">,
): Promise<void> {
  const { store, harness } = bench;
  while ((await store.probe(replica)).applied <= offset) {
    await harness.writePastTheService(node, 10_000);
    await harness.catchUp(replica);
  }
}

async function afterPromotion(bench: Bench): Promise<void> {
  const { store, harness, primary } = bench;
  const ended = await bench.begin();
  const [next, replica] = harness.replicas;
  const kept = await bench.commit(primary, ended);
  await reachAll(bench, ended);
  await harness.cut(next);
  await harness.cut(replica);
  const lost = await bench.commit(primary, ended);
  await store.helpFlush(primary, ended);
  await harness.kill(primary);
  await harness.promote(next);
  await harness.heal(next);
  await harness.heal(replica);
  await harness.follow(replica, next);
  await writeOver(bench, next, replica, lost);
  // The log has passed the lost one's position, and no epoch's record says yet that it is another
  // log.
  for (const from of [lost, kept, null]) await isBehind(bench, replica, from);

  const record = await bench.mint(next);
  const epoch = record.id as EpochId;
  assert.ok(offsetOf(record.forkOffset) >= kept.offset && offsetOf(record.forkOffset) < lost.offset);
  const newer = await bench.commit(next, epoch);
  await reachAll(bench, epoch, next);
  await isBehind(bench, replica, lost);
  for (const from of [kept, newer, null]) {
    const { value, position } = await valueAt(bench, replica, kept, from);
    assert.deepEqual([value, position.epoch], ["1", epoch]);
    assert.ok(position.offset >= newer.offset);
  }
  assert.equal((await valueAt(bench, replica, lost, null)).value, null);
}

async function afterCrash(bench: Bench): Promise<void> {
  const { store, harness, primary } = bench;
  const ended = await bench.begin();
  const [, replica] = harness.replicas;
  const kept = await bench.commit(primary, ended);
  await reachAll(bench, ended);
  await harness.holdFlush(primary);
  const lost = await bench.commit(primary, ended);
  await harness.crash(primary);
  await harness.catchUp(replica);
  await writeOver(bench, primary, replica, lost);
  await isBehind(bench, replica, lost);

  const record = await bench.mint(primary);
  const epoch = record.id as EpochId;
  assert.equal(await bench.isPresent(primary, lost), false, "a crash that loses nothing tests nothing");
  await bench.commit(primary, epoch);
  await reachAll(bench, epoch);
  await isBehind(bench, replica, lost);
  assert.ok(offsetOf(record.forkOffset) >= kept.offset);
  const { value, position } = await valueAt(bench, replica, kept, kept);
  assert.deepEqual([value, position.epoch], ["1", epoch]);
  assert.ok(position.offset > offsetOf(record.startOffset));
  assert.equal((await store.probe(replica)).epochs.at(-1)?.id, epoch);
}
