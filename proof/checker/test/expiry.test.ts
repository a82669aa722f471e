// Goal: only transactions beyond the retention of receipts may be expired or lack their receipt.
import { test } from "node:test";
import type { BrokenRange, FinalState, HistoryRecord, VerdictReport, WrongClock } from "../src/index.ts";
import {
  append,
  epoch,
  failure,
  history,
  insert,
  read,
  scenario,
  transfer,
  type Spec,
} from "./support/build.ts";
import { assertGood, assertViolates } from "./support/judge.ts";

const RETENTION_MS = 40_000;
const [OLD, YOUNG] = ["019a0000-0000-7000-8000-000000000001", "019a0000-9c40-7000-8000-000000000002"];
/** The young id's time is one retention after the old id's. */
const YOUNG_MS = Number.parseInt("019a00009c40", 16);
const AT: readonly [number, number] = [10, 15];
const LATER = AT[0] + RETENTION_MS;
const write = [append("x", 1)];
const dropped = { expiredBeforeMs: YOUNG_MS, readAtMs: YOUNG_MS + RETENTION_MS };

function run(
  specs: Readonly<Record<string, Spec>>,
  final: Partial<FinalState>,
  more: readonly HistoryRecord[] = [],
): HistoryRecord[] {
  return history(specs, final, [scenario({ retentionMs: RETENTION_MS }), ...more]);
}

test("a verdict may be expired when receipts of its age are, and not before", () => {
  const final = { lists: { x: [1] } };
  const old = { at: AT, does: write, final: "expired", receipt: "commit" } as const;
  assertGood(run({ [OLD]: old }, final));
  assertViolates(history({ [OLD]: old }, final), "fate.unjudged");
  assertViolates(run({ [OLD]: { ...old, at: [999_000, 999_010] } }, final), "fate.unjudged");
});

test("a verdict on the way, an answer and a resolution may be expired by the same rule", () => {
  const final = { lists: { x: [1] } };
  for (const [atMs, isGood] of [
    [LATER, true],
    [LATER - 5_000, false],
  ] as const) {
    const judge = (specs: Readonly<Record<string, Spec>>, state: Partial<FinalState> = final): void => {
      if (isGood) assertGood(run(specs, state));
      else assertViolates(run(specs, state), "expiry.early");
    };
    judge({ [OLD]: { at: AT, does: write, reported: [{ verdict: "expired", by: "asked", atMs }] } });
    const removed = { at: AT, does: write, final: null, receipt: null, shows: null } as const;
    const unknown = { outcome: "unknown", error: "connection_failed", position: null } as const;
    judge(
      { [OLD]: { ...removed, answer: unknown, resolution: { outcome: "expired", atMs, position: null } } },
      {},
    );
    const refused = { ...unknown, error: "id_expired", atMs };
    judge({ [OLD]: { ...removed, answer: refused, resolution: { outcome: "expired", atMs: LATER } } }, {});
  }
});

test("effects may be without their receipt when it has expired, as a whole and by the final state's own word", () => {
  for (const [does, state] of [
    [write, { lists: { x: [1] } }],
    [[insert(1)], { inserted: [1] }],
    [[transfer(0, 1, 5)], { transfers: [{ txn: OLD, from: 0, to: 1, amount: 5 }], balances: [95, 105] }],
  ] as const) {
    const spec = { at: AT, does, receipt: null };
    assertGood(run({ [OLD]: spec }, { ...state, expiry: dropped }));
    const kept = { ...state, expiry: { ...dropped, expiredBeforeMs: 1 } };
    assertViolates(run({ [OLD]: spec }, kept), "atomicity.receipt", "fate.durable-absent");
  }
  const young = { at: [LATER, LATER + 5], does: write, receipt: null } as const;
  const kept = run({ [YOUNG]: young }, { lists: { x: [1] }, expiry: dropped });
  assertViolates(kept, "atomicity.receipt", "fate.durable-absent");
  const torn = { at: AT, does: [append("x", 1), insert(2)], receipt: null };
  assertViolates(run({ [OLD]: torn }, { lists: { x: [1] }, expiry: dropped }), "atomicity.torn");
});

test("an expired receipt hides neither a lie about what is there nor about what is absent", () => {
  const reported = { at: AT, does: write, receipt: null } as const;
  assertViolates(run({ [OLD]: reported }, { expiry: dropped }), "fate.durable-absent");
  const there = { lists: { x: [1] }, expiry: dropped };
  assertViolates(
    run({ [OLD]: { ...reported, final: "lost" } }, there, [failure(20, [])]),
    "fate.lost-present",
  );
  const aborted = {
    ...reported,
    answer: { outcome: "aborted", error: "x" },
    final: null,
    shows: null,
  } as const;
  assertViolates(run({ [OLD]: aborted }, there), "fate.aborted-present");
});

test("what has written nothing, and has no receipt any more, may be there or not", () => {
  const reads = {
    at: AT,
    does: [read("x")],
    shows: [[]],
    invocation: { readOnly: false },
    receipt: null,
  } as const;
  assertGood(run({ [OLD]: reads }, { expiry: dropped }));
  assertViolates(run({ [OLD]: reads }, {}), "fate.durable-absent");
  const lost = { ...reads, final: "lost" } as const;
  assertViolates(
    run({ [OLD]: { ...lost, answer: { durableAt: "region" } } }, { expiry: dropped }),
    "fate.durable-absent",
  );
});

test("a client with the verdicts durable and lost needs the log's event that it is broken, if it has expired at the end", () => {
  const reports = [
    { verdict: "durable", by: "promise", tracker: null },
    { verdict: "lost", by: "promise", tracker: null },
  ] as const;
  const old = { at: AT, does: write, final: "expired", receipt: null } as const;
  const moved = failure(20, []);
  const judged = (...more: readonly Partial<VerdictReport>[]): HistoryRecord[] =>
    run(
      {
        [OLD]: { ...old, reported: [...reports, ...more].map((report, n) => ({ atMs: 30 + n, ...report })) },
      },
      {},
      [moved],
    );
  assertGood(judged({ verdict: "broken", tracker: "near" }));
  // One tracker still knows that it is broken.
  assertGood(
    judged({ verdict: "broken", tracker: "near" }, { verdict: "broken", tracker: "far", by: "final" }),
  );
  assertViolates(judged(), "fate.verdict-changed", "fate.durable-absent");
});

test("a new id is refused only while a database's clock is wrong, or about a restore", () => {
  const refused = (error: string): Spec => ({
    ...{ at: [20_000, 20_100], does: write, shows: null, final: null, receipt: null },
    answer: { outcome: "aborted", error, position: null },
  });
  const clock = (over: Partial<WrongClock> = {}): WrongClock => ({
    ...{ type: "clock", atMs: 15_000, untilMs: 18_000, of: "database", name: "a", offMs: 86_400_000 },
    ...over,
  });
  for (const [error, rule] of [
    ["id_expired", "expiry.early"],
    ["id_out_of_window", "id.refused"],
  ] as const) {
    const judged = (...more: readonly HistoryRecord[]): HistoryRecord[] =>
      run({ [OLD]: refused(error) }, {}, more);
    assertGood(judged(clock()));
    assertGood(judged(failure(19_000, [])));
    assertViolates(judged(), rule);
    assertViolates(judged(clock({ of: "service" })), rule);
    assertViolates(judged(clock({ untilMs: 9_000, atMs: 8_000 })), rule);
    assertViolates(judged(clock({ atMs: 21_000, untilMs: 22_000 })), rule);
    assertViolates(judged(failure(19_000, ["global"])), rule);
  }
});

test("on the disk of a node that is gone it may be durable to one tracker and lost to another while a third has forgotten it", () => {
  const said = (level: string, verdicts: readonly VerdictReport["verdict"][]): Partial<VerdictReport>[] =>
    verdicts.map((verdict, n) => ({
      ...{ level, verdict, by: "final", atMs: 999_999, tracker: ["near", "far", "third"][n] ?? null },
    }));
  const judged = (global: readonly VerdictReport["verdict"][]): HistoryRecord[] => {
    const reported = [
      ...said("disk", ["durable", "lost", "expired"]),
      ...said("region", global),
      ...said("global", global),
    ];
    const spec = {
      at: AT,
      does: write,
      final: null,
      receipt: null,
      reported,
      answer: { durableAt: null },
    } as const;
    const epochs = [epoch("e1", null), epoch("e2", "e1", { node: "b" })];
    return run({ [OLD]: spec }, { epochs, expiry: dropped }, [failure(20, ["global"])]);
  };
  assertGood(judged(["lost", "lost", "expired"]));
  assertViolates(judged(["expired", "expired", "expired"]), "fate.trackers-disagree");
});

test("what was lost on a disk, and durable there to some, may be all expired in the end", () => {
  const judged = (...global: readonly VerdictReport["verdict"][]): HistoryRecord[] => {
    const disk = (["lost", "durable"] as const).map((verdict) => ({ level: "disk", verdict }));
    const reported = [...disk, ...global.map((verdict) => ({ level: "global", verdict }))];
    const spec = { at: AT, does: write, final: "expired", receipt: null } as const;
    const reports = reported.map(
      (report, n) => ({ by: "asked", tracker: "near", atMs: 30 + n, ...report }) as const,
    );
    const epochs = [epoch("e1", null), epoch("e2", "e1", { node: "b" })];
    return run({ [OLD]: { ...spec, reported: reports } }, { epochs, expiry: dropped }, [failure(20, [])]);
  };
  assertGood(judged("lost"));
  assertGood(judged("durable", "broken"));
  assertViolates(judged(), "fate.verdict-changed");
  assertViolates(judged("durable"), "fate.verdict-changed", "fate.durable-absent");
});

const range = (over: Partial<BrokenRange> = {}): BrokenRange => ({
  ...{ type: "broken_range", atMs: 60, tracker: "near", level: "region", epoch: "e1", from: "10", to: "100" },
  ...over,
});

test("an entry that expired before its holder asked again is broken by the range that everyone was sent", () => {
  const judged = (
    final: VerdictReport["verdict"],
    atMs: number,
    ...ranges: readonly BrokenRange[]
  ): HistoryRecord[] => {
    const reported = [{ verdict: "durable", by: "promise", tracker: null, atMs }] as const;
    const spec = { at: AT, does: write, final: [final, final, "expired"], receipt: null, reported } as const;
    return run({ [OLD]: spec }, { expiry: dropped }, [failure(50, []), ...ranges]);
  };
  assertGood(judged("expired", 30, range(), range({ atMs: 70 })));
  assertViolates(judged("expired", 65, range(), range({ atMs: 70 })), "fate.durable-absent");
  assertViolates(judged("durable", 30, range()), "fate.durable-absent");
  for (const other of [range({ to: "99" }), range({ level: "disk" }), range({ epoch: "e3" })])
    assertViolates(judged("expired", 30, other), "fate.durable-absent");
  assertViolates(judged("expired", 30), "fate.durable-absent");
});

test("a session repeats what its promise knew before the range, and knows nothing by itself", () => {
  const judged = (...reports: readonly Partial<VerdictReport>[]): HistoryRecord[] => {
    const reported = reports.map((report) => ({ by: "promise", tracker: null, ...report }) as const);
    const spec = { at: AT, does: write, final: "expired", receipt: null, reported } as const;
    return run({ [OLD]: spec }, { expiry: dropped }, [failure(50, []), range()]);
  };
  const [before, after] = [{ atMs: 30 }, { atMs: 65 }];
  const repeated = { atMs: 65, rule: "session", attempt: null };
  assertGood(judged(before, repeated));
  assertViolates(judged(repeated), "fate.durable-absent");
  assertViolates(judged({ ...before, level: "disk" }, repeated), "fate.durable-absent");
  assertViolates(judged({ ...before, by: "event", tracker: "near" }, repeated), "fate.durable-absent");
  assertViolates(judged(before, after, repeated), "fate.durable-absent");
});

test("receipts are kept for as long as the scenario says", () => {
  const early = { ...dropped, readAtMs: YOUNG_MS + RETENTION_MS - 5_000 };
  assertViolates(run({}, { expiry: early }), "expiry.early");
});

test("what was lost and came back may be durable to trackers that have forgotten it", () => {
  const reported = [
    { verdict: "lost", atMs: 30 },
    { verdict: "broken", atMs: 60 },
  ] as const;
  const everywhere = ["disk", "region", "global"].flatMap((level) =>
    reported.map((report) => ({ ...report, level, by: "event" as const })),
  );
  const asked = { by: "asked", tracker: "near", verdict: "broken", atMs: 70 } as const;
  const final = { lists: { x: [1] } };
  const failures = [failure(20, []), failure(50, [])];
  for (const received of [everywhere, [...everywhere, asked]]) {
    const spec = { at: AT, does: write, reported: received, final: "durable" } as const;
    assertGood(run({ [OLD]: spec }, final, failures));
    assertViolates(history({ [OLD]: spec }, final, failures), "fate.verdict-changed");
    const gone = { ...spec, receipt: null };
    assertViolates(run({ [OLD]: gone }, {}, failures), "fate.verdict-changed");
  }
});
