// Goal: the output of a test file is never lost in silence, as Node alone loses it (nodejs/node#64833, Node 24.21).
// Method: a test file that stops the runner, so that no one reads its output, and fills the pipe before its tests run.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { after, test } from "node:test";
import { TemporaryFolder } from "@highwater/lab-tools/process";

const RUNNER = join(import.meta.dirname, "run-tests.ts");
const ENDS = new URL("test-ends.ts", import.meta.url).href;

/**
 * The runner goes on when this process is gone, or has had time enough to go: turns of its loop, not seconds, so that a busy
 * machine changes nothing.
 */
const UNREAD = `
import { spawn } from "node:child_process";
import { after, test } from "node:test";

const runner = process.ppid;
process.kill(runner, "SIGSTOP");
const helper = spawn("/bin/sh", ["-c", 'read -r _; kill -CONT "$0"', String(runner)], { stdio: ["pipe", "ignore", "ignore"] });
helper.unref();
while (process.stdout.writableLength === 0) process.stdout.write("x".repeat(1_000));
for (let n = 0; n < 10; n += 1) test("passes", () => {});
after(() => {
  let turns = 0;
  setImmediate(function turn() {
    turns += 1;
    if (turns < 1_000) setImmediate(turn);
    else process.kill(runner, "SIGCONT");
  });
});
`;
const LEFT_EARLY = `
import { test } from "node:test";

test("is told", () => {});
test("leaves", () => process.exit(0));
test("is never run", () => { throw new Error("nobody sees this"); });
`;
const SKIPS = `
import { describe, test } from "node:test";

test("one", { skip: true }, () => {});
test("two", { skip: " " }, () => {});
test("three", (context) => context.skip());
test("four", { todo: true }, () => { throw new Error("is not done"); });
describe("five", { skip: true }, () => {});
`;
const REASONS = `
import { test } from "node:test";

test("six", { skip: "needs a moon" }, () => {});
test("seven", (context) => context.skip("needs a moon"));
test("eight", { skip: false, todo: "when there is a moon" }, () => {});
`;
const KEPT_RUNNING = `
import { test } from "node:test";

test("passes", () => { setInterval(() => {}, 1_000); });
`;

const folder = await TemporaryFolder.make("highwater-run-tests-");
after(() => folder.remove());

async function fileOf(name: string, source: string): Promise<string> {
  const path = join(folder.path, `${name}.test.mjs`);
  await writeFile(path, source);
  return path;
}

interface Run {
  readonly code: number | null;
  readonly printed: string;
  /** Tests that the summary counts. */
  readonly tests: number;
}

async function run(...args: readonly string[]): Promise<Run> {
  // A runner that is started by a test runs nothing.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  const [code, ...printed] = await Promise.all([ended, text(child.stdout), text(child.stderr)]);
  return { code, printed: printed.join(""), tests: Number(/^ℹ tests (\d+)$/m.exec(printed[0])?.[1]) };
}

test("Node alone loses results and passes; once it does not, test-flush.ts may go", async () => {
  const file = await fileOf("unread", UNREAD);
  const { code, tests, printed } = await run("--test", "--test-force-exit", "--test-reporter=spec", file);
  assert.equal(code, 0, printed);
  assert.ok(tests < 10, printed);
});

test("results that are lost fail the run", async () => {
  const file = await fileOf("unread", UNREAD);
  const runner = join(folder.path, "runner.mjs");
  await writeFile(
    runner,
    `import { run } from "node:test";
     import { reportEnds } from ${JSON.stringify(ENDS)};
     const files = process.argv.slice(2);
     run({ files, forceExit: true }).compose(reportEnds(files)).pipe(process.stderr);`,
  );
  const { code, printed } = await run(runner, file);
  assert.equal(code, 1, printed);
  assert.match(printed, /no end reported: .*unread\.test\.mjs/);
});

test("nothing is lost while no one reads", async () => {
  const { code, tests, printed } = await run(RUNNER, await fileOf("unread", UNREAD));
  assert.deepEqual([code, tests], [0, 10], printed);
});

test("a file that leaves before its tests have run fails the run, whatever its exit code", async () => {
  const { code, printed } = await run(RUNNER, await fileOf("left-early", LEFT_EARLY));
  assert.equal(code, 1, printed);
  assert.match(printed, /no end reported: .*left-early\.test\.mjs/);
});

test("a file that is not there fails the run", async () => {
  const { code, printed } = await run(
    RUNNER,
    await fileOf("kept-running", KEPT_RUNNING),
    join(folder.path, "no.test.mjs"),
  );
  assert.equal(code, 1, printed);
  assert.match(printed, /no end reported: .*no\.test\.mjs/);
});

test("a file whose tests have ended ends, whatever keeps it running", async () => {
  const { code, tests, printed } = await run(RUNNER, await fileOf("kept-running", KEPT_RUNNING));
  assert.deepEqual([code, tests], [0, 1], printed);
});

test("a test that is skipped without a reason fails the run, and one with a reason does not", async () => {
  const files = [await fileOf("skips", SKIPS), await fileOf("reasons", REASONS)];
  const { code, printed } = await run(RUNNER, ...files);
  assert.equal(code, 1, printed);
  const named = [...printed.matchAll(/^no reason: .*skips\.test\.mjs:\d+: "(\w+)"/gm)].map(
    ([, name]) => name,
  );
  assert.deepEqual(named.sort(), ["five", "four", "one", "three", "two"]);
  assert.equal((await run(RUNNER, ...files.slice(1))).code, 0);
});
