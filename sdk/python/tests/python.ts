// Runs the project's Python for a test, in folders that the test removes.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext } from "node:test";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const SDK = join(ROOT, "sdk", "python");
const PYTHON = join(ROOT, ".venv", "bin", "python");

interface RunOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Resolves with what the program wrote to its standard output; fails with all that it wrote if it fails. */
async function run(program: string, args: readonly string[], options: RunOptions): Promise<string> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, PYTHONDONTWRITEBYTECODE: "1", ...options.env };
    execFile(
      program,
      args,
      { cwd: options.cwd, env, maxBuffer: 64 * 1024 * 1024, encoding: "utf8" },
      (error, stdout, stderr) => {
        if (error === null) resolve(stdout);
        else reject(new assert.AssertionError({ message: `${error.message}\n${stdout}\n${stderr}` }));
      },
    );
  });
}

/** A folder that is gone after the test. */
async function folder(context: TestContext): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "highwater-python-"));
  context.after(() => rm(path, { recursive: true, force: true }));
  return path;
}

/** Runs pytest on the tests that the expression of marks selects. */
export async function pytest(context: TestContext, marks: string): Promise<void> {
  const temp = await folder(context);
  const output = await run(
    PYTHON,
    ["-m", "pytest", "-q", "-m", marks, "-p", "no:cacheprovider", "--basetemp", join(temp, "pytest")],
    { cwd: SDK, env: { TMPDIR: temp } },
  );
  context.diagnostic(output.trimEnd().split("\n").at(-1) ?? "");
}
