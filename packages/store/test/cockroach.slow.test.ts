// Goal: the CockroachDB adapter: the calls of the conformance suite, marks, and a failover.
// Method: against the stand-in, or two real clusters where their URLs are set. The names of the tests
// say STAND-IN or SERVER. Nothing here has run against a CockroachDB server.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CockroachStandIn, openServers } from "@highwater/lab-cluster/cockroach";
import { type EpochId } from "@highwater/protocol";
import { clusterStoreConformance } from "../src/conformance.ts";
import { Bench, offsetOf, refusedWith } from "../src/conformance/bench.ts";
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

  it("carries over what the standby has, and finds what was lost by its receipt", () =>
    Bench.with(makeHarness, failOver));
});

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
  assert.ok((await bench.commit(heir, newEpoch)).offset > fork);
}
