// Goal: reported durability must match the final state; only failures excuse a difference.
import assert from "node:assert/strict";
import { test } from "node:test";
import { check } from "../src/check.ts";
import type { FinalState, HistoryRecord, Operation, Shown, VerdictReport } from "../src/history.ts";
import { append, epoch, failure, history, read, scenario, transfer } from "./support/build.ts";
import { assertGood, assertViolates } from "./support/judge.ts";

const write = [append("x", 1)];
const there = { lists: { x: [1] } };
const removed = { lists: {} };
/** The history continues on another node, without the lost values. */
const moved = { lists: {}, epochs: [epoch("e1", null), epoch("e2", "e1", { node: "b" })] };
const KEPT = ["region", "global"];

test("what is durable and there is good, and so is what is lost and absent", () => {
  assertGood(history({ t: { does: write } }, there));
  assertGood(history({ t: { does: write, final: "lost" } }, removed, [failure(20, [])]));
});

test("durable and absent", () => {
  const { transactions, explanation } = assertViolates(
    history({ t: { does: write, receipt: null } }, removed),
    "fate.durable-absent",
  );
  assert.deepEqual(transactions, ["t"]);
  assert.match(explanation, /durable at disk \(final\).*absent/);
});

test("durable by the answer, by a promise or by an event counts as well, and broken is what it has to become", () => {
  const failures = [failure(20, ["disk"])];
  const answer = { durableAt: "region" };
  assertViolates(
    history({ t: { does: write, answer, final: "lost" } }, removed, failures),
    "fate.durable-absent",
  );
  for (const by of ["promise", "event", "asked"] as const) {
    const reported = [{ by, tracker: by === "promise" ? null : "mid", atMs: 16 }];
    const lost = history({ t: { does: write, reported, final: "lost" } }, removed, failures);
    assertViolates(lost, "fate.durable-absent");
    const broken = history(
      { t: { does: write, reported, final: ["lost", "broken", "lost"] } },
      removed,
      failures,
    );
    assertGood(broken);
    assert.equal(check(broken).counts.promisesBroken, 1);
  }
});

test("a tracker that said durable and says lost contradicts itself", () => {
  const reported = [{ tracker: "near", atMs: 16 }];
  const records = history({ t: { does: write, reported, final: "lost" } }, removed, [failure(20, [])]);
  const { explanation } = assertViolates(records, "fate.verdict-changed", "fate.durable-absent");
  assert.match(explanation, /near said of T1 at region: durable, then lost/);
});

test("durable on the primary's disk promises nothing once another node has taken over", () => {
  const final = ["durable", "lost", "lost"] as const;
  assertGood(history({ t: { does: write, final } }, moved, [failure(20, KEPT)]));
  // On the same node these verdicts are wrong.
  const stayed = { lists: {}, epochs: [epoch("e1", null), epoch("e2", "e1")] };
  assertViolates(history({ t: { does: write, final } }, stayed, [failure(20, KEPT)]), "fate.durable-absent");
  // Without a failure that did not keep the level, they are wrong, too.
  assertViolates(history({ t: { does: write, final } }, moved), "fate.durable-absent");
});

test("without a token, what was reported shows that it was durable on the lost disk alone", () => {
  const near = { by: "promise", tracker: "near" } as const;
  const reported = [
    { ...near, level: "disk", verdict: "durable", atMs: 16 },
    { ...near, level: "disk", verdict: "lost", atMs: 21 },
    { ...near, level: "region", verdict: "lost", atMs: 21 },
  ] as const;
  const answer = { outcome: "lost", position: null, shown: null } as const;
  const specs = { t: { does: write, answer, final: null, reported } };
  assertGood(history(specs, moved, [failure(20, KEPT)]));
  // Without a failure that did not keep the level, the reports contradict each other, too.
  assertViolates(history(specs, moved), "fate.durable-absent", "fate.verdict-changed");
});

test("which levels survive crashes alone is the scenario's to say", () => {
  const specs = { t: { does: write, final: ["durable", "lost", "lost"] } } as const;
  const none = [scenario({ crashOnly: [] }), failure(20, KEPT)];
  assertViolates(history(specs, moved, none), "fate.durable-absent");
  assertGood(history(specs, moved, [scenario({ crashOnly: ["disk"] }), failure(20, KEPT)]));
});

test("broken although every failure has kept the level", () => {
  const reported = [{ by: "promise", tracker: null, atMs: 16 }] as const;
  const final = ["lost", "broken", "lost"] as const;
  const spec = { t: { does: write, reported, final } };
  assertViolates(history(spec, moved, [failure(20, KEPT)]), "fate.promise-broken");
  assertViolates(history(spec, moved), "fate.promise-broken");
  // A failure after the report excuses nothing.
  assertViolates(history(spec, moved, [failure(2_000_000, [])]), "fate.promise-broken");
  assertGood(history(spec, moved, [failure(20, ["disk", "global"])]));
});

test("a failure that the transaction's epoch came out of explains nothing", () => {
  const epochs = [epoch("e1", null), epoch("e2", "e1", { node: "b" }), epoch("e3", "e2", { node: "c" })];
  const broken = {
    ...{ does: write, epoch: "e2", at: [30, 35] as const, final: ["lost", "broken", "lost"] as const },
    reported: [{ by: "promise", tracker: null, atMs: 36 }] as const,
  };
  const specs = { before: { does: [read("y")], shows: [[]] }, t: broken };
  const early = failure(20, [], { node: "b" });
  assertViolates(history(specs, { epochs }, [early]), "fate.promise-broken");
  assertGood(history(specs, { epochs }, [early, failure(50, [], { node: "c" })]));
});

test("broken everywhere, in a history that an operator went back to, is counted, not judged", () => {
  const epochs = [epoch("e1", null), epoch("e2", "e1", { node: "b" })];
  const commit = { does: write, epoch: "e2", at: [30, 35] as const };
  const of = (final: "broken" | readonly ["lost", "broken", "lost"]): Parameters<typeof history>[0] => ({
    before: { does: [read("y")], shows: [[]] },
    t: { ...commit, final, ...(final === "broken" && { receipt: "commit" as const }) },
  });
  const back = failure(20, [], { node: "b" });
  const current = { ...there, epochs };
  const records = history(of("broken"), current, [back]);
  assertGood(records);
  assert.deepEqual(check(records).ambiguous, { lost_to_a_tracker_that_was_cut_off: 3 });
  // Not if the change had kept something, came later, or the word is not that it came back.
  for (const other of [failure(20, ["global"], { node: "b" }), failure(2_000_000, [], { node: "b" })])
    assertViolates(history(of("broken"), current, [other]), "fate.promise-broken");
  assertViolates(
    history(of(["lost", "broken", "lost"]), { lists: {}, epochs }, [back]),
    "fate.promise-broken",
  );
});

test("broken without any word that was broken is counted, not judged", () => {
  const records = history({ t: { does: write, final: ["lost", "broken", "lost"] } }, moved, [
    failure(20, []),
  ]);
  assertGood(records);
  assert.deepEqual(check(records).ambiguous, { broken_without_report: 1 });
});

test("lost and present, unless it came back and is called broken", () => {
  assertViolates(
    history({ t: { does: write, final: "lost", receipt: "commit" } }, there, [failure(20, [])]),
    "fate.lost-present",
  );
  const reported = [{ verdict: "lost", level: "global", atMs: 30, tracker: "near" }] as const;
  const back = { t: { does: write, reported, final: "broken", receipt: "commit" } } as const;
  assertGood(history(back, there, [failure(20, ["disk"])]));
  assertViolates(history(back, there, [failure(20, ["disk", "region", "global"])]), "fate.promise-broken");
});

test("an answer that says lost is one", () => {
  const answer = { outcome: "lost", position: null } as const;
  const spec = { does: write, answer, shows: null, final: null } as const;
  assertGood(history({ t: { ...spec, receipt: null } }, removed));
  assertViolates(history({ t: { ...spec, receipt: "commit" } }, there), "fate.lost-present");
});

test("an id that is sent again may run where the history that lost it was given up", () => {
  const answer = { outcome: "lost", position: null, atMs: 20 } as const;
  const spec = { does: write, answer, shows: null, epoch: "e3", at: [10, 20], receipt: "commit" } as const;
  const later = { at: [60, 70], epoch: "e3", does: [append("x", 2)] } as const;
  const epochs = [epoch("e1", null), epoch("e2", "e1", { inHistory: false }), epoch("e3", "e1")];
  const reported = [{ attempt: "e3", atMs: 65 }] as const;
  const run = (failures: readonly HistoryRecord[]): HistoryRecord[] =>
    history({ t: { ...spec, reported }, later }, { lists: { x: [1, 2] }, epochs }, failures);
  assertGood(run([failure(50, [])]));
  assertViolates(run([failure(5, [])]), "fate.lost-present");
});

test("lost in one epoch, and there by a retry of the same id in another one", () => {
  const epochs = [epoch("e1", null), epoch("e2", "e1")];
  const reported = [
    { verdict: "lost", level: "region", tracker: "near", by: "final", attempt: "e1" },
  ] as const;
  const retried = { does: write, epoch: "e2", reported, final: "durable" } as const;
  assertGood(history({ t: retried }, { ...there, epochs }));
  // The same report about the attempt that is there is wrong.
  const wrong = { ...retried, reported: [{ ...reported[0], attempt: "e2" }] } as const;
  assertViolates(
    history({ t: wrong }, { ...there, epochs }),
    "fate.lost-present",
    "fate.trackers-disagree",
    "fate.verdict-changed",
  );
});

test("aborted, or never run, and present or durable", () => {
  const aborted = { does: write, answer: { outcome: "aborted" }, shows: null, final: null } as const;
  assertGood(history({ t: { ...aborted, receipt: "aborted" } }, removed));
  assertViolates(history({ t: { ...aborted, receipt: "commit" } }, there), "fate.aborted-present");
  assertViolates(
    history({ t: { ...aborted, receipt: null } }, there),
    "fate.aborted-present",
    "atomicity.receipt",
  );
  const reported = [{ verdict: "durable", atMs: 30 }] as const;
  assertViolates(history({ t: { ...aborted, reported, receipt: null } }, removed), "fate.aborted-durable");
  const unknown = { answer: { outcome: "unknown", position: null }, shows: null, does: write } as const;
  const never = { ...unknown, resolution: { outcome: "never", position: null }, final: null } as const;
  assertGood(history({ t: { ...never, receipt: null } }, removed));
  assertViolates(history({ t: { ...never, receipt: "commit" } }, there), "fate.aborted-present");
});

test("a transaction that only the stream of events knew is broken by the range in that stream", () => {
  const undone = (from: string, to: string, overrides: object = {}): HistoryRecord => ({
    ...{ type: "broken_range", atMs: 60, tracker: "near", level: "region", epoch: "e1", from, to },
    ...overrides,
  });
  const final: Partial<FinalState> = { ...removed, epochs: [epoch("e1", null), epoch("e2", "e1")] };
  const position = { epoch: "e1", offset: "50" };
  const report = { verdict: "durable", atMs: 30, position } as const;
  // It got no answer, and its id was settled in the next history.
  const unknown = { outcome: "unknown", position: null } as const;
  const never = { outcome: "never", position: null } as const;
  const settled = {
    does: write,
    shows: null,
    final: null,
    receipt: null,
    answer: unknown,
    resolution: never,
  };
  const reported = (...reports: readonly Partial<VerdictReport>[]) => ({
    t: { ...settled, reported: reports },
  });
  const judge = (reports: readonly Partial<VerdictReport>[], ...ranges: HistoryRecord[]): HistoryRecord[] =>
    history(reported(...reports), final, [failure(50, []), ...ranges]);
  assertGood(judge([report], undone("10", "50")));
  assertGood(judge([report], undone("10", "20"), undone("10", "90", { epoch: "e2" })));
  for (const range of [
    undone("50", "90"),
    undone("10", "49"),
    undone("10", "90", { level: "disk" }),
    undone("10", "90", { epoch: "e3" }),
  ])
    assertViolates(judge([report], range), "fate.aborted-durable");
  assertViolates(judge([{ ...report, position: null }], undone("10", "90")), "fate.aborted-durable");
  assertViolates(judge([{ ...report, by: "asked" }], undone("10", "90")), "fate.aborted-durable");
  assertViolates(judge([report, { ...report, by: "promise" }], undone("10", "90")), "fate.aborted-durable");

  // Its answer had a later position than the trackers' one.
  const lost = {
    t: { does: write, final: "lost", receipt: null, reported: [{ ...report, tracker: "near" }] },
  } as const;
  const later = history(lost, final, [failure(50, []), undone("10", "50")]);
  assertGood(later);
  assert.deepEqual(Object.keys(check(later).ambiguous), ["broken_as_a_range"]);
  assertViolates(
    history(lost, final, [failure(50, [])]),
    ...(["fate.durable-absent", "fate.verdict-changed"] as const),
  );
});

test("a word of no attempt about an answer that was given again is of the attempt that is certain", () => {
  const failures = [failure(50, [])];
  const spec = {
    does: write,
    epoch: "e2",
    answer: { replayed: true },
    final: null,
    receipt: null,
    reported: [
      { attempt: null, verdict: "durable", by: "promise", tracker: null, atMs: 30 },
      { attempt: "e1", verdict: "durable", atMs: 20 },
      { attempt: "e1", verdict: "broken", atMs: 60 },
      // The id was sent again in the epoch that answered.
      { attempt: "e2", verdict: "lost", atMs: 60 },
    ],
  } as const;
  const final = { ...removed, epochs: [epoch("e1", null), epoch("e2", "e1"), epoch("e3", "e2")] };
  const rules = (records: HistoryRecord[]): string[] => check(records).violations.map(({ rule }) => rule);
  assert.equal(rules(history({ t: spec }, final, failures)).includes("fate.durable-absent"), false);
  const first = history({ t: { ...spec, answer: {} } }, final, failures);
  assert.ok(rules(first).includes("fate.durable-absent"));
});

test("unknown outcomes have to be resolved", () => {
  const unknown = {
    does: write,
    answer: { outcome: "unknown", position: null },
    shows: null,
    final: null,
  } as const;
  const open = history({ t: { ...unknown, receipt: null } }, removed);
  assertViolates(open, "fate.unresolved");
  assert.equal(check(open).counts.pending, 1);
  const unresolved = { ...unknown, resolution: { outcome: "unresolved" }, receipt: null } as const;
  assertViolates(history({ t: unresolved }, removed), "fate.unresolved");
  const committed = history({ t: { ...unknown, resolution: {}, final: "durable" } }, there);
  assertGood(committed);
  assert.equal(check(committed).counts.unknownResolved, 1);
  assertViolates(history({ t: { ...unknown, resolution: {}, receipt: "commit" } }, there), "fate.no-verdict");
});

test("a client that was killed leaves a transaction with two correct verdicts", () => {
  const killed = { does: write, answer: null, final: null } as const;
  assertGood(history({ t: { ...killed, receipt: null } }, removed));
  assertGood(history({ t: { ...killed, receipt: "commit" } }, there));
  assert.equal(check(history({ t: killed }, removed)).counts.unanswered, 1);
});

test("at the end nothing is pending or unjudged, and every tracker has given a verdict at every level", () => {
  const pending = history(
    { t: { does: write, final: ["durable", "durable", "pending"], receipt: "commit" } },
    there,
  );
  assertViolates(pending, "fate.pending");
  assert.equal(check(pending).counts.pending, 1);
  for (const final of ["expired", "unknown", "refused"] as const) {
    assertViolates(history({ t: { does: write, final, receipt: "commit" } }, there), "fate.unjudged");
  }
  const good = history({ t: { does: write } }, there);
  const without = good.filter((it) => it.type !== "report" || it.tracker !== "far" || it.level !== "region");
  const { explanation } = assertViolates(without, "fate.no-verdict");
  assert.match(explanation, /no final verdict of far at region/);
  assertViolates(
    good.filter(({ type }) => type !== "report"),
    "fate.no-verdict",
  );
});

/** The records, with another last report of one tracker at the region level. */
function apart(
  records: readonly HistoryRecord[],
  tracker: string,
  verdict: "durable" | "lost" | "broken",
): HistoryRecord[] {
  return records.map((it) =>
    it.type === "report" && it.by === "final" && it.tracker === tracker && it.level === "region"
      ? { ...it, verdict }
      : it,
  );
}

test("all trackers agree on which transactions exist", () => {
  const present = history({ t: { does: write } }, there, [failure(20, [])]);
  const { explanation } = assertViolates(
    apart(present, "far", "lost"),
    ...(["fate.trackers-disagree", "fate.lost-present"] as const),
  );
  assert.match(explanation, /durable \(near\) and lost \(far\)/);
  // Only trackers that knew of the promise know that it was broken.
  const broken = history({ t: { does: write, final: ["lost", "broken", "lost"] } }, removed, [
    failure(20, []),
  ]);
  assertGood(broken);
  const some = apart(broken, "far", "lost");
  assertGood(some);
  assert.equal(check(some).ambiguous.promise_known_to_some, 1);
  // A read leaves nothing that could prove it.
  const reading = { does: [read("x")], shows: [[]], readOnly: true } as const;
  const lost = apart(history({ t: reading }, removed, [failure(20, [])]), "far", "lost");
  assertGood(lost);
  assert.equal(check(lost).ambiguous.read_judged_apart, 1);
});

test("a verdict `durable` that any client received binds all trackers", () => {
  const reported = [{ by: "promise", tracker: null, atMs: 16 }] as const;
  const lostHere = (
    final: "durable" | "broken",
    does: readonly Operation[],
    shows: readonly Shown[],
  ): HistoryRecord[] =>
    apart(
      history({ t: { does, shows, reported, final: ["lost", final, "lost"] } }, removed, [failure(20, [])]),
      "far",
      "lost",
    );
  const { explanation } = assertViolates(lostHere("broken", write, [null]), "fate.trackers-disagree");
  assert.match(
    explanation,
    /at region T1 is lost \(far\) and broken \(near\), and was reported as durable before \(promise\)/,
  );
  assertViolates(lostHere("durable", [read("x")], [[]]), "fate.trackers-disagree");
});

test("a read that was reported durable is not lost without a report that the promise is broken", () => {
  const reported = [{ by: "promise", tracker: null, atMs: 16 }] as const;
  const reading = { does: [read("x")], shows: [[]], reported } as const;
  assertViolates(
    history({ t: { ...reading, final: "lost" } }, moved, [failure(20, [])]),
    "fate.durable-absent",
  );
  assertGood(history({ t: { ...reading, final: ["lost", "broken", "lost"] } }, moved, [failure(20, [])]));
});

test("all trackers serve losses from one log", () => {
  const reported = [
    { by: "event", tracker: "near", verdict: "durable", atMs: 16 },
    { by: "event", tracker: "near", verdict: "lost", atMs: 21 },
    { by: "event", tracker: "near", verdict: "broken", atMs: 22 },
  ] as const;
  const final = ["lost", "broken", "lost"] as const;
  assertGood(history({ t: { does: write, reported, final } }, removed, [failure(20, [])]));
  const flipped = reported.map((report) =>
    report.verdict === "lost" ? { ...report, by: "asked" as const } : report,
  );
  assertViolates(
    history({ t: { does: write, reported: flipped, final } }, removed, [failure(20, [])]),
    "fate.verdict-changed",
  );
});

test("two trackers may give a client two verdicts, if at the end all say that it is broken", () => {
  const reported = [{ by: "promise", tracker: null, verdict: "lost", atMs: 30 }] as const;
  const t = { does: write, reported, answer: { durableAt: "region" } } as const;
  const broken = history({ t: { ...t, final: ["lost", "broken", "lost"] } }, removed, [failure(20, [])]);
  assertGood(broken);
  assert.equal(check(broken).ambiguous.two_trackers_differ, 1);
  const lost = history({ t: { ...t, final: "lost" } }, removed, [failure(20, [])]);
  assertViolates(lost, "fate.verdict-changed", "fate.durable-absent");
});

test("a broken promise stays broken, and missing reports in between prove nothing", () => {
  const reported = [
    { tracker: "near", verdict: "durable", atMs: 16 },
    { tracker: "near", verdict: "pending", atMs: 21 },
    { tracker: "near", verdict: "broken", atMs: 30 },
  ] as const;
  assertGood(
    history({ t: { does: write, reported, final: ["lost", "broken", "lost"] } }, removed, [failure(20, [])]),
  );
  const flipped = history({ t: { does: write, reported, receipt: "commit" } }, there, [failure(20, [])]);
  assertViolates(flipped, "fate.verdict-changed");
});

test("a transaction is there as a whole, with its receipt, or not at all", () => {
  const does = [append("x", 1), append("y", 2), transfer(0, 1, 5)];
  const moved5 = [{ txn: "t", from: 0, to: 1, amount: 5 }];
  assertGood(history({ t: { does } }, { lists: { x: [1], y: [2] }, transfers: moved5, balances: [95, 105] }));
  assertViolates(
    history({ t: { does } }, { lists: { x: [1] }, transfers: moved5, balances: [95, 105] }),
    "atomicity.torn",
  );
  assertViolates(history({ t: { does } }, { lists: { x: [1], y: [2] } }), "atomicity.torn");
  assertViolates(history({ t: { does: write, receipt: "commit" } }, removed), "atomicity.receipt");
  assertViolates(
    history({ t: { does: write, answer: null, final: null, receipt: null } }, there),
    "atomicity.receipt",
  );
  assertViolates(
    history({ t: { does: write, answer: null, final: null, receipt: "lost" } }, there),
    "atomicity.receipt",
  );
});
