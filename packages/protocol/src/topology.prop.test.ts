// Reachability against its definition: some choice of nodes that have everything satisfies the level, for a given primary.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { isInRange, parseAddressRange } from "./address-range.ts";
import { type LevelRule, type NodeSpec } from "./topology.ts";
import { topologyFaults } from "./topology-faults.ts";

const SEED = 20_261_121;

const site = fc.record({ region: fc.constantFrom("x", "y", "z"), zone: fc.constantFrom("1", "2", "3") });
const rule = fc.oneof(
  fc.constant<LevelRule>({ primary: true }),
  fc.constant<LevelRule>({ regions: "all" }),
  fc.record<Extract<LevelRule, { replicas: number }>>({
    replicas: fc.integer({ min: 1, max: 5 }),
    outside: fc.constantFrom("zone", "region"),
  }),
  fc.record<Extract<LevelRule, { synchronous: number }>>({ synchronous: fc.integer({ min: 1, max: 6 }) }),
);

function nodesOf(sites: readonly { region: string; zone: string }[]): NodeSpec[] {
  return sites.map((one, at) => ({ id: `n${String(at)}`, url: `postgresql://n${String(at)}/`, ...one }));
}

/** By the words of the rule: are there replicas, all in different domains and none in the primary's, enough of them? */
function isSatisfied(
  level: LevelRule,
  primary: NodeSpec,
  having: readonly NodeSpec[],
  all: readonly NodeSpec[],
): boolean {
  if ("primary" in level) return having.includes(primary);
  if ("regions" in level) return all.every(({ region }) => having.some((node) => node.region === region));
  if ("synchronous" in level) return having.filter((node) => node !== primary).length >= level.synchronous;
  const same = (a: NodeSpec, b: NodeSpec): boolean =>
    a.region === b.region && (level.outside === "region" || a.zone === b.zone);
  const choose = (chosen: readonly NodeSpec[], from: number): boolean =>
    chosen.length === level.replicas ||
    having.some(
      (node, at) =>
        at >= from &&
        !same(node, primary) &&
        !chosen.some((other) => same(node, other)) &&
        choose([...chosen, node], at + 1),
    );
  return choose([], 0);
}

test("a level is refused if and only if no set of nodes satisfies it, whichever node is the primary", () => {
  let refused = 0;
  let accepted = 0;
  fc.assert(
    fc.property(rule, fc.array(site, { minLength: 1, maxLength: 6 }), (level, sites) => {
      const nodes = nodesOf(sites);
      const reachable = nodes.map((primary) => {
        for (let set = 0; set < 2 ** nodes.length; set++)
          if (
            isSatisfied(
              level,
              primary,
              nodes.filter((_, at) => (set >> at) % 2 === 1),
              nodes,
            )
          )
            return true;
        return false;
      });
      const faults = topologyFaults({ nodes, levels: { level } });
      assert.equal(new Set(reachable).size, 1, "it does not depend on the primary");
      assert.equal(faults.length === 0, reachable[0]);
      if (faults.length === 0) accepted++;
      else refused++;
    }),
    { seed: SEED, numRuns: 2_000 },
  );
  assert.ok(refused > 100 && accepted > 100, "both happened");
});

const criteria = fc.record(
  {
    applicationName: fc.constantFrom("a", "b"),
    slot: fc.constantFrom("s", "t"),
    address: fc.constantFrom("10.0.0.1", "10.0.0.2", "10.0.0.0/30", "10.0.0.0/31"),
  },
  { requiredKeys: [] },
);

test("nodes are refused if and only if every stream of the one is one of the other", () => {
  const streams = ["a", "b", "c"].flatMap((applicationName) =>
    ["s", "t", null].flatMap((slot) =>
      ["10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.9.9.9"].map((address) => ({
        applicationName,
        slot,
        address,
      })),
    ),
  );
  fc.assert(
    fc.property(
      criteria.filter((one) => Object.keys(one).length > 0),
      criteria.filter((one) => Object.keys(one).length > 0),
      (one, other) => {
        const matching = (wanted: typeof one): Set<(typeof streams)[number]> => {
          const range = wanted.address === undefined ? null : parseAddressRange(wanted.address);
          return new Set(
            streams.filter(
              (stream) =>
                (wanted.applicationName ?? stream.applicationName) === stream.applicationName &&
                (wanted.slot ?? stream.slot) === stream.slot &&
                (range === null || isInRange(range, stream.address)),
            ),
          );
        };
        const [first, second] = [matching(one), matching(other)];
        const within = (inner: Set<unknown>, outer: Set<unknown>): boolean =>
          [...inner].every((stream) => outer.has(stream));
        const confused = within(first, second) || within(second, first);
        const sites = [
          { region: "x", zone: "1" },
          { region: "y", zone: "1" },
        ];
        const [a, b] = nodesOf(sites) as [NodeSpec, NodeSpec];
        const faults = topologyFaults({
          nodes: [
            { ...a, replication: one },
            { ...b, replication: other },
          ],
          levels: { disk: { primary: true } },
        });
        assert.equal(faults.length > 0, confused, faults.join("; "));
      },
    ),
    { seed: SEED, numRuns: 2_000 },
  );
});
