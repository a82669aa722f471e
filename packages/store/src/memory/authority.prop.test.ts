// Goal: whatever has happened, no two processes that see the same nodes take different nodes for the primary, however much or
// little each of them has seen before. Method: random faults, promotions and commands on a memory world, with epochs begun
// on any writable node whether it was right or not; then everybody is asked.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { type Authority, decideAuthority, type NodeReport } from "@highwater/authority";
import { type EpochId, EpochGraph, type EpochRecord } from "@highwater/protocol";
import { MemoryStore, MemoryWorld } from "../memory.ts";

const NAMES = ["a", "b", "c"] as const;
const MINT = { minSeq: 1, streamed: null, finalMarks: {} };

const step = fc.record({
  verb: fc.constantFrom(
    "replicate",
    "replicate",
    "crash",
    "restart",
    "promote",
    "promote",
    "follow",
    "rejoin",
    "authorize",
    "command blindly",
    "begin",
    "begin",
    "begin",
    "obey",
  ),
  node: fc.constantFrom(...NAMES),
  other: fc.constantFrom(...NAMES),
});
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

class Run {
  readonly world = new MemoryWorld({
    nodes: NAMES.map((id) => ({ id, region: id, zone: id })),
    wallMs: () => 1,
    retentionMs: 1_000,
  });
  readonly store = new MemoryStore({ world: this.world, helper: "one" });
  /** Everything that anybody has ever seen. */
  readonly all = new EpochGraph();

  async begin(node: string, command: string | null, supersedes: readonly EpochId[]): Promise<void> {
    if (!this.world.node(node).history.prepared) return;
    this.all.add([await this.store.mint(node, { ...MINT, command, supersedes })]);
  }

  async act({ verb, node, other }: Step): Promise<void> {
    const { world } = this;
    const isPrimary = world.node(node).role === "primary";
    if (verb === "crash") world.crash(node);
    else if (verb === "restart") world.cleanRestart(node);
    else if (verb === "rejoin" && node !== other) world.rejoin(node, other);
    else if (isPrimary && verb === "authorize") world.authorize(node);
    else if (isPrimary && verb === "command blindly") world.command(node, []);
    else if (isPrimary && verb === "begin") await this.begin(node, null, []);
    else if (!isPrimary && verb === "replicate") world.replicate(node);
    else if (!isPrimary && verb === "promote") world.promote(node);
    else if (!isPrimary && verb === "follow" && node !== other) world.follow(node, other);
    else if (verb === "obey") {
      const answer = decideAuthority(await this.reports(), null, this.all);
      if (answer.kind === "mint") await this.begin(answer.node, answer.command, answer.supersedes);
    }
  }

  reports(): Promise<NodeReport[]> {
    return Promise.all(NAMES.map((id) => this.store.probe(id)));
  }

  /** What a process answers that has seen these records before, and last took `known` for current. */
  ask(reports: readonly NodeReport[], known: EpochId | null, seen: readonly EpochRecord[]): Authority {
    const graph = new EpochGraph();
    graph.add(seen);
    for (const report of reports) graph.add(report.epochs);
    return decideAuthority(reports, known, graph);
  }
}

describe("authority under random failures", () => {
  it("is one node for everybody, or none", async () => {
    const answered = new Map<string, number>();
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40, size: "max" }), async (steps) => {
        const run = new Run();
        await run.store.prepare("a");
        await run.begin("a", null, []);
        for (const each of steps) await run.act(each);
        const reports = await run.reports();
        const chosen = new Set<string>();
        for (const known of [null, ...run.all.ids()]) {
          for (const seen of [run.all.records(), known === null ? [] : run.all.ancestry(known)]) {
            const answer = run.ask(reports, known, seen);
            answered.set(answer.kind, (answered.get(answer.kind) ?? 0) + 1);
            if (answer.kind !== "primary" && answer.kind !== "mint") continue;
            chosen.add(answer.node);
            const backwards = run.ask([...reports].reverse(), known, seen);
            assert.deepEqual(backwards, answer, "the order of the answers decides nothing");
          }
        }
        assert.ok(chosen.size <= 1, `taken for the primary: ${[...chosen].join(", ")}`);
      }),
      { numRuns: 3_000, seed: 20_300_101 },
    );
    for (const kind of ["primary", "mint", "split", "none"])
      assert.ok((answered.get(kind) ?? 0) > 500, `${kind}: ${String(answered.get(kind))}`);
  });
});
