import assert from "node:assert/strict";
import { test } from "node:test";
import { type NodeReport } from "@highwater/authority";
import { nodeReport } from "@highwater/authority/testing";
import { type EpochRecord } from "@highwater/protocol";
import { type Remembered } from "@highwater/durability-tracker/failover";
import { planAuthorization, type Wishes } from "./plan.ts";

const idOf = (seq: number): string => `00000000-0000-4000-8000-${String(seq).padStart(12, "0")}`;

function epoch(seq: number, node: string, over: Partial<EpochRecord> = {}): EpochRecord {
  return {
    ...{
      id: idOf(seq),
      seq,
      previous: seq === 1 ? null : idOf(seq - 1),
      node,
      cause: "promotion",
      timeline: seq,
    },
    ...{ startedAt: "2026-11-28T00:00:00Z", startOffset: "0", forkOffset: "0", forkLimit: null },
    ...{ supersedes: [], commanded: false, finalMarks: {} },
    ...over,
  };
}

const FIRST = epoch(1, "east");
const WEST = epoch(2, "west");
/** East went on as well. */
const RIVAL = epoch(3, "east", { previous: idOf(1) });

const writable = (node: string, epochs: readonly EpochRecord[]): NodeReport =>
  nodeReport(node, epochs, { role: "primary", current: null });
const replica = (node: string): NodeReport => nodeReport(node, [FIRST], { role: "replica", current: null });
const remembers = (...epochs: EpochRecord[]): Remembered => ({ kind: "remembers", tracker: "t:1", epochs });

function plan(reports: readonly NodeReport[], over: Partial<Wishes> = {}, memories = [remembers(FIRST)]) {
  const wishes = { node: "west", reason: null, overrules: new Set<string>(), isFenced: true, ...over };
  return planAuthorization(wishes, {
    memories,
    reports: new Map(reports.map((report) => [report.node, report])),
    failures: new Map([["east", "connect ECONNREFUSED"]]),
  });
}

test("a promoted node is authorized, and the same again is the same command", () => {
  const found = plan([writable("west", [FIRST]), replica("north")]);
  assert.deepEqual([found.obstacles, found.warnings, found.givenUp], [[], [], []]);
  const { id, ...said } = found.command ?? {};
  assert.deepEqual(said, { node: "west", ends: FIRST.id, overrules: [], reason: "failover from east" });
  assert.match(id ?? "", /^[0-9a-f]{8}-[0-9a-f]{4}-8/);
  assert.equal(plan([writable("west", [FIRST])]).command?.id, id);
  assert.equal(plan([writable("west", [FIRST])], { reason: "a flood" }).command?.reason, "a flood");
  // Once its epoch has begun, a command confirms that.
  const confirmed = plan([writable("west", [FIRST, WEST])]);
  assert.deepEqual([confirmed.obstacles, confirmed.command?.ends], [[], WEST.id]);
  assert.notEqual(confirmed.command?.id, id);
});

test("what was committed elsewhere is given up only by name", () => {
  const rival = [remembers(FIRST, RIVAL)];
  const refused = plan([writable("west", [FIRST, WEST])], {}, rival);
  assert.equal(refused.command, null);
  assert.match(
    refused.obstacles.join("\n"),
    new RegExp(`gives them up .*${RIVAL.id} \\(number 3, on east\\).*--overrule ${RIVAL.id}`),
  );
  assert.deepEqual(refused.givenUp, [RIVAL]);
  const named = plan([writable("west", [FIRST, WEST])], { overrules: new Set([RIVAL.id]) }, rival);
  assert.deepEqual([named.obstacles, named.command?.overrules], [[], [RIVAL.id]]);
  // What the history has ended already is named by the command, and by no one else.
  const settled = plan([writable("west", [FIRST, { ...WEST, supersedes: [RIVAL.id] }])], {}, rival);
  assert.deepEqual([settled.obstacles, settled.command?.overrules], [[], [RIVAL.id]]);
});

test("a node that is no primary, and another one that may be", () => {
  const refusal = (...args: Parameters<typeof plan>): string => {
    const { command, obstacles } = plan(...args);
    assert.equal(command, null);
    return obstacles.join("\n");
  };
  assert.match(refusal([replica("west")]), /^west is a replica.*pg_promote.*highwater switchover west$/);
  assert.match(refusal([]), /^west does not answer: it was not asked/);
  assert.match(refusal([writable("west", [])]), /has no epoch of Highwater.*highwater adopt/);
  const west = writable("west", [FIRST]);
  assert.match(refusal([west, writable("east", [FIRST])]), /^east is writable as well: turn it off first/);
  assert.match(
    refusal([west, replica("north")], { isFenced: false }),
    /^east was the primary.*add --fenced$/,
  );
  assert.match(
    refusal([writable("east", [FIRST])], { node: "east", isFenced: false }, [remembers(FIRST, WEST)]),
    /^west was the primary.*--fenced\neast lacks these epochs/,
  );
  // A former primary that answers as a replica needs no confirmation.
  assert.deepEqual(plan([west, replica("east")], { isFenced: false }).obstacles, []);
});

test("what could not be asked, and what is unfit, is a warning", () => {
  const west = nodeReport("west", [FIRST], { role: "primary", current: null, unfit: "fsync is off" });
  const silent: Remembered = { kind: "silent", tracker: "t:2", reason: "timeout" };
  const { command, warnings } = plan([west], {}, [silent]);
  assert.ok(command !== null);
  assert.deepEqual(warnings, ["tracker t:2 does not answer: timeout", "west: fsync is off"]);
  assert.match(plan([west], {}, []).warnings[0] ?? "", /^no tracker was asked/);
});
