import assert from "node:assert/strict";
import { test } from "node:test";
import { type Offset } from "@highwater/protocol";
import { type Witness } from "@highwater/store";
import { epochId, record } from "../../test/support/core.ts";
import { decideCandidate, type Decision } from "./candidate.ts";
import { FIRST, NODES, primary, replica, situation } from "../../test/support/failover.ts";

const promises = ({ levels }: Decision): Record<string, string> =>
  Object.fromEntries(levels.map(({ level, promise }) => [level, promise]));
const standings = ({ nodes }: Decision): Record<string, string> =>
  Object.fromEntries(nodes.map(({ node, standing }) => [node, standing]));

test("the most advanced replica is named, and what each level promised survives", () => {
  const decision = decideCandidate(situation([replica("west", 80), replica("north", 90)]));
  assert.equal(decision.chosen?.node, "north");
  assert.equal(decision.refusal, null);
  assert.deepEqual(promises(decision), { disk: "not_covered", region: "kept", global: "kept" });
  assert.deepEqual(standings(decision), { east: "silent", west: "candidate", north: "candidate" });
});

test("among equals the wish decides, but never against the position", () => {
  const choose = (west: number, north: number, region: string) =>
    decideCandidate(situation([replica("west", west), replica("north", north)], { wishes: { region } }))
      .chosen?.node;
  assert.equal(choose(80, 80, "north"), "north");
  assert.equal(choose(80, 80, "west"), "west");
  assert.equal(choose(80, 81, "west"), "north");
  const nodes = [...NODES, { id: "north-b", region: "north", zone: "b" }];
  const reports = [replica("west", 80), replica("north", 80), replica("north-b", 80)];
  const wishes = { region: "north", zone: "b" };
  assert.equal(decideCandidate(situation(reports, { nodes, wishes })).chosen?.node, "north-b");
});

test("one of two has to answer for all regions, both for one region", () => {
  const decision = decideCandidate(situation([replica("west", 80)]));
  assert.equal(decision.refusal, "loss");
  assert.equal(decision.chosen?.node, "west");
  assert.deepEqual(promises(decision), { disk: "not_covered", region: "at_risk", global: "kept" });
  const region = decision.levels.find(({ level }) => level === "region");
  assert.deepEqual([region?.needed, region?.answered, region?.domains], [2, ["west"], ["west", "north"]]);
  assert.match(decision.reasons.join(), /too few regions answer for level region: 1 of the 2 that must/);
  const accepted = decideCandidate(situation([replica("west", 80)], { wishes: { acceptsLoss: true } }));
  assert.equal(accepted.refusal, null);
  assert.equal(accepted.chosen?.node, "west");
});

test("a region has answered when every node in it has", () => {
  const nodes = [...NODES, { id: "north-b", region: "north", zone: "b" }];
  const levels = [{ name: "region", rule: { replicas: 1, outside: "region" } }] as const;
  const reports = [replica("west", 80), replica("north", 70)];
  assert.equal(decideCandidate(situation(reports, { nodes, levels })).refusal, "loss");
  const ignored = new Set(["north-b"]);
  assert.equal(decideCandidate(situation(reports, { nodes, levels, wishes: { ignored } })).refusal, null);
  assert.equal(
    decideCandidate(situation([...reports, replica("north-b", 1)], { nodes, levels })).refusal,
    null,
  );
});

test("a node that is passed over still counts with what it has", () => {
  const excluded = new Set(["north"]);
  const ahead = decideCandidate(
    situation([replica("west", 80), replica("north", 81)], { wishes: { excluded } }),
  );
  assert.deepEqual([ahead.chosen?.node, ahead.refusal], ["west", "loss"]);
  const equal = decideCandidate(
    situation([replica("west", 80), replica("north", 80)], { wishes: { excluded } }),
  );
  assert.deepEqual([equal.chosen?.node, equal.refusal], ["west", null]);
});

test("a server that was restored on the same epoch's record and went on is no candidate, however far its log goes", () => {
  const witness = (reached: number, seenBy: number): Witness => ({
    reached: BigInt(reached) as Offset,
    seenBy: BigInt(seenBy) as Offset,
    marks: {},
  });
  const among = (west: Witness | null, applied = 900, seenBy = 82): Decision =>
    decideCandidate(
      situation([replica("west", 900, { applied: BigInt(applied) as Offset }), replica("north", 85)], {
        witnesses: new Map([
          ["west", west],
          ["north", witness(80, seenBy)],
        ]),
      }),
    );
  for (const lacking of [null, witness(40, 900)]) {
    const decision = among(lacking);
    assert.deepEqual(standings(decision), { east: "silent", west: "other_history", north: "candidate" });
    assert.equal(decision.chosen?.node, "north");
    const west = decision.nodes.find(({ node }) => node === "west");
    assert.match(west?.reason ?? "", /up to 900, and lacks what north had at 82/);
  }
  // It has the same or a later one, or has not replayed so far yet: then it is merely ahead.
  assert.equal(among(witness(80, 900)).chosen?.node, "west");
  assert.equal(among(witness(40, 81), 81).chosen?.node, "west");
});

test("unfit, strange, empty and lagging nodes are named with the reason, and do not count as answers", () => {
  const second = record(2, { node: "east" });
  const strange = record(3, { node: "north", previous: epochId(1) });
  const current = { ...second, supersedes: [strange.id] };
  const nodes = [
    ...NODES,
    { id: "delayed", region: "west", zone: "b" },
    { id: "empty", region: "west", zone: "c" },
    { id: "late", region: "north", zone: "b" },
  ];
  const epochs = [FIRST, current];
  const decision = decideCandidate(
    situation(
      [
        replica("west", 50, { epochs }),
        replica("north", 999, { epochs: [FIRST, strange] }),
        replica("delayed", 998, { epochs, unfit: "a recovery target is set: recovery_target_time" }),
        replica("empty", 997, { epochs: [], prepared: false }),
        replica("late", 996),
      ],
      { nodes },
    ),
  );
  assert.equal(decision.epoch?.id, current.id);
  assert.equal(decision.chosen?.node, "west");
  assert.deepEqual(standings(decision), {
    east: "silent",
    west: "candidate",
    north: "other_history",
    delayed: "unfit",
    empty: "no_history",
    late: "behind",
  });
  for (const { node, reason } of decision.nodes) assert.equal(reason === null, node === "west");
  assert.equal(decision.refusal, "loss");
  assert.deepEqual(decision.overrules, [strange.id]);
});

test("while the primary answers no node is to be promoted, unless it hands over", () => {
  const reports = [primary("east", 100, [FIRST]), replica("west", 90), replica("north", 80)];
  const refused = decideCandidate(situation(reports));
  assert.equal(refused.refusal, "primary_answers");
  assert.deepEqual(refused.reasons, ["east still answers as the primary"]);
  const handedOver = decideCandidate(situation(reports, { wishes: { isSwitchover: true } }));
  assert.deepEqual([handedOver.chosen?.node, handedOver.refusal], ["west", null]);
  // Back from a crash, and its epoch has not begun yet.
  const back = [{ ...primary("east", 100, [FIRST]), current: null }, replica("west", 90)];
  assert.match(decideCandidate(situation(back)).reasons.join(), /east is back and writable/);
});

test("a node that was promoted already is no election any more", () => {
  const promoted = { ...primary("west", 90, [FIRST]), current: null };
  for (const isSwitchover of [false, true]) {
    const decision = decideCandidate(
      situation([promoted, replica("north", 80)], { wishes: { isSwitchover } }),
    );
    assert.deepEqual([decision.refusal, decision.occupant], ["primary_answers", "west"]);
  }
});

test("a zombie of an ended epoch does not stand in the way, and does not count as an answer", () => {
  const second = record(2, { node: "west" });
  const epochs = [FIRST, second];
  const decision = decideCandidate(
    situation([primary("east", 999, [FIRST]), replica("north", 80, { epochs })]),
  );
  assert.deepEqual(standings(decision), { east: "other_history", west: "silent", north: "candidate" });
  assert.equal(decision.chosen?.node, "north");
  assert.deepEqual(promises(decision), { disk: "not_covered", region: "at_risk", global: "kept" });
});

test("two writable nodes without an order are a split brain, whatever other node answers", () => {
  const west = record(2, { node: "west" });
  const east = record(3, { node: "east", previous: epochId(1) });
  const epochs = [FIRST, west];
  const decision = decideCandidate(
    situation([
      primary("east", 90, [FIRST, east]),
      primary("west", 95, epochs),
      replica("north", 80, { epochs }),
    ]),
  );
  assert.equal(decision.refusal, "split_brain");
  assert.match(decision.reasons.join("\n"), new RegExp(`${epochId(2)}[^]*${epochId(3)}`));
  assert.equal(decision.chosen, null);
  // Both of one epoch, and neither has begun its own.
  const both = [primary("east", 90, [FIRST]), primary("west", 95, [FIRST])].map((report) => ({
    ...report,
    current: null,
  }));
  assert.equal(decideCandidate(situation(both)).refusal, "split_brain");
  // With a command the one side has ended the other.
  const settled = decideCandidate(
    situation([
      primary("east", 90, [FIRST, east]),
      replica("north", 80, { epochs: [FIRST, { ...west, commanded: true }] }),
    ]),
  );
  assert.deepEqual([settled.chosen?.node, settled.epoch?.id], ["north", west.id]);
  assert.deepEqual(settled.overrules, [east.id]);
});

test("an epoch that only a tracker remembers is the current one all the same", () => {
  const second = record(2, { node: "east" });
  const trackers = [{ tracker: "t", epochs: [FIRST, second] }];
  const reports = [replica("west", 80), replica("north", 90)];
  const decision = decideCandidate(situation(reports, { trackers }));
  assert.equal(decision.refusal, "no_candidate");
  assert.deepEqual(standings(decision), { east: "silent", west: "behind", north: "behind" });
  const given = decideCandidate(situation(reports, { trackers, wishes: { acceptsLoss: true } }));
  assert.deepEqual(
    [given.chosen?.node, given.epoch?.id, given.isEarlier, given.refusal],
    ["north", FIRST.id, true, null],
  );
  assert.deepEqual(promises(given), { disk: "not_covered", region: "at_risk", global: "at_risk" });
  assert.deepEqual(given.overrules, [second.id]);
});

test("no node that can be promoted, and no node at all", () => {
  assert.equal(decideCandidate(situation([])).refusal, "no_candidate");
  const unfit = replica("west", 80, { unfit: "fsync is off" });
  assert.equal(decideCandidate(situation([unfit])).refusal, "no_candidate");
});

test("a stream that is still open, or a position that moves, means that the old primary may be alive", () => {
  const upstream = { session: "1", flushed: replica("west", 80).flushed };
  const reports = [replica("west", 80, { upstream }), replica("north", 70)];
  const fed = decideCandidate(situation(reports));
  assert.equal(fed.refusal, "still_fed");
  assert.match(fed.reasons.join(), /^west: a stream from another server is still open/);
  assert.equal(decideCandidate(situation(reports, { wishes: { isFenced: true } })).refusal, null);
  const moving = new Set(["north"]);
  const quiet = [replica("west", 80), replica("north", 70)];
  assert.match(
    decideCandidate(situation(quiet, { moving })).reasons.join(),
    /^north: the position still rises/,
  );
  assert.equal(
    decideCandidate(situation(quiet, { moving, wishes: { acceptsLoss: true } })).refusal,
    "still_fed",
  );
});

test("a primary that is not configured any more leaves regions in doubt, and all regions not", () => {
  const nodes = NODES.filter(({ id }) => id !== "east");
  const decision = decideCandidate(situation([replica("west", 80), replica("north", 90)], { nodes }));
  assert.deepEqual(promises(decision), { disk: "not_covered", region: "at_risk", global: "kept" });
});
