// Goal: `make verify` records what has happened and runs again only what it must. Method: small stages in a temporary repository.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { eventually, processesWith, TemporaryFolder } from "@highwater/lab-tools/process";
import { pageOf } from "./page.ts";
import { PAGE, readDone, RECORD, runStages } from "./run.ts";
import { bars, type Stage } from "./stages.ts";

const folder = await TemporaryFolder.make("highwater-verify-");
after(() => folder.remove());
let count = 0;

function git(root: string, ...args: readonly string[]): void {
  execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", ...args], {
    cwd: root,
  });
}

function commit(root: string, file: string): void {
  if (file !== RECORD) writeFileSync(join(root, file), "changed");
  git(root, "add", file);
  git(root, "commit", "--quiet", "--message=a");
}

/** A repository with a commit, and the scripts that its stages run. */
function repository(scripts: Readonly<Record<string, string>>): {
  root: string;
  stages: Stage[];
} {
  const root = join(folder.path, String(++count));
  execFileSync("git", ["init", "--quiet", root]);
  writeFileSync(join(root, ".gitignore"), ".tools/\n");
  for (const [name, script] of Object.entries(scripts)) writeFileSync(join(root, name), script);
  git(root, "add", ".");
  git(root, "commit", "--quiet", "--message=a");
  const stages = Object.keys(scripts).map((name): Stage => ({
    name,
    command: `sh ${name}`,
    limitMinutes: 10,
    figures: bars,
    unread: [],
  }));
  return { root, stages };
}

async function run(root: string, stages: readonly Stage[], signal = new AbortController().signal) {
  const said: string[] = [];
  const isGood = await runStages(root, stages, {
    ...{ machine: "2 cores", graceMs: 200, signal },
    say: (line) => {
      said.push(line);
    },
  });
  return { isGood, said: said.join("\n"), results: stages.map((stage) => readDone(root, stage)?.result) };
}

const PASS = "echo ran >> .tools/runs && echo 'met    a bar: 1'";
const runsOf = (root: string): number =>
  readFileSync(join(root, ".tools/runs"), "utf8").split("\n").length - 1;

test("a failed stage stops nothing, and only it is run again at the same commit", async () => {
  const { root, stages } = repository({ a: PASS, b: "test -e .tools/mended && " + PASS, c: PASS });
  const first = await run(root, stages);
  assert.deepEqual([first.isGood, first.results], [false, ["passed", "failed", "passed"]], first.said);
  const failed = pageOf(root, stages);
  assert.match(failed, /\*\*FAILED\*\*: of 3 stages 2 passed, 0 missed a bar, 1 FAILED, 0 not run/);
  assert.match(
    failed,
    /\| b \| `sh b` \| `[0-9a-f]{12}` \| \*\*FAILED\*\*: exit code 1 \(`less \.tools\/verify\/[0-9a-f]{12}\/b\.1\.log`\)/,
  );
  writeFileSync(join(root, ".tools/mended"), "");
  const second = await run(root, stages);
  assert.deepEqual([second.isGood, second.results], [true, ["passed", "passed", "passed"]], second.said);
  assert.equal(runsOf(root), 3);
  const page = pageOf(root, stages);
  assert.match(page, /\*\*Verified\*\*/);
  assert.match(page, /\| b \| `sh b` \| `[0-9a-f]{12}` \| passed, attempt 2: each before it FAILED \|/);
  assert.match(page, /\| a \| a bar \| 1, met \|/);
});

test("what has not been run is not claimed; results are of one commit", async () => {
  const { root, stages } = repository({ a: PASS, b: PASS });
  assert.throws(() => pageOf(root, stages), /no stage has finished at the commit/);
  assert.equal((await run(root, stages.slice(1))).isGood, true);
  const page = pageOf(root, stages);
  assert.match(page, /\*\*Not complete\*\*: of 2 stages 1 passed, 0 missed a bar, 0 FAILED, 1 not run/);
  assert.match(page, /\| a \| `sh a` \| {2}\| not run \| {2}\|/);
  commit(root, "docs/page.md");
  commit(root, RECORD);
  assert.equal(pageOf(root, stages), page, "pages and the record are no part of what runs");
  commit(root, "c");
  assert.throws(() => pageOf(root, stages), /no stage has finished at the commit/);
});

test("a result goes with a commit that changes only what its stage does not run", async () => {
  const { root, stages } = repository({ a: PASS, b: PASS });
  const [first, second] = stages as [Stage, Stage];
  const both = [{ ...first, unread: ["own"] }, second];
  assert.equal((await run(root, both)).isGood, true);
  commit(root, "own");
  const { results, said } = await run(root, both);
  assert.deepEqual(results, ["passed", "passed"]);
  assert.match(said, /a: passed before/);
  assert.equal(runsOf(root), 3, "only the other one ran again");
  assert.notEqual(readDone(root, first)?.commit, readDone(root, second)?.commit);
});

test("a changed tree is refused; the page and the record may change", async () => {
  const { root, stages } = repository({ a: PASS });
  assert.equal((await run(root, stages)).isGood, true);
  writeFileSync(join(root, PAGE), "");
  assert.equal((await run(root, stages)).isGood, true);
  writeFileSync(join(root, "new"), "");
  await assert.rejects(run(root, stages), /the working tree has changes[^]*\?\? new/);
});

test("a stage that changes the tree has failed, and nothing is run behind it", async () => {
  const { root, stages } = repository({ a: `touch left; ${PASS}`, b: PASS });
  const { isGood, results, said } = await run(root, stages);
  assert.deepEqual([isGood, results], [false, ["failed", undefined]]);
  assert.match(said, /the tree was changed while it ran:\n\?\? left/);
});

test("a stage that hangs is ended at its limit, and the next is run", async () => {
  const { root, stages } = repository({ a: "sleep 98765", b: PASS });
  const [hanging, ...rest] = stages as [Stage, Stage];
  const { results } = await run(root, [{ ...hanging, limitMinutes: 0.001 }, ...rest]);
  assert.deepEqual(results, ["failed", "passed"]);
  assert.equal(readDone(root, hanging)?.reason, "ended after 0.001 min, its limit");
});

test("Ctrl-C ends the stage that runs, with all that it has started, and keeps what is finished", async () => {
  // Known among all processes of the machine, where this test may run a second time.
  const sleep = `sleep ${String(randomInt(1e8, 1e9))}`;
  // Both ignore Ctrl-C, and one has put itself into a group of its own.
  const { root, stages } = repository({
    a: PASS,
    b: `trap '' INT; setsid ${sleep} & ${sleep}`,
    c: PASS,
  });
  const stop = new AbortController();
  const running = run(root, stages, stop.signal);
  await eventually("both are there", () => processesWith(sleep).length === 2);
  stop.abort();
  const { isGood, results } = await running;
  assert.deepEqual([isGood, results], [false, ["passed", undefined, undefined]]);
  await eventually("both are gone", () => processesWith(sleep).length === 0);
});

test("HIGHWATER_RESULTS has load tests write elsewhere", async () => {
  const record = new URL("../../loadtests/record.ts", import.meta.url).href;
  const program = `const { record } = await import(${JSON.stringify(record)}); record("a/b", { c: 1 });`;
  const env = { ...process.env, HIGHWATER_RESULTS: join(folder.path, "results") };
  execFileSync(process.execPath, ["--input-type=module", "--eval", program], { env });
  assert.match(readFileSync(join(folder.path, "results/a/b.json"), "utf8"), /"c": 1$/m);
});
