// Goal: no failure, and no series of failures, may make an epoch record claim more of its predecessor than this history holds.
// Method: random faults on a memory world. Each new primary begins an epoch, right or wrong, with any stream that an honest
// caller has watched. Then every position that was ever given out is compared with the records that are really there.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { type EpochId, type EpochRecord, makeUuidV7, type Offset, parseOffset } from "@highwater/protocol";
import { keyOf } from "../conformance/bench.ts";
import { type MemorySnapshot, MemoryStore, MemoryWorld } from "../memory.ts";
import { type MintRequest } from "../port.ts";
import { type LogRecord } from "./history.ts";

const NAMES = ["a", "b", "c"] as const;
const NOW_MS = Date.UTC(2030, 0, 1);

/** What a client holds, and the last record that its transaction wrote or could read. */
interface Token {
  readonly epoch: EpochId;
  readonly offset: Offset;
  readonly record: LogRecord;
}

interface Seen {
  readonly minted: Map<string, number>;
  carried: number;
  lost: number;
}

class Run {
  readonly world = new MemoryWorld({
    nodes: NAMES.map((id) => ({ id, region: id, zone: id })),
    wallMs: () => NOW_MS,
    retentionMs: 1_000,
  });
  readonly store = new MemoryStore({ world: this.world, helper: "one" });
  readonly other = new MemoryStore({ world: this.world, helper: "two" });
  readonly tokens: Token[] = [];
  readonly copies: MemorySnapshot[] = [];
  /** Everything that was ever watched arriving on a node; callers may remember any of it. */
  readonly watched = new Map<string, NonNullable<MintRequest["streamed"]>[]>(NAMES.map((id) => [id, []]));
  #ids = 0;

  isUp(id: string): boolean {
    return this.world.node(id).isUp;
  }

  isPrimary(id: string): boolean {
    return this.isUp(id) && this.world.node(id).role === "primary";
  }

  isReplica(id: string): boolean {
    return this.isUp(id) && this.world.node(id).role === "replica";
  }

  async help(id: string): Promise<void> {
    const { epoch } = this.world.node(id);
    if (epoch !== null) await this.store.helpFlush(id, epoch);
  }

  restore({ node: id, other, size }: { node: string; other: string; size: number }): void {
    const copy = this.copies[size % this.copies.length];
    if (copy === undefined) return;
    if (this.isUp(id)) this.world.kill(id);
    const isPrimary = size % 2 === 0 || other === id;
    this.world.restore(id, copy, isPrimary ? { role: "primary" } : { role: "replica", upstream: other });
    this.world.start(id);
  }

  async transact(id: string, readOnly: boolean): Promise<void> {
    const { current } = await this.store.probe(id);
    if (current === null) return;
    const unique = new Uint8Array(10);
    new DataView(unique.buffer).setUint32(6, ++this.#ids);
    const execution = await this.store.execute(id, {
      ...keyOf(makeUuidV7(NOW_MS, unique)),
      epoch: current,
      digest: 7n,
      statements: [{ sql: readOnly ? "get k" : `put k ${"v".repeat(this.#ids % 50)}` }],
      isolation: "serializable",
      readOnly,
      maxRows: 1,
      maxBytes: 1,
    });
    const record = this.world.node(id).log.at(-1);
    assert.ok(execution.kind === "committed" && record !== undefined);
    this.tokens.push({ epoch: current, offset: execution.offset, record });
  }

  /** An honest caller: the primary shows one stream before and after the replica has said which epoch it has read. */
  async watch(primary: string, replica: string): Promise<void> {
    const before = await this.other.positions(primary);
    const { epochs, incarnation } = await this.other.probe(replica);
    const after = await this.other.positions(primary);
    const session = before?.replicas.find(({ node }) => node === replica)?.session;
    const seen = after?.replicas.find(({ node }) => node === replica);
    if (after === null || session === undefined || seen?.session !== session) return;
    if (epochs.at(-1)?.id === after.epoch)
      this.watched.get(replica)?.push({ epoch: after.epoch, offset: seen.flushed, incarnation });
  }

  async begin(id: string, supersedes: readonly EpochId[], memory: number): Promise<EpochRecord> {
    const request = { minSeq: 1, supersedes, command: supersedes.length > 0 ? "c" : null, finalMarks: {} };
    const streamed = this.watched.get(id)?.at(-1 - memory) ?? null;
    return this.store.mint(id, { ...request, streamed });
  }

  async replicate(id: string, size: number): Promise<void> {
    this.world.replicate(id, size);
    const { upstream } = this.world.node(id);
    if (upstream !== null && this.isPrimary(upstream)) await this.watch(upstream, id);
  }

  /** The node goes on from an old copy of itself, past where it was. */
  turnBack({ node: id, size }: { node: string; size: number }): void {
    const [copy] = this.copies;
    if (copy === undefined) return;
    if (this.isUp(id)) this.world.kill(id);
    this.world.restore(id, copy, { role: "primary" });
    this.world.start(id);
    this.world.noise(id, size);
    this.world.flush(id);
  }

  clone(id: string, primary: string): void {
    this.world.rejoin(id, primary);
    this.world.promote(id);
  }

  /** Every position of the ended epoch against what this history holds. */
  check(id: string, begun: EpochRecord): { carried: number; lost: number } {
    const here = new Set(this.world.node(id).log);
    const fork = parseOffset(begun.forkOffset) ?? 0n;
    const limit = begun.forkLimit === null ? null : (parseOffset(begun.forkLimit) ?? 0n);
    const ended = this.tokens.filter((token) => token.epoch === begun.previous);
    assert.ok(limit === null || fork <= limit);
    for (const { offset, record } of ended) {
      if (offset <= fork) assert.ok(here.has(record), `${String(offset)} is carried over and not there`);
      if (limit !== null && record.end > limit)
        assert.ok(!here.has(record), `${String(offset)} is above the limit`);
    }
    const carried = ended.filter(({ offset }) => offset <= fork).length;
    return { carried, lost: ended.filter(({ record }) => !here.has(record)).length };
  }
}

interface Step {
  readonly node: (typeof NAMES)[number];
  readonly other: (typeof NAMES)[number];
  readonly size: number;
}

/** What can happen to a node, and how often it does. A step that makes no sense at the time does nothing. */
const verbs: readonly (readonly [number, (run: Run, step: Step) => unknown])[] = [
  [6, (run, { node }) => run.isPrimary(node) && run.transact(node, false)],
  [1, (run, { node }) => run.isPrimary(node) && run.transact(node, true)],
  [2, (run, { node }) => run.isPrimary(node) && run.help(node)],
  [2, (run, { node }) => run.isUp(node) && run.world.flush(node)],
  [1, (run, { node, size }) => run.isPrimary(node) && run.world.noise(node, size)],
  [6, (run, { node, size }) => run.isReplica(node) && run.replicate(node, size)],
  [1, (run, { node }) => run.isReplica(node) && run.world.receive(node)],
  [2, (run, { node }) => run.isUp(node) && run.world.crash(node)],
  [1, (run, { node }) => run.isUp(node) && run.world.kill(node)],
  [1, (run, { node }) => run.isUp(node) && run.world.stop(node)],
  [4, (run, { node }) => !run.isUp(node) && run.world.start(node)],
  [2, (run, { node }) => run.isReplica(node) && run.world.promote(node)],
  [1, (run, { node }) => !run.isUp(node) && run.world.startAsPrimary(node)],
  [2, (run, { node, other }) => run.isReplica(node) && node !== other && run.world.follow(node, other)],
  [1, (run, { node }) => run.copies.push(run.world.snapshot(node))],
  [2, (run, step) => run.restore(step)],
  [1, (run, step) => run.turnBack(step)],
  [2, (run, { node, other }) => node !== other && run.isUp(other) && run.world.rejoin(node, other)],
  [1, (run, { node, other }) => node !== other && run.isPrimary(other) && run.clone(node, other)],
];
const BEGIN = verbs.length;

const step = fc.record({
  verb: fc.oneof(...verbs.map(([weight], verb) => ({ weight, arbitrary: fc.constant(verb) })), {
    weight: 8,
    arbitrary: fc.constant(BEGIN),
  }),
  node: fc.constantFrom(...NAMES),
  other: fc.constantFrom(...NAMES),
  size: fc.integer({ min: 1, max: 2_000 }),
});

/** The record of the epoch that the step has begun, if it has. */
async function act(
  run: Run,
  { verb, ...where }: Step & { readonly verb: number },
): Promise<EpochRecord | null> {
  const { node, size } = where;
  if (verb !== BEGIN) {
    await verbs[verb]?.[1](run, where);
    return null;
  }
  const { epoch, history } = run.world.node(node);
  if (!run.isPrimary(node) || !history.prepared) return null;
  const supersedes = size % 7 === 0 ? [`other ${String(size)}` as EpochId] : [];
  return epoch === null || supersedes.length > 0 ? run.begin(node, supersedes, size % 3) : null;
}

describe("fork offsets under random failures", () => {
  it("never claim what is not there, and never miss what is above the limit", async () => {
    const seen: Seen = { minted: new Map(), carried: 0, lost: 0 };
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 150, size: "max" }), async (steps) => {
        const run = new Run();
        await run.store.prepare("a");
        await run.begin("a", [], 0);
        run.world.replicate("b");
        run.world.replicate("c");
        run.copies.push(run.world.snapshot("a"));
        for (const each of steps) {
          const begun = await act(run, each);
          if (begun === null) continue;
          const { carried, lost } = run.check(each.node, begun);
          seen.minted.set(begun.cause, (seen.minted.get(begun.cause) ?? 0) + 1);
          seen.carried += carried;
          seen.lost += lost;
        }
      }),
      { numRuns: 4_000, seed: 20_300_101 },
    );
    // A run that never came to the cases that matter would prove nothing.
    for (const cause of ["clean_restart", "crash_recovery", "promotion", "reinstated"])
      assert.ok((seen.minted.get(cause) ?? 0) > 20, `${cause}: ${String(seen.minted.get(cause))}`);
    assert.ok(
      seen.carried > 200 && seen.lost > 200,
      `${String(seen.carried)} carried, ${String(seen.lost)} lost`,
    );
  });
});
