import assert from "node:assert/strict";
import { test } from "node:test";
import { type Offset } from "@highwater/protocol";
import { nextStep, type NodeState, type Scene, type Step } from "./next-step.ts";

type Over = Partial<NodeState>;
const at = (offset: number): Offset => BigInt(offset) as Offset;

function node(name: string, over: Over): NodeState {
  const base = { node: name, counts: true, hasEpoch: false, why: null, applied: at(100), timeline: 1 };
  const replica = { role: "replica", waitsForLog: true, isPromoting: false, followsTarget: false } as const;
  return { ...base, ...replica, signal: { kind: "absent" }, ...over };
}

const PRIMARY = { role: "primary", hasEpoch: true, waitsForLog: false } as const;
const SILENT = { role: null, counts: false, why: "does not answer: refused", applied: at(0) } as const;
const TO_WEST = { kind: "hands_over", to: "west" } as const;

/** East is the primary; west and north follow it. */
function scene(over: { readonly [node: string]: Over } = {}, more: Partial<Scene> = {}): Scene {
  const states = [
    node("east", { ...PRIMARY, ...over["east"] }),
    node("west", { ...over["west"] }),
    node("north", { ...over["north"] }),
  ];
  return {
    target: "west",
    owner: "east",
    nodes: new Map(states.map((state) => [state.node, state])),
    leftOut: new Set(),
    pointed: new Set(),
    authority: "settled",
    leftSlots: [],
    ...more,
  };
}

const STANDBY = { role: "replica", hasEpoch: false, waitsForLog: true, signal: TO_WEST } as const;
const FOLLOWS = { followsTarget: true } as const;

function reasonsOf(step: Step): string {
  if (step.kind === "refuse") return step.reasons.join("\n");
  assert.equal(step.kind, "wait");
  return step.kind === "wait" ? step.reason : "";
}

test("the steps, in their order", () => {
  const kinds = [
    scene(),
    scene({ east: { signal: TO_WEST } }),
    scene({ east: SILENT }),
    scene({ east: STANDBY }),
    scene({ east: STANDBY, west: PRIMARY }, { authority: "needs_command" }),
    scene({ east: STANDBY, west: PRIMARY }, { authority: "waits_for_services" }),
    scene(
      { east: { ...STANDBY, ...FOLLOWS }, north: FOLLOWS, west: PRIMARY },
      { authority: "waits_for_services" },
    ),
    scene(
      { east: { ...STANDBY, ...FOLLOWS }, north: FOLLOWS, west: PRIMARY },
      { owner: "west", leftSlots: [{ node: "east", slot: "north" }] },
    ),
    scene({ east: { ...STANDBY, ...FOLLOWS }, north: FOLLOWS, west: PRIMARY }, { owner: "west" }),
  ].map((each) => nextStep(each).kind);
  assert.deepEqual(kinds, [
    ...["hand_over", "restart", "wait", "promote", "authorize", "follow", "wait", "tidy", "done"],
  ]);
});

test("no node is promoted before the old primary answers as a standby whose log it has", () => {
  const promotes = (over: Parameters<typeof scene>[0]): Step => nextStep(scene(over));
  const found = promotes({ east: STANDBY });
  assert.deepEqual(found, { kind: "promote", node: "west", arbiter: "east", end: at(100), reached: at(100) });
  assert.match(reasonsOf(promotes({ east: SILENT })), /has to come back as a standby/);
  assert.match(
    reasonsOf(promotes({ east: { ...STANDBY, applied: at(101) } })),
    /west lacks 1 bytes that east has/,
  );
  assert.match(reasonsOf(promotes({ east: { ...STANDBY, waitsForLog: false } })), /still replaying/);
  assert.match(reasonsOf(promotes({ east: { ...STANDBY, isPromoting: true } })), /is being promoted/);
  assert.match(reasonsOf(promotes({ east: { ...STANDBY, timeline: 2 } })), /not on the timeline of east/);
  assert.match(
    reasonsOf(promotes({ east: { ...STANDBY, timeline: null }, west: { timeline: null } })),
    /timeline/,
  );
  assert.match(reasonsOf(promotes({ east: STANDBY, west: SILENT })), /west does not answer/);
  assert.match(reasonsOf(promotes({ east: STANDBY, west: { isPromoting: true } })), /is being promoted/);
  const unfit = promotes({ east: STANDBY, west: { counts: false, why: "fsync is off" } });
  assert.deepEqual(unfit, { kind: "refuse", reasons: ["west fsync is off"] });
  const strange = promotes({ east: { ...STANDBY, counts: false, why: "has another history" } });
  assert.match(reasonsOf(strange), /east has another history/);
});

test("an old primary that this command did not hand over is a failure, or another person's work", () => {
  const standby = nextStep(scene({ east: { ...STANDBY, signal: { kind: "foreign" } } }));
  assert.match(reasonsOf(standby), /was not handed over by this command/);
  const running = nextStep(scene({ east: { signal: { kind: "foreign" } } }));
  assert.match(reasonsOf(running), /standby\.signal that this command did not write/);
  assert.match(
    reasonsOf(nextStep(scene({ east: STANDBY }, { owner: "south" }))),
    /south, where the current epoch began, is not in the topology/,
  );
});

test("a choice that was made is finished or called off, and never replaced", () => {
  for (const east of [{ signal: TO_WEST }, STANDBY]) {
    const step = nextStep(scene({ east }, { target: "north" }));
    assert.match(reasonsOf(step), /handing over to west\. Finish that: .* west; or call it off: .* east/);
  }
});

test("before the restart it is called off by removing the file; after it, by promoting the old primary", () => {
  const back = (over: Parameters<typeof scene>[0]): Step => nextStep(scene(over, { target: "east" }));
  assert.deepEqual(back({ east: { signal: TO_WEST } }), { kind: "call_off", node: "east" });
  assert.deepEqual(back({ east: STANDBY }), {
    ...{ kind: "promote", node: "east", arbiter: "east", end: at(100), reached: at(100) },
  });
  // The other may be writable already, or be about to.
  assert.match(reasonsOf(back({ east: STANDBY, west: SILENT })), /may be writable by now/);
  for (const west of [{ isPromoting: true }, { waitsForLog: false }, { timeline: 2 }])
    assert.match(reasonsOf(back({ east: STANDBY, west })), /in the middle of its promotion/);
  assert.match(reasonsOf(back({ east: STANDBY, west: PRIMARY })), /current epoch began on east/);
});

test("before it begins, every node answers and counts, and the target is nearly there", () => {
  assert.match(reasonsOf(nextStep(scene({ west: SILENT }))), /^west does not answer: refused$/);
  assert.match(reasonsOf(nextStep(scene({ north: SILENT }))), /north .*add --without north/);
  assert.equal(nextStep(scene({ north: SILENT }, { leftOut: new Set(["north"]) })).kind, "hand_over");
  assert.match(reasonsOf(nextStep(scene({ west: { counts: false, why: "lacks it" } }))), /west lacks it/);
  assert.match(
    reasonsOf(nextStep(scene({ east: { applied: at(20_000_000) } }))),
    /west is 19999900 bytes behind east/,
  );
  assert.match(
    reasonsOf(nextStep(scene({ east: { hasEpoch: false, why: "has begun none" } }))),
    /has begun none/,
  );
  assert.match(reasonsOf(nextStep(scene({ west: PRIMARY }))), /east and west are all writable/);
  assert.match(reasonsOf(nextStep(scene({ east: SILENT, north: PRIMARY }))), /north is writable, and/);
});

test("what does not follow is pointed once, and a node that is silent or left out later", () => {
  const after = { east: STANDBY, west: PRIMARY, north: FOLLOWS };
  const pointed = { owner: "west", pointed: new Set(["east"]) };
  assert.deepEqual(nextStep(scene(after, { owner: "west" })), { kind: "follow", nodes: ["east"] });
  assert.match(reasonsOf(nextStep(scene(after, pointed))), /east does not stream from west yet/);
  const silent = { ...after, east: SILENT };
  assert.match(reasonsOf(nextStep(scene(silent, { owner: "west" }))), /east does not answer/);
  const leftOut = { owner: "west", leftOut: new Set(["east"]) };
  assert.equal(nextStep(scene(silent, leftOut)).kind, "done");
});
