// The levels' rules by example; marks.prop.test.ts has their definition.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type LevelRule } from "@highwater/protocol";
import { configOf, Driven, epochId, off, record } from "../../test/support/core.ts";
import { markIn, markOf, reachableLevels, setMark } from "./marks.ts";
import { NOT_SYNCHRONOUS } from "./synchronous.ts";

const nodes = (positions: Record<string, number | null>, unfit: readonly string[] = []) => {
  const { state } = new Driven();
  return [...state.topology.nodes].map(([id, node]) => {
    const position = positions[id];
    return { ...node, position: position == null ? null : off(position), unfit: unfit.includes(id) };
  });
};
const primary = configOf().nodes[0] ?? { id: "a", region: "east", zone: "1" };

const markFor = (rule: LevelRule, positions: Record<string, number | null>, unfit?: readonly string[]) =>
  markOf(rule, nodes(positions, unfit), primary, (node) => node.position, NOT_SYNCHRONOUS);

test("a zone or region counts once, by its best node, and the primary's own not at all", () => {
  assert.equal(markFor({ primary: true }, { a: 9, b: 10 }), 9n);
  assert.equal(markFor({ replicas: 1, outside: "region" }, { a: 9, b: 5, c: 7, d: 8 }), 7n);
  assert.equal(markFor({ replicas: 2, outside: "region" }, { a: 9, b: 5, c: 7, d: 8 }), 5n);
  assert.equal(markFor({ replicas: 1, outside: "zone" }, { a: 9, b: 5, c: 7, d: 8 }), 8n);
  assert.equal(markFor({ replicas: 3, outside: "zone" }, { a: 9, b: 5, c: 7, d: 8 }), 5n);
  assert.equal(markFor({ regions: "all" }, { a: 9, b: 5, c: 7, d: 8 }), 5n);
});

test("too few positions are no mark, not a low one", () => {
  assert.equal(markFor({ replicas: 2, outside: "region" }, { a: 9, b: 5 }), null);
  assert.equal(markFor({ regions: "all" }, { a: 9, b: 5, d: 3 }), null);
  assert.equal(markFor({ primary: true }, { b: 5 }), null);
});

test("an unfit node counts for no level", () => {
  assert.equal(markFor({ replicas: 1, outside: "region" }, { a: 9, b: 5, c: 7 }, ["c"]), 5n);
  assert.equal(markFor({ regions: "all" }, { a: 9, b: 5, c: 7 }, ["c"]), null);
});

test("a level is in reach if the nodes that are alive and fit could make it", () => {
  const it = new Driven();
  assert.deepEqual(reachableLevels(it.state), []);
  it.follow(record(1));
  assert.deepEqual(reachableLevels(it.state), ["disk"]);
  it.report("b", []);
  assert.deepEqual(reachableLevels(it.state), ["disk", "zone", "region"]);
  it.report("c", []);
  assert.deepEqual(reachableLevels(it.state), ["disk", "zone", "region", "global"]);
  it.report("a", [], { role: "primary", unfit: true });
  it.report("d", []);
  assert.deepEqual(reachableLevels(it.state), ["zone", "region", "global"]);
  it.send({ kind: "node_unreachable", node: "c" });
  assert.deepEqual(reachableLevels(it.state), ["zone", "region"]);
});

test("a mark that would fall stops the core, and stays", () => {
  const it = Driven.following(record(1));
  it.positions(50);
  assert.throws(() => {
    setMark(it.state, epochId(1), "disk", off(49));
  }, /would fall from 50 to 49/);
  assert.equal(markIn(it.state, epochId(1), "disk"), 50n);
});

test("time that goes back stops the core before anything changes", () => {
  const it = Driven.following(record(1));
  const { nowMs } = it.state;
  assert.throws(
    () => it.state.apply({ kind: "node_unreachable", nowMs: nowMs - 1, node: "a" }),
    /time went back/,
  );
  assert.equal(it.state.topology.nodes.get("a")?.alive, true);
  assert.equal(it.state.nowMs, nowMs);
});
