// Marks against their definition, and what lateness, repetition and loss of reports do to them.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type LevelRule, type Offset } from "@highwater/protocol";
import { configOf, Driven, epochId, off, record } from "../../test/support/core.ts";
import { markIn, type NodeSite, type NodeState, type TrackerEvent } from "./index.ts";
import { markOf } from "./marks.ts";
import { OffsetHeap } from "./offset-heap.ts";
import { NOT_SYNCHRONOUS } from "./synchronous.ts";
import { holds } from "../../sim/truth.ts";

const SEED = 20_260_102;

const site = fc.record({ region: fc.constantFrom("x", "y", "z"), zone: fc.constantFrom("1", "2", "3") });
const rule = fc.oneof(
  fc.constant<LevelRule>({ primary: true }),
  fc.constant<LevelRule>({ regions: "all" }),
  fc.record<Extract<LevelRule, { replicas: number }>>({
    replicas: fc.integer({ min: 1, max: 4 }),
    outside: fc.constantFrom("zone", "region"),
  }),
);
const member = fc.record({
  site,
  at: fc.option(fc.nat({ max: 12 }), { freq: 4 }),
  unfit: fc.boolean().map((sick) => sick && true),
});

test("a mark is the highest offset at which the level's rule holds", () => {
  fc.assert(
    fc.property(rule, fc.array(member, { minLength: 1, maxLength: 8 }), (level, members) => {
      const sites: NodeSite[] = members.map((one, index) => ({ id: `n${String(index)}`, ...one.site }));
      const states = members.map((one, index) => ({
        site: sites[index],
        unfit: index > 0 && one.unfit,
        position: one.at === null ? null : off(one.at),
      })) as unknown as NodeState[];
      const home = sites[0] ?? { id: "n0", region: "x", zone: "1" };
      const mark = markOf(level, states, home, (node) => node.position, NOT_SYNCHRONOUS);
      const reached = members
        .flatMap(({ at }) => (at === null ? [] : [BigInt(at)]))
        .filter((offset) =>
          holds(
            level,
            home,
            states,
            (node: NodeState) => !node.unfit && node.position !== null && node.position >= offset,
          ),
        );
      const highest = reached.reduce<bigint | null>((a, b) => (a === null || b > a ? b : a), null);
      assert.equal(mark, highest);
    }),
    { seed: SEED, numRuns: 3_000 },
  );
});

type Positions = Extract<TrackerEvent, { kind: "positions_reported" }>;
type Report = Extract<TrackerEvent, { kind: "node_reported" }>;

/** What an honest epoch shows over time: the primary and its replicas move on, and every moment is reported truthfully. */
const moments = fc
  .array(
    fc.record({
      a: fc.nat({ max: 30 }),
      b: fc.nat({ max: 30 }),
      c: fc.nat({ max: 30 }),
      d: fc.nat({ max: 30 }),
    }),
    {
      minLength: 3,
      maxLength: 12,
    },
  )
  .map((steps) => {
    const events: (Positions | Report)[] = [];
    const at = { a: 10, b: 0, c: 0, d: 0 };
    for (const [index, move] of steps.entries()) {
      at.a += move.a;
      for (const node of ["b", "c", "d"] as const) at[node] = Math.min(at.a, at[node] + move[node]);
      const time = { nowMs: 2_000 + index * 10, askedAtMs: 2_000 + index * 10 };
      events.push({
        ...time,
        kind: "positions_reported",
        node: "a",
        epoch: epochId(1),
        flushed: off(at.a),
        replicas: (["b", "c", "d"] as const).map((node) => ({
          node,
          session: `s-${node}`,
          flushed: off(at[node]),
        })),
      });
      for (const node of ["b", "c", "d"] as const)
        events.push({
          ...time,
          kind: "node_reported",
          node,
          role: "replica",
          incarnation: "1",
          epochs: [record(1)],
          unfit: false,
          upstream: { session: `w-${node}`, flushed: off(at[node]) },
        });
    }
    return { events, highest: { ...at } };
  });

const LEVELS = configOf().levels.map(({ name }) => name);

function play(events: readonly (Positions | Report)[]): {
  it: Driven;
  marks: (Offset | null)[];
  durable: Set<string>;
} {
  const it = Driven.following(record(1));
  for (let n = 1; n <= 20; n++) it.position(n, 1, n * 15);
  const before = new Map<string, bigint>();
  for (const { nowMs: _, ...event } of events) {
    it.send(event);
    for (const level of LEVELS) {
      const mark = markIn(it.state, epochId(1), level);
      if (mark === null) continue;
      assert.ok(mark >= (before.get(level) ?? 0n), `${level} went down`);
      before.set(level, mark);
    }
  }
  const durable = new Set<string>();
  for (let n = 1; n <= 20; n++)
    for (const level of LEVELS)
      if (it.verdict(n, 1, n * 15, level) === "durable") durable.add(`${String(n)}/${level}`);
  return { it, marks: LEVELS.map((level) => markIn(it.state, epochId(1), level)), durable };
}

test("replayed, duplicated and reordered reports never lower a mark, and never raise one above the truth", () => {
  fc.assert(
    fc.property(
      moments,
      fc.array(fc.nat(), { minLength: 5, maxLength: 60 }),
      ({ events, highest }, order) => {
        const shuffled = order.flatMap((at) => events[at % events.length] ?? []);
        const { marks } = play([...shuffled, ...events, ...shuffled]);
        assert.deepEqual(marks.slice(0, 1), [off(highest.a)]);
        const best = BigInt(Math.max(highest.b, highest.c));
        assert.ok((marks[2] ?? 0n) <= best);
      },
    ),
    { seed: SEED, numRuns: 300 },
  );
});

test("losing reports never makes anything durable that is not durable without the loss", () => {
  fc.assert(
    fc.property(moments, fc.array(fc.boolean(), { minLength: 60, maxLength: 60 }), ({ events }, kept) => {
      const whole = play(events);
      const part = play(events.filter((_, index) => kept[index] === true));
      for (const [index, mark] of part.marks.entries())
        if (mark !== null) assert.ok(mark <= (whole.marks[index] ?? -1n));
      for (const key of part.durable) assert.ok(whole.durable.has(key), key);
    }),
    { seed: SEED, numRuns: 300 },
  );
});

test("the heap gives up what the mark has passed, lowest first, and keeps the rest", () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat({ max: 50 })),
      fc.nat({ max: 50 }),
      fc.nat({ max: 50 }),
      (offsets, mark, least) => {
        const heap = new OffsetHeap<number>();
        for (const offset of offsets) heap.push(off(offset), offset);
        heap.retain((_, value) => value >= least);
        const popped: number[] = [];
        for (let value = heap.popUpTo(off(mark)); value !== undefined; value = heap.popUpTo(off(mark)))
          popped.push(value);
        const kept = offsets.filter((offset) => offset >= least).sort((a, b) => a - b);
        assert.deepEqual(
          popped,
          kept.filter((offset) => offset <= mark),
        );
        assert.equal(heap.size, kept.length - popped.length);
      },
    ),
    { seed: SEED, numRuns: 1_000 },
  );
});
