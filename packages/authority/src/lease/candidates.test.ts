// Reads from Patroni's keys which members it may promote. The values are as Patroni 4.1 writes
// them.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type Candidates, candidatesOf, type ManagerMemory } from "./candidates.ts";

const config = (more: Record<string, unknown> = {}): string =>
  JSON.stringify({ ttl: 20, synchronous_mode: true, synchronous_node_count: 1, ...more });
const sync = (standbys: string | null, leader = "east"): string =>
  JSON.stringify({ leader, sync_standby: standbys, quorum: 0 });
const member = (tags: Record<string, unknown> = {}): string => JSON.stringify({ state: "running", tags });

function found(over: Partial<ManagerMemory> = {}): Candidates {
  const members = new Map(["east", "west", "north"].map((name) => [name, member()]));
  return candidatesOf({ holder: "east", sync: sync("west"), config: config(), members, ...over });
}
const reason = (over: Partial<ManagerMemory>): string => {
  const answer = found(over);
  return answer.kind === "unknown" ? answer.reason : `known: ${answer.nodes.join()}`;
};

describe("whom Patroni may promote", () => {
  it("is the list of its key, as many as it is set to keep", () => {
    assert.deepEqual(found(), { kind: "known", nodes: ["west"] });
    const two = { sync: sync("west, north"), config: config({ synchronous_node_count: 2 }) };
    assert.deepEqual(found(two), { kind: "known", nodes: ["west", "north"] });
    assert.deepEqual(found({ config: JSON.stringify({ synchronous_mode: "on" }) }).kind, "known");
    assert.deepEqual(found({ sync: sync("west", "East") }).kind, "known", "letters are not told apart");
  });

  it("is unknown while it keeps fewer or more than it is set to", () => {
    for (const standbys of [null, "", "west,north"])
      assert.match(reason({ sync: sync(standbys) }), /^the manager lists [02] of 1 synchronous standbys/);
    assert.match(
      reason({ config: config({ synchronous_node_count: 2 }) }),
      /^the manager lists 1 of 2 synchronous standbys: west$/,
    );
  });

  it("is unknown where anybody may be promoted", () => {
    for (const mode of [false, "off", undefined])
      assert.equal(reason({ config: config({ synchronous_mode: mode }) }), "synchronous_mode is off");
    assert.match(reason({ config: config({ synchronous_mode: "quorum" }) }), /^synchronous_mode is quorum/);
  });

  it("is unknown where the list is another leader's, missing or unreadable", () => {
    for (const value of [sync("west", "north"), null, "{", "[]", '{"leader":null}', '"west"'])
      assert.match(reason({ sync: value }), /lists 0 of 1/, String(value));
    for (const value of [null, "", "no json", "[]"])
      assert.match(reason({ config: value }), /no readable configuration/);
  });

  it("never includes a member whose tag forbids it", () => {
    const tagged = (tags: Record<string, unknown>): string =>
      reason({ members: new Map([["West", member(tags)]]) });
    for (const tags of [{ nofailover: true }, { failover_priority: 0 }, { failover_priority: "0" }])
      assert.match(tagged(tags), /^west is a synchronous standby, and its tag nofailover bars it/);
    for (const tags of [{}, { nofailover: false, failover_priority: 0 }, { failover_priority: 2 }])
      assert.equal(tagged(tags), "known: west");
    // Patroni removes a member's key after a long absence, and may promote the member once it is
    // back.
    assert.equal(reason({ members: new Map() }), "known: west");
  });
});
