import assert from "node:assert/strict";
import { test } from "node:test";
import { validate } from "@highwater/protocol";
import { epochId, record, txnId } from "../../test/support/core.ts";
import { decideCandidate } from "./candidate.ts";
import { FIRST, NO_WISHES, primary, replica, situation } from "../../test/support/failover.ts";
import { CandidateReport, EXIT_CODES, makeReport, type TrackerPreviews } from "./report.ts";
import { type FailoverPreview } from "./wire.ts";

type Over = Partial<Omit<FailoverPreview, "candidates">> & { readonly count?: number };

/** A tracker that knows the log up to 120, and `count` transactions above each candidate. */
function tracker(name: string, { count = 0, ...over }: Over = {}): TrackerPreviews {
  const candidate = (node: string, offset: string): FailoverPreview["candidates"][number] => ({
    ...{ node, offset, bytes: "0", promises: [], transactions: count, complete: true },
    ids: Array.from({ length: count }, (_, n) => txnId(n)),
  });
  const preview: FailoverPreview = {
    ...{ epoch: epochId(1), follows: true, end: "120", marks: {}, nodes: [], undecided: 0 },
    ...over,
    candidates: [candidate("west", "80"), candidate("north", "90")],
  };
  return { tracker: name, kind: "preview", preview };
}

function report(
  reports: Parameters<typeof situation>[0],
  answers: readonly TrackerPreviews[],
  over: Partial<typeof NO_WISHES> = {},
): CandidateReport {
  const wishes = { ...NO_WISHES, ...over };
  const decision = decideCandidate(situation(reports, { wishes }));
  const made = makeReport({ decision, answers, wishes, isLease: false });
  const checked = validate(CandidateReport, JSON.parse(JSON.stringify(made)));
  assert.ok(checked.ok, JSON.stringify(checked));
  return made;
}

const BOTH = [replica("west", 80), replica("north", 90)];
const lossOf = ({ nodes }: CandidateReport, node: string) => nodes.find((one) => one.node === node)?.loss;

test("of several trackers the highest number counts, and the longest log", () => {
  const made = report(BOTH, [
    tracker("a:1", { count: 2 }),
    tracker("b:1", { count: 5, end: "150" }),
    tracker("c:1", { count: 9, follows: false }),
    { tracker: "d:1", kind: "silent", reason: "fetch failed" },
  ]);
  assert.deepEqual([made.candidate, made.exitCode, made.end], ["north", 0, "150"]);
  assert.deepEqual(lossOf(made, "north"), {
    ...{ bytes: "60", transactions: 5, complete: true, promises: [] },
    ids: [0, 1, 2, 3, 4].map((n) => txnId(n)),
  });
  assert.equal(lossOf(made, "west")?.bytes, "70");
  assert.deepEqual(
    made.trackers.map(({ answers, follows }) => [answers, follows]),
    [
      [true, true],
      [true, true],
      [true, false],
      [false, null],
    ],
  );
});

test("without trackers only positions speak, and that is said", () => {
  const made = report(BOTH, [{ tracker: "a:1", kind: "silent", reason: "fetch failed" }]);
  assert.deepEqual(lossOf(made, "north"), {
    ...{ bytes: "0", transactions: null, complete: false, promises: [], ids: [] },
  });
  assert.match(made.warnings.join(), /^no tracker answers: losses are estimated from positions alone$/);
});

test("a published mark above the choice is a broken promise, whatever the election says", () => {
  const promises = [{ level: "region", from: "90", to: "100" }];
  const answer = tracker("a:1", { count: 1 });
  assert.ok(answer.kind === "preview");
  const candidates = answer.preview.candidates.map((candidate) => ({ ...candidate, promises }));
  const answers: TrackerPreviews[] = [{ ...answer, preview: { ...answer.preview, candidates } }];
  const made = report(BOTH, answers);
  assert.deepEqual([made.refusal, made.exitCode], ["loss", EXIT_CODES.loss]);
  const region = made.levels.find(({ level }) => level === "region");
  assert.deepEqual([region?.promise, region?.broken], ["broken", promises[0]]);
  assert.match(
    made.reasons.join(),
    /level region has promised everything up to 100, and north has it up to 90/,
  );
  const accepted = report(BOTH, answers, { acceptsLoss: true });
  assert.deepEqual([accepted.refusal, accepted.exitCode, accepted.candidate], [null, 0, "north"]);
});

test("a node that does not answer and is known to have had more is reported", () => {
  const made = report(
    [replica("west", 80)],
    [tracker("a:1", { nodes: [{ node: "north", position: "95" }] })],
  );
  assert.equal(made.exitCode, EXIT_CODES.loss);
  assert.match(
    made.warnings.join(),
    /^north \(silent\) is known to have had 15 bytes more of the log than west$/,
  );
  assert.equal(made.end, "120");
});

test("what to do next: the command that Highwater follows names what it overrules", () => {
  const second = record(2, { node: "west" });
  const settled = { ...second, commanded: true };
  const east = record(3, { node: "east", previous: epochId(1) });
  const reports = [primary("east", 90, [FIRST, east]), replica("north", 80, { epochs: [FIRST, settled] })];
  const made = report(reports, [], { acceptsLoss: true });
  assert.equal(made.exitCode, 0);
  assert.ok(
    made.nextSteps.some((step) =>
      step.endsWith(
        `INSERT INTO highwater.authority_command (node, reason, overrules) VALUES ('north', 'failover from west', '{${east.id}}');`,
      ),
    ),
    made.nextSteps.join("\n"),
  );
  const decision = decideCandidate(situation(BOTH));
  const underLease = makeReport({ decision, answers: [], wishes: NO_WISHES, isLease: true });
  assert.match(underLease.nextSteps.join(), /the HA manager promotes, not you\. Tell it to choose north/);
});

test("what to do next for a planned change: nothing says that a clean stop leaves no replica behind", () => {
  const { nextSteps } = report([primary("east", 100, [FIRST]), ...BOTH], [], { isSwitchover: true });
  // With the setting of PostgreSQL 19 a server stops cleanly before its replicas have everything.
  const [command, limit, stop, again, ...more] = nextSteps;
  assert.match(command ?? "", /^highwater switchover (north|west|south)/);
  assert.match(
    limit ?? "",
    /^On east, .*: ALTER SYSTEM SET wal_sender_shutdown_timeout = -1; SELECT pg_reload_conf\(\);/,
  );
  assert.match(stop ?? "", /^Stop east cleanly .* to the replicas whose streams stay open\.$/);
  assert.match(again ?? "", /^Ask again without --switchover: .* what a promotion would lose\.$/);
  assert.deepEqual(more, []);
});

test("no node is named while the primary answers, and a node that is promoted already is to be authorized", () => {
  const answering = report([primary("east", 100, [FIRST]), ...BOTH], []);
  assert.deepEqual([answering.candidate, answering.exitCode], [null, EXIT_CODES.primary_answers]);
  assert.deepEqual([answering.levels, answering.warnings], [[], []]);
  const promoted = report([{ ...primary("west", 90, [FIRST]), current: null }, replica("north", 80)], []);
  assert.equal(promoted.exitCode, EXIT_CODES.primary_answers);
  assert.match(promoted.nextSteps.join(), /VALUES \('west', 'failover from east', '\{\}'\);/);
  assert.equal(report([], []).exitCode, EXIT_CODES.no_candidate);
});
