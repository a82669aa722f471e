// The physics of the memory world where they are not what one would wish for, because those of real servers are not either.
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { type EpochId, HighwaterError, makeUuidV7, type TxnId } from "@highwater/protocol";
import { keyOf } from "../conformance/bench.ts";
import { MemoryStore, MemoryWorld } from "../memory.ts";
import { type TransactionSpec } from "../port.ts";

const NODES = ["a", "b", "c"].map((id) => ({ id, region: id, zone: id }));
const NOW_MS = Date.UTC(2030, 0, 1);
const MINT = { minSeq: 1, supersedes: [], command: null, streamed: null, finalMarks: {} };

describe("the memory world", () => {
  let world: MemoryWorld;
  let store: MemoryStore;
  let epoch: EpochId;
  let ids: number;

  beforeEach(async () => {
    ids = 0;
    world = new MemoryWorld({ nodes: NODES, wallMs: () => NOW_MS, retentionMs: 1_000 });
    store = new MemoryStore({ world, helper: "test" });
    await store.prepare("a");
    epoch = (await store.mint("a", MINT)).id as EpochId;
    world.replicate("b");
    world.replicate("c");
  });

  function newId(): TxnId {
    const unique = new Uint8Array(10);
    unique[9] = ++ids;
    return makeUuidV7(NOW_MS, unique);
  }

  const specOf = (sql: string, more: Partial<TransactionSpec> = {}): TransactionSpec => ({
    ...keyOf(more.id ?? newId()),
    epoch,
    digest: 7n,
    statements: [{ sql }],
    isolation: "serializable",
    readOnly: false,
    maxRows: 10,
    maxBytes: 1_000,
    ...more,
  });

  async function commit(sql = "put k v"): Promise<bigint> {
    const done = await store.execute("a", specOf(sql));
    assert.ok(done.kind === "committed");
    return done.offset;
  }

  it("is the same world every time", async () => {
    const describeRun = async (): Promise<string> => {
      const twin = new MemoryWorld({ nodes: NODES, wallMs: () => NOW_MS, retentionMs: 1_000 });
      const other = new MemoryStore({ world: twin, helper: "test" });
      await other.prepare("a");
      await other.mint("a", MINT);
      twin.crash("a");
      await other.mint("a", MINT);
      twin.replicate("b");
      const reports = [await other.probe("a"), await other.probe("b"), await other.positions("a")];
      return JSON.stringify(reports, (_, value: unknown) =>
        typeof value === "bigint" ? String(value) : value,
      );
    };
    assert.equal(await describeRun(), await describeRun());
  });

  it("moves nothing by itself, and a replica gets what is on the upstream's disk only", async () => {
    const offset = await commit();
    assert.equal(world.replicate("b"), 0);
    world.flush("a");
    assert.equal(world.replicate("b"), 1);
    assert.equal((await store.probe("b")).flushed, offset);
    assert.ok((await store.probe("c")).flushed < offset);
  });

  it("lets a replica lag with its replay behind its disk", async () => {
    await store.helpFlush("a", epoch);
    world.crash("a");
    const next = (await store.mint("a", MINT)).id;
    world.receive("b");
    const received = await store.probe("b");
    assert.equal(received.flushed, (await store.probe("a")).flushed);
    assert.ok(received.applied < received.flushed);
    assert.ok(
      received.epochs.every(({ id }) => id !== next),
      "what is not replayed cannot be read",
    );
    world.replay("b");
    assert.equal((await store.probe("b")).epochs.at(-1)?.id, next);
  });

  it("uses offsets again after a crash", async () => {
    const lost = await commit();
    world.crash("a");
    epoch = (await store.mint("a", MINT)).id as EpochId;
    let offset = 0n;
    while (offset < lost) offset = await commit();
    world.flush("a");
    assert.ok(
      ((await store.positions("a"))?.flushed ?? 0n) >= lost,
      "a naive mark would call the lost one durable",
    );
  });

  it("makes a replica of another history report positions all the same", async () => {
    world.flush("a");
    const copy = world.snapshot("a");
    world.noise("a", 2_000);
    const old = await commit();
    world.flush("a");
    world.replicate("b");
    world.kill("a");
    world.restore("a", copy, { role: "primary" });
    world.start("a");
    epoch = (await store.mint("a", MINT)).id as EpochId;
    assert.equal(world.streamOf("b"), null, "it asks for a place that is not there yet");
    while (world.node("a").flushed <= old) {
      await commit();
      world.flush("a");
    }
    world.replicate("b");
    const seen = (await store.positions("a"))?.replicas.find(({ node }) => node === "b");
    assert.equal(seen?.flushed, world.node("a").flushed, "it calls the strange bytes flushed");
    const report = await store.probe("b");
    assert.equal(report.flushed, seen?.flushed);
    assert.ok(
      report.epochs.every(({ id }) => id !== epoch),
      "but has read nothing of them",
    );
    world.promote("b");
    assert.deepEqual(
      world.node("b").switches,
      [{ timeline: 1, at: old }],
      "and a promotion throws them away",
    );
  });

  it("distinguishes two nodes promoted to one timeline only by their logs", async () => {
    world.promote("b");
    world.promote("c");
    assert.equal(world.node("b").timeline, world.node("c").timeline);
    await store.mint("b", MINT);
    await store.mint("c", MINT);
    world.kill("c");
    world.restore("c", world.snapshot("c"), { role: "replica", upstream: "b" });
    world.start("c");
    world.flush("b");
    world.noise("b", 10_000);
    world.flush("b");
    world.replicate("c");
    assert.notEqual(world.streamOf("c"), null, "it streams");
    const [mine, theirs] = [await store.probe("b"), await store.probe("c")];
    assert.notEqual(mine.epochs.at(-1)?.id, theirs.epochs.at(-1)?.id);
  });

  it("does not let a replica follow that is past the promoted one", async () => {
    world.cut("b");
    await commit();
    world.flush("a");
    world.replicate("c");
    world.kill("a");
    world.promote("b");
    world.follow("c", "b");
    world.noise("b", 10_000);
    world.flush("b");
    assert.equal(world.streamOf("c"), null);
    world.rejoin("c", "b");
    assert.notEqual(world.streamOf("c"), null, "a fresh copy can");
  });

  it("forgets the sentinel in every recovery, and keeps it in a clean copy", async () => {
    world.stop("a");
    const copy = world.snapshot("a");
    world.start("a");
    assert.equal((await store.probe("a")).current, null);
    assert.equal((await store.mint("a", MINT)).cause, "clean_restart");
    world.kill("b");
    world.restore("b", copy, { role: "primary" });
    world.start("b");
    assert.equal((await store.mint("b", MINT)).cause, "clean_restart");
    world.kill("c");
    world.restore("c", copy, { role: "replica", upstream: "a" });
    world.start("c");
    world.kill("c");
    world.startAsPrimary("c");
    assert.equal((await store.mint("c", MINT)).cause, "crash_recovery");
    assert.equal(world.node("c").timeline, 1);
  });

  it("lets a transaction continue although its client is gone", async () => {
    const spec = specOf("slow", { statements: [{ sql: "put late 1" }, { sql: "slow" }] });
    const outcome = store.execute("a", spec);
    store.forget("a");
    await assert.rejects(outcome, { code: "commit_unconfirmed" });
    const again = specOf("put late 2", { id: spec.id });
    await assert.rejects(store.execute("a", again), { code: "transaction_in_progress" });
    world.finish("a", spec);
    assert.equal((await store.lookUp("a", [spec])).receipts[0]?.kind, "commit");
    const waiting = specOf("slow");
    const answer = store.execute("a", waiting);
    world.finish("a", waiting);
    assert.equal((await answer).kind, "committed");
  });

  it("loses the calls and answers that the test chooses", async () => {
    const spec = specOf("put k v");
    world.delivery = ({ verb }) => (verb === "execute" ? "unreachable" : "answered");
    await assert.rejects(store.execute("a", spec), { code: "primary_unavailable", outcome: "not_applied" });
    world.delivery = ({ verb }) => (verb === "execute" ? "answer_lost" : "answered");
    await assert.rejects(store.execute("a", spec), { code: "commit_unconfirmed", outcome: "unknown" });
    assert.equal((await store.lookUp("a", [spec])).receipts[0]?.kind, "commit");
    world.delivery = ({ node }) => (node === "a" ? "unreachable" : "answered");
    await assert.rejects(store.probe("a"), { code: "ECONNREFUSED" });
    await store.probe("b");
  });

  it("reads a position above whatever comes between the commit and the reading", async () => {
    world.afterCommit = (node) => {
      world.noise(node, 500);
    };
    const before = world.node("a").end;
    assert.ok((await commit()) > before + 500n);
  });

  it("speaks a small language", async () => {
    const read = await store.execute("a", specOf("get k", { readOnly: true }));
    assert.deepEqual(read.kind === "committed" && read.results[0]?.rows, []);
    const statements = [
      { sql: "put $1 $2", params: ["k", "v"] },
      { sql: "get k", params: [] },
    ];
    const done = await store.execute("a", specOf("", { statements }));
    assert.deepEqual(
      done.kind === "committed" && done.results[1]?.rows,
      [["v"]],
      "a transaction sees its own writes",
    );
    for (const sql of ["", "drop everything", "put k", "get"]) {
      const refused = await store.execute("a", specOf(sql)).catch((cause: unknown) => cause);
      assert.ok(refused instanceof HighwaterError && refused.details.sqlstate === "42601", sql);
    }
    const refused = await store.execute("a", specOf("fail 40001")).catch((cause: unknown) => cause);
    assert.ok(refused instanceof HighwaterError && refused.outcome === "not_applied");
  });
});
