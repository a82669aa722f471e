// Runs the test files, each of which has to tell its end, and then looks for what they should not have left: processes and
// temporary folders.
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { chmodSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { exitCodeOf, processesWith } from "@highwater/dev-process";

/** Files side by side: two cores, and each system test runs three databases. */
const CONCURRENCY = "2";
const MARK = "HIGHWATER_TEST_RUN";
/** Processes that were told to end may need a moment. */
const GRACE_MS = 10_000;
const POLL_MS = 100;

const run = randomUUID();
const temp = mkdtempSync(join(tmpdir(), "highwater-tests-"));
// The databases of a root user run as somebody else.
chmodSync(temp, 0o755);

const { values, positionals: files } = parseArgs({
  allowPositionals: true,
  options: { concurrency: { type: "string", default: CONCURRENCY } },
});
if (files.length === 0) throw new Error("no test files were named");
const code = await new Promise<number>((resolve) => {
  const args = [
    "--test",
    // Node 24.21 can spin for ever while it ends by itself, in its clean-up of handles (seen once in a file whose tests had
    // all passed). What a test leaves running is looked for below, by process and folder.
    "--test-force-exit",
    `--import=${beside("test-flush.ts")}`,
    "--test-reporter=spec",
    "--test-reporter-destination=stdout",
    `--test-reporter=${beside("test-ends.ts")}`,
    "--test-reporter-destination=stderr",
    `--test-concurrency=${values.concurrency}`,
    "--disable-warning=ExperimentalWarning",
    ...files,
  ];
  const child = spawn(process.execPath, args, {
    stdio: "inherit",
    // Its own group, so that Ctrl-C in the terminal reaches it once, through its parent.
    detached: true,
    env: { ...process.env, TMPDIR: temp, [MARK]: run },
  });
  let interrupted: number | null = null;
  // The runner ends the files that it runs; what they have left is looked for all the same.
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(name, () => {
      interrupted = exitCodeOf(name);
      child.kill(name);
    });
  child.once("exit", (status) => {
    resolve(interrupted ?? status ?? 1);
  });
});

const processes = await settle(() => processesWith(temp, `${MARK}=${run}`));
const folders = await settle(() => readdirSync(temp).filter((name) => !name.startsWith("node-")));
for (const line of processes) console.error(`left running: ${line}`);
for (const name of folders) console.error(`left behind: ${join(temp, name)}`);
if (folders.length === 0) rmSync(temp, { recursive: true, force: true });
process.exit(code === 0 && processes.length + folders.length > 0 ? 1 : code);

function beside(name: string): string {
  return new URL(name, import.meta.url).href;
}

/** What is still there after the grace. */
async function settle(look: () => string[]): Promise<string[]> {
  const deadline = performance.now() + GRACE_MS;
  for (;;) {
    const left = look();
    if (left.length === 0 || performance.now() > deadline) return left;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
