// Goal: the CockroachDB adapter: the calls of the conformance suite, marks, and a failover.
// Method: against the stand-in, or two real clusters where their URLs are set. The names of the tests
// say STAND-IN or SERVER. Nothing here has run against a CockroachDB server.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CockroachStandIn, openServers } from "@highwater/lab-cluster/cockroach";
import { eventually } from "@highwater/lab-tools/process";
import { type EpochId, type Offset, type Statement } from "@highwater/protocol";
import { clusterStoreConformance } from "../src/conformance.ts";
import { Bench, committed, offsetOf, refusedWith } from "../src/conformance/bench.ts";
import { type ReplicaReading } from "../src/port.ts";
import { makeCockroachHarness as makeHarness, makeCockroachStore } from "./cockroach-harness.ts";

const isReal = openServers !== null;
const NAME = isReal ? "CockroachDB (SERVER)" : "CockroachDB (STAND-IN)";

const NO_RESTART = "a cluster does not restart: its servers do, and no epoch ends";
const NOT_REAL = "it would cut or stop a real cluster; run it on the stand-in";

clusterStoreConformance(NAME, makeHarness, {
  "reports which streams are synchronous, with their positions": "no stream between clusters is synchronous",
  "leaves a living transaction its id, and ends it when its time is over":
    "no session is ended by another: it ends at its own time limit",
  "end with their epoch in a crash": NO_RESTART,
  "end with their epoch in a clean restart": NO_RESTART,
  ...(isReal && {
    "leaves a replica out while it is cut off": NOT_REAL,
    "are not opened on a node that is down": NOT_REAL,
    "keep what was written first, for every process and after a failover": NOT_REAL,
  }),
});

describe(`${NAME}: a standby and its failover`, () => {
  it("counts what the standby has replicated", () =>
    Bench.with(makeHarness, async (bench) => {
      const { store, harness, primary } = bench;
      const [standby, other] = harness.replicas;
      const epoch = await bench.begin();
      const { offset } = await bench.commit(primary, epoch);
      await harness.catchUp(standby);
      const mark = (await store.positions(primary))?.replicas.find(({ node }) => node === standby);
      assert.ok(mark !== undefined && mark.flushed >= offset && mark.flushed % 10n ** 13n === 0n);
      const { role, current, isFed, upstream } = await store.probe(standby);
      assert.deepEqual([role, current, isFed], ["replica", null, true]);
      assert.ok(upstream !== null && upstream.flushed >= offset);
      await assert.rejects(store.positions(other), "a standby has no SQL");
    }));

  it(
    "is unfit while its servers confirm what is not on their disks",
    { skip: isReal && NOT_REAL },
    async () => {
      const standIn = await CockroachStandIn.start({ nodes: [{ id: "one", region: "one" }] });
      const store = makeCockroachStore(standIn.nodes, "unsafe");
      assert.equal((await store.probe("one")).unfit, null);
      await standIn.query("one", "UPDATE standin.setting SET is_unsafe = true");
      assert.match((await store.probe("one")).unfit ?? "", /^kv\.raft_log\.synchronization\.unsafe/);
      await store.close();
      await standIn.close();
    },
  );

  it("is read as of a token's position, and as of a few seconds ago once that is later", () =>
    Bench.with(makeHarness, readsAsOf));

  it("carries over what the standby has, and finds what was lost by its receipt", () =>
    Bench.with(makeHarness, failOver));
});

async function readsAsOf(bench: Bench): Promise<void> {
  const { store, primary } = bench;
  const { put, get } = bench.harness.statements;
  const epoch = await bench.begin();
  const first = await bench.commit(primary, epoch);
  const second = committed(await store.execute(primary, bench.spec(epoch, [put(first.key, "2")])));
  const wanted = get(first.key);
  const old = await readAt(bench, primary, [wanted, wanted], first);
  assert.ok(old.kind === "read");
  assert.deepEqual(
    old.results.map(({ rows }) => rows),
    [[["1"]], [["1"]]],
    "what came later is not there",
  );
  assert.deepEqual(old.position, { epoch, offset: first.offset }, "the snapshot is known exactly");
  const newer = await readAt(bench, primary, [wanted], { epoch, offset: second.offset });
  assert.ok(newer.kind === "read" && newer.results[0]?.rows[0]?.[0] === "2");
  await refusedWith(
    readAt(bench, primary, [put(first.key, "3")], { epoch, offset: second.offset }),
    "statement_failed",
  );
  await refusedWith(
    readAt(bench, primary, [{ sql: "SELECT 1 FROM kv AS OF SYSTEM TIME '-1s'" }], first),
    "transaction_control",
  );

  const [standby] = bench.harness.replicas;
  assert.deepEqual(await readAt(bench, standby, [wanted], first), { kind: "behind" });
  const farOff = { epoch, offset: (first.offset + 60n * 10n ** 19n) as Offset };
  for (const from of [farOff, { ...first, epoch: bench.harness.newId() as string as EpochId }])
    assert.deepEqual(await readAt(bench, primary, [wanted], from), { kind: "behind" });

  // A few seconds later the same token is read at a later time, which has the second commit.
  const { ageMs } = await eventually("a later snapshot", async () => {
    const reading = await readAt(bench, primary, [wanted], first);
    assert.ok(reading.kind === "read");
    return reading.results[0]?.rows[0]?.[0] === "2" ? reading : undefined;
  });
  assert.ok(ageMs !== null && ageMs >= 4_200 && ageMs < 5_000, String(ageMs));
}

function readAt(
  { store }: Bench,
  node: string,
  statements: readonly Statement[],
  after: { readonly epoch: EpochId; readonly offset: Offset },
): Promise<ReplicaReading> {
  const { epoch, offset } = after;
  const limits = { maxRows: 10, maxBytes: 10_000 };
  return store.readReplica(node, {
    statements,
    isolation: "read committed",
    after: { epoch, offset },
    ...limits,
  });
}

async function failOver(bench: Bench): Promise<void> {
  const { store, harness, primary } = bench;
  const [heir] = harness.replicas;
  const epoch = await bench.begin();
  const kept = await bench.commit(primary, epoch);
  await harness.catchUp(heir);
  await harness.cut(heir);
  const lost = await bench.commit(primary, epoch);
  const mark = (await store.positions(primary))?.replicas.find(({ node }) => node === heir);
  assert.ok(mark !== undefined && mark.flushed >= kept.offset && mark.flushed < lost.offset);
  await harness.kill(primary);
  await harness.promote(heir);

  const before = await store.probe(heir);
  assert.deepEqual([before.role, before.current, before.epochs.at(-1)?.id], ["primary", null, epoch]);
  await refusedWith(bench.commit(heir, epoch), "epoch_changed");
  assert.deepEqual(await bench.authority(epoch), { kind: "mint", node: heir, command: null, supersedes: [] });
  const finalMarks = { [epoch]: { region: String(mark.flushed) } };
  const next = await bench.mint(heir, { finalMarks });
  assert.deepEqual([next.cause, next.previous, next.seq], ["promotion", epoch, 2]);
  assert.equal(next.forkLimit, next.forkOffset, "nothing above the cut-over is there");
  const fork = offsetOf(next.forkOffset);
  assert.ok(fork >= mark.flushed && fork >= kept.offset && fork < lost.offset);
  assert.deepEqual((await store.probe(heir)).epochs.at(-1)?.finalMarks, finalMarks[epoch]);

  assert.deepEqual(await bench.checkFork(heir, next, [kept, lost]), [true, false]);
  const newEpoch = next.id as EpochId;
  assert.deepEqual((await store.positions(heir))?.replicas, [], "the others are not its standbys");
  const request = { epoch: newEpoch, keys: [kept, lost], tombstone: "lost", patienceMs: 100 } as const;
  const { receipts } = await store.settle(heir, request);
  assert.deepEqual(
    receipts.map(({ kind }) => kind),
    ["commit", "lost"],
  );
  await refusedWith(bench.commit(heir, epoch), "epoch_changed");
  const fresh = await bench.commit(heir, newEpoch);
  assert.ok(fresh.offset > fork);

  const wanted = [harness.statements.get(fresh.key)];
  assert.equal((await readAt(bench, heir, wanted, fresh)).kind, "read");
  const carried = await eventually("a snapshot of the new epoch", async () => {
    const reading = await readAt(bench, heir, wanted, kept);
    return reading.kind === "read" ? reading : undefined;
  });
  assert.equal(carried.position.epoch, newEpoch);
  assert.deepEqual(await readAt(bench, heir, wanted, lost), { kind: "behind" }, "it is not in this history");
}
