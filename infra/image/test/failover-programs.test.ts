// What the failover's programs decide, without any of what they ask: the lines by which a report comes back, when the automation
// may go on, and for whom a report speaks.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type CandidateReport } from "@highwater/durability-tracker/failover";
import { commandOf, whyNot } from "../src/authorize.ts";
import { endLine, readReport, reportLine, summaryLine } from "../src/failover-lines.ts";
import { judge, type Question, summarize } from "../src/failover-preview.ts";

const EPOCH = "e0000000-0000-4000-8000-000000000001";
const LOST = "019aa5f2-6c1e-7d3a-9a55-0f6d8f3a2b10";
const RUN = "11111111-2222-4333-8444-555555555555";

type Loss = NonNullable<CandidateReport["nodes"][number]["loss"]>;

const loss = (changes: Partial<Loss> = {}): Loss => ({
  ...{ bytes: "20", transactions: 3, complete: true, promises: [], ids: [LOST] },
  ...changes,
});

function makeReport(changes: Partial<CandidateReport> = {}, lost = loss()): CandidateReport {
  const node = (name: string, more: Partial<CandidateReport["nodes"][number]>) => ({
    ...{ node: name, region: name, zone: "a", standing: "silent" as const, reason: null, position: null },
    ...{ counted: null, newestSeq: null, fed: false, loss: null },
    ...more,
  });
  return {
    version: 1,
    ...{ candidate: "west", refusal: null, exitCode: 0, fenced: false, reasons: [], warnings: [] },
    epoch: { id: EPOCH, seq: 1, primary: "east", earlier: false },
    end: "100",
    nodes: [
      node("east", {}),
      node("west", { standing: "candidate", position: "80", newestSeq: 1, loss: lost }),
    ],
    levels: [
      {
        ...{ level: "region", promise: "kept", domain: "region", domains: ["west"], answered: ["west"] },
        ...{ needed: 1, broken: null },
      },
    ],
    trackers: [{ tracker: "up:1", answers: true, reason: null, follows: true, undecided: 0 }],
    overrules: [],
    nextSteps: [],
    ...changes,
  };
}

const atRisk = (report: CandidateReport): CandidateReport => ({
  ...report,
  levels: report.levels.map((level) => ({ ...level, promise: "at_risk" as const })),
});

describe("lines", () => {
  it("bring a report back whole, but for the ids of single transactions", () => {
    const report = makeReport();
    const line = reportLine({ run: RUN, stage: "preview" }, report);
    assert.match(line, /^highwater-report [0-9a-f-]+ preview [\w-]+$/);
    const read = readReport(`${line}\n`);
    assert.ok(read.ok);
    assert.deepEqual(read.origin, { run: RUN, stage: "preview" });
    assert.deepEqual(read.report, makeReport({}, loss({ ids: [] })));
    const json = readReport(JSON.stringify(report, null, 2));
    assert.ok(json.ok && json.origin === null);
    assert.deepEqual(json.report, report);
  });

  it("that are cut, forged or of something else are refused", () => {
    const line = reportLine({ run: RUN, stage: "fenced" }, makeReport());
    for (const wrong of [
      "",
      "highwater-report",
      line.slice(0, -20),
      line.replace("fenced", "approved"),
      `${line} more`,
      line.replace("highwater-report", "highwater-summary"),
      JSON.stringify({ ...makeReport(), version: 2 }),
      JSON.stringify({ candidate: "west" }),
      "{",
    ])
      assert.equal(readReport(wrong).ok, false, wrong);
  });

  it("have nothing in them that a template could take for its own", () => {
    const line = summaryLine({ run: RUN, stage: "preview" }, `a "b" {{ c }} $d\n\\e ${"x".repeat(5_000)}`);
    assert.doesNotMatch(line, /["{}$\\\n]/);
    assert.ok(line.length < 2_000);
    assert.equal(endLine({ run: RUN, stage: "verify" }, 4), `highwater-end ${RUN} verify 4`);
  });
});

describe("a preview", () => {
  const preview: Question = {
    ...{ stage: "preview", node: "west", from: "east", acceptsLoss: false, approved: null },
  };
  const fenced = (approved: CandidateReport): Question => ({ ...preview, stage: "fenced", approved });
  const code = (report: CandidateReport, question: Question): number => judge(report, question).exitCode;
  const fed = makeReport({ refusal: "still_fed", exitCode: 7 });

  it("continues only with the node that it can promote", () => {
    assert.equal(code(makeReport(), preview), 0);
    assert.equal(code(makeReport({ candidate: "north" }), preview), 20);
    assert.equal(code(makeReport({ candidate: null, refusal: "no_candidate", exitCode: 5 }), preview), 5);
  });

  it("continues only if the report's old primary is the one that it would cut off", () => {
    assert.equal(code(makeReport(), { ...preview, from: "north" }), 21);
    const answers = makeReport({ candidate: null, refusal: "primary_answers", exitCode: 3 });
    assert.equal(code(answers, preview), 3);
  });

  it("takes open streams for what the fence is for, but not with promises at risk", () => {
    assert.equal(code(fed, preview), 7);
    assert.equal(code(fed, fenced(fed)), 7, "after the fence it is no better than a refusal");
    assert.equal(code(atRisk(fed), preview), 6);
    assert.equal(code(atRisk(fed), { ...preview, acceptsLoss: true }), 7);
  });

  it("asks again when more would be lost than was approved", () => {
    const approved = makeReport();
    assert.equal(code(makeReport(), fenced(approved)), 0);
    assert.equal(code(makeReport({}, loss({ transactions: 2 })), fenced(approved)), 0);
    assert.equal(code(makeReport({}, loss({ transactions: 4 })), fenced(approved)), 22);
    assert.equal(code(makeReport({}, loss({ transactions: null })), fenced(approved)), 22);
    assert.equal(code(atRisk(makeReport()), fenced(approved)), 22);
    const unknown = makeReport({}, loss({ transactions: null }));
    assert.equal(code(makeReport({}, loss({ transactions: 9 })), fenced(unknown)), 0);
  });

  it("says in one line what an approver has to know", () => {
    const report = makeReport({ warnings: ["a warning"] }, loss({ complete: false }));
    assert.equal(
      summarize(report, judge(report, preview)),
      "west can be promoted. would lose at least 3 transactions, 20 bytes of log. region: kept. 1 of 1 trackers answer. a warning",
    );
  });
});

describe("a report", () => {
  it("is valid only for the node that it names, and only after the fence", () => {
    const report = makeReport({ fenced: true });
    assert.equal(whyNot(report, "west", "fenced"), null);
    assert.equal(whyNot(report, "west", null), null, "by hand there is no stage");
    assert.match(whyNot(report, "north", "fenced") ?? "", /names west, and not north/);
    assert.match(whyNot(makeReport(), "west", null) ?? "", /before the old primary was fenced/);
    assert.match(whyNot(report, "west", "preview") ?? "", /before the old primary was fenced/);
    const refused = makeReport({ fenced: true, refusal: "loss", exitCode: 6, reasons: ["too few"] });
    assert.match(whyNot(refused, "west", "fenced") ?? "", /refuses \(loss\): too few/);
  });

  it("says the same command whenever it is read, and another one about another world", () => {
    const other = "e0000000-0000-4000-8000-000000000002";
    const report = makeReport({ fenced: true, overrules: [other, EPOCH] });
    const command = commandOf(report, "west");
    assert.match(command.id, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    assert.deepEqual(command.overrules, [EPOCH, other]);
    assert.equal(commandOf({ ...report, overrules: [EPOCH, other] }, "west").id, command.id);
    for (const another of [
      commandOf(report, "north"),
      commandOf({ ...report, overrules: [] }, "west"),
      commandOf({ ...report, epoch: { id: other, seq: 2, primary: "east", earlier: false } }, "west"),
    ])
      assert.notEqual(another.id, command.id);
  });
});
