import assert from "node:assert/strict";
import { test } from "node:test";
import { type NodeReport } from "@highwater/authority";
import { type HighwaterError } from "@highwater/protocol";
import { record } from "../../../test/support/core.ts";
import { primary, replica } from "../../../test/support/failover.ts";
import { type Remembered } from "../failover-candidate/ask.ts";
import { parseAdoptCommand } from "./parse.ts";
import { planAdoption } from "./plan.ts";

const first = record(1, { node: "east" });
const second = record(2, { node: "east" });
const remembers: Remembered = { kind: "remembers", tracker: "t1", epochs: [first, second] };

const planOf = (reports: readonly NodeReport[], memories: readonly Remembered[] = [remembers]) =>
  planAdoption("east", {
    reports: new Map(reports.map((report) => [report.node, report])),
    failures: new Map([["east", "connect ECONNREFUSED"]]),
    memories,
  });

test("adoption gives up exactly the epochs that the node's history lacks", () => {
  const empty = planOf([primary("east", 10, [])]);
  assert.deepEqual([empty.obstacles, empty.hasHistory], [[], false]);
  assert.deepEqual(
    empty.givenUp.map(({ seq }) => seq),
    [1, 2],
  );
  const older = planOf([primary("east", 10, [first])]);
  assert.deepEqual([older.obstacles, older.hasHistory], [[], true]);
  assert.deepEqual(
    older.givenUp.map(({ seq }) => seq),
    [2],
  );
});

test("it is refused where something else is the way out, or not everything is known", () => {
  const refusal = (reports: readonly NodeReport[], memories?: readonly Remembered[]): string =>
    planOf(reports, memories).obstacles.join("\n");
  const east = primary("east", 10, []);
  assert.match(refusal([primary("east", 10, [first, second])]), /^there is nothing to adopt/);
  assert.match(refusal([]), /^east does not answer: connect ECONNREFUSED$/);
  assert.match(refusal([replica("east", 10)]), /^east is a replica/);
  assert.match(refusal([{ ...east, unfit: "fsync is off" }]), /^east is unfit: fsync is off$/);
  assert.match(refusal([east], []), /^no tracker is configured/);
  const silent: Remembered = { kind: "silent", tracker: "t2", reason: "timeout" };
  assert.match(refusal([east], [remembers, silent]), /^tracker t2 does not answer: timeout$/);
  assert.match(
    refusal([east, primary("west", 20, [first, second])]),
    /^west is writable and has epoch 2 .*go on with it, or turn it off first$/,
  );
  // A replica that still has the old history is no rival.
  assert.equal(refusal([east, replica("west", 20)]), "");
});

test("to act it needs --data, --reason and --by, and reports every fault", () => {
  assert.equal(parseAdoptCommand(["--node", "east"])?.act, null);
  assert.deepEqual(
    parseAdoptCommand(["--node", "east", "--data", "intact", "--reason", "a drop", "--by", "ada"])?.act,
    { data: "intact", reason: "a drop", issuedBy: "ada" },
  );
  const faults = (...args: string[]): readonly string[] => {
    try {
      parseAdoptCommand(args);
    } catch (cause) {
      return (cause as HighwaterError).details.fields ?? [];
    }
    return [];
  };
  assert.deepEqual(faults("--data", "gone", "--tracker", "ftp://x"), [
    "--node is required",
    "--data is gone, and must be intact or restored",
    "--reason is required with --data",
    "--by is required with --data",
    "--tracker must be an http or https URL",
  ]);
});
