// Goal: a level is called kept exactly when nothing that the unheard nodes can have could have made a mark above the choice.
// Method: the marks are those of the tracker's own rule; everything that the unheard can have is tried.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type LevelRule, type Offset } from "@highwater/protocol";
import { type StoreNode } from "@highwater/store";
import { epochId, record } from "../../test/support/core.ts";
import { markOf } from "../core/marks.ts";
import { NOT_SYNCHRONOUS } from "../core/synchronous.ts";
import { type NodeState } from "../core/types.ts";
import { decideCandidate } from "./candidate.ts";
import { type Bound, elect } from "./election.ts";
import { replica, situation } from "../../test/support/failover.ts";

const off = (n: number): Offset => BigInt(n) as Offset;
/** Nothing at all, less than some, more than anybody. */
const POSSIBLE: readonly (Offset | null)[] = [null, off(2), off(9)];

const site = fc.record({ region: fc.constantFrom("r", "s", "t"), zone: fc.constantFrom("a", "b") });
const rule: fc.Arbitrary<LevelRule> = fc.oneof(
  fc.record({
    replicas: fc.integer({ min: 1, max: 3 }),
    outside: fc.constantFrom("zone" as const, "region" as const),
  }),
  fc.constant({ regions: "all" as const }),
  fc.record({ synchronous: fc.integer({ min: 1, max: 3 }) }),
);

function markWith(
  nodes: readonly StoreNode[],
  levelRule: LevelRule,
  primary: StoreNode,
  positions: ReadonlyMap<string, Offset | null>,
): Offset | null {
  const states = nodes.map((node) => ({ site: node, unfit: false }) as unknown as NodeState);
  const positionOf = (state: NodeState): Offset | null => positions.get(state.site.id) ?? null;
  if (!("synchronous" in levelRule)) return markOf(levelRule, states, primary, positionOf, NOT_SYNCHRONOUS);
  // Any of the others can have been the synchronous ones.
  const { synchronous: count } = levelRule;
  const others = nodes.filter((node) => node !== primary).map(({ id }) => positions.get(id) ?? null);
  let highest: Offset | null = null;
  for (let set = 0; set < 2 ** others.length; set++) {
    const chosen = others.filter((_position, at) => (set >> at) % 2 === 1);
    if (chosen.length !== count || chosen.includes(null)) continue;
    const offset = (chosen as Offset[]).reduce((low, one) => (one < low ? one : low));
    const mark = markOf(levelRule, states, primary, positionOf, { kind: "known", count, offset });
    if (mark !== null && (highest === null || mark > highest)) highest = mark;
  }
  return highest;
}

/** Every way in which the unknown can be filled in. */
function* worlds(
  nodes: readonly StoreNode[],
  boundOf: (node: string) => Bound,
): Generator<Map<string, Offset | null>> {
  const unknown = nodes.filter(({ id }) => boundOf(id) === "unknown");
  for (let n = 0; n < POSSIBLE.length ** unknown.length; n++) {
    const world = new Map<string, Offset | null>();
    for (const { id } of nodes) {
      const bound = boundOf(id);
      world.set(id, typeof bound === "bigint" ? bound : null);
    }
    let rest = n;
    for (const { id } of unknown) {
      world.set(id, POSSIBLE[rest % POSSIBLE.length] ?? null);
      rest = Math.floor(rest / POSSIBLE.length);
    }
    yield world;
  }
}

test("kept is said exactly when no world that fits the answers has a mark above the choice", () => {
  const seen = { kept: 0, at_risk: 0, not_covered: 0 };
  const bound: fc.Arbitrary<Bound> = fc.oneof(
    { weight: 3, arbitrary: fc.integer({ min: 0, max: 5 }).map(off) },
    { weight: 2, arbitrary: fc.constant("unknown" as const) },
    { weight: 1, arbitrary: fc.constant("nothing" as const) },
  );
  fc.assert(
    fc.property(
      fc.array(fc.tuple(site, bound), { minLength: 2, maxLength: 6 }),
      rule,
      fc.boolean(),
      (given, levelRule, isFirstExcluded) => {
        const nodes = given.map(([where, _bound], at) => ({ id: `n${String(at)}`, ...where }));
        // The first was the primary, and is gone.
        const bounds = new Map<string, Bound>(
          given.map(([, one], at) => [`n${String(at)}`, at === 0 ? "unknown" : one]),
        );
        const boundOf = (id: string): Bound => bounds.get(id) ?? "unknown";
        const answered = nodes.flatMap(({ id }) => {
          const position = boundOf(id);
          return typeof position === "bigint" ? [{ node: id, position }] : [];
        });
        answered.sort((a, b) => Number(b.position - a.position));
        // An operator may pass the most advanced over.
        const isPassedOver = isFirstExcluded && answered.length > 1;
        const chosen = isPassedOver ? answered[1] : answered[0];
        const [primary] = nodes;
        if (chosen === undefined || primary === undefined) return;
        const found = elect({ rule: levelRule, nodes, primary, boundOf, chosen });
        let isKept = true;
        for (const world of worlds(nodes, boundOf)) {
          const mark = markWith(nodes, levelRule, primary, world);
          if (mark !== null && mark > chosen.position) isKept = false;
        }
        assert.equal(found.promise, isKept ? "kept" : "at_risk");
        if (!isPassedOver) assert.equal(found.answered.length >= found.needed, isKept, "n - k + 1");
        seen[found.promise]++;
      },
    ),
    { numRuns: 2_000 },
  );
  assert.ok(seen.kept > 200 && seen.at_risk > 200, JSON.stringify(seen));
});

test("whatever was acknowledged before the primary died: what is called kept is on the node that is named", () => {
  const fate = fc.constantFrom("answers", "answers", "answers", "silent", "strayed", "unfit", "behind");
  const seen = { kept: 0, at_risk: 0, not_covered: 0 };
  fc.assert(
    fc.property(
      fc.array(fc.tuple(site, fc.integer({ min: 10, max: 15 }), fate), { minLength: 2, maxLength: 6 }),
      rule,
      (given, levelRule) => {
        const nodes = given.map(([where], at) => ({ id: `n${String(at)}`, ...where }));
        const [first, second] = [record(1, { node: "n1" }), record(2, { node: "n0" })];
        const astray = record(3, { node: "n1", previous: epochId(1) });
        const reports = given.flatMap(([, flushed, how], at) => {
          const id = `n${String(at)}`;
          // The first was the primary, and is gone; the current epoch ends the one in which a strayed node lives.
          if (at === 0 || how === "silent") return [];
          if (how === "strayed") return [replica(id, flushed + 20, { epochs: [first, astray] })];
          if (how === "behind") return [replica(id, flushed, { epochs: [first] })];
          const unfit = how === "unfit" ? "fsync is off" : null;
          return [replica(id, flushed, { epochs: [first, second], unfit })];
        });
        const current = { ...second, supersedes: [astray.id] };
        const decision = decideCandidate(
          situation(reports, {
            nodes,
            levels: [{ name: "level", rule: levelRule }],
            trackers: [{ tracker: "t", epochs: [first, current] }],
          }),
        );
        const [found] = decision.levels;
        const [primary] = nodes;
        if (found === undefined || primary === undefined) return;
        assert.ok(decision.chosen?.position != null);
        const reported = new Map(given.map(([, flushed], at) => [`n${String(at)}`, off(flushed)]));
        const mark = markWith(nodes, levelRule, primary, reported);
        if (found.promise === "kept") assert.ok(mark === null || mark <= decision.chosen.position);
        assert.equal(decision.refusal, found.promise === "kept" ? null : "loss");
        seen[found.promise]++;
      },
    ),
    { numRuns: 2_000 },
  );
  assert.ok(seen.kept > 200 && seen.at_risk > 200, JSON.stringify(seen));
});
