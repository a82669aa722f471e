// Runs test files side by side, each in a process of its own, the unit tests of a package together
// in one. Every process has to report its end. Afterwards looks for what tests must not leave
// behind: processes and temporary folders.
// Arguments: the files. Options: --concurrency N (files side by side), --times FILE (keeps the
// times of all files there, as lines of JSON), --names FILE (writes the names of all tests there, a
// line each).
import { randomUUID } from "node:crypto";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from "node:fs";
import { freemem, tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { exitCodeOf, processesWith, readOptions } from "@highwater/lab-tools/process";
import { reportEnds } from "./test-ends.ts";
import { groupUnitTests } from "./test-groups.ts";
import { TestNames } from "./test-names.ts";
import { bundlePackages, PACKAGES } from "./test-packages.ts";

/** Files side by side. Most of them wait now and then: on two cores, a third uses that time. */
const CONCURRENCY = "3";
const MARK = "HIGHWATER_TEST_RUN";
/** Processes that got a signal to end may need a moment. */
const GRACE_MS = 10_000;
const POLL_MS = 100;
/** No test takes a third of it; one that hangs must not take all the time that the others have. */
const TEST_LIMIT_MS = 900_000;
/** More than the folders of all clusters that run at once have ever needed. */
const MEMORY_BYTES = 8 * 2 ** 30;
const MEMORY_FOLDER = "/dev/shm";
const SLOWEST = 15;

const { values, positionals } = readOptions(import.meta.filename, {
  allowPositionals: true,
  options: {
    concurrency: { type: "string", default: CONCURRENCY },
    times: { type: "string" },
    names: { type: "string" },
  },
});
if (positionals.length === 0) throw new Error("no test files were named");

const root = join(import.meta.dirname, "..");
const mark = randomUUID();
const base = mkdtempSync(join(hasMemoryFolder() ? MEMORY_FOLDER : tmpdir(), "highwater-tests-"));
const [temp, entries, templates, bundles, cache] = ["tmp", "entries", "templates", "bundles", "compiled"].map(
  (name) => {
    const folder = join(base, name);
    mkdirSync(folder);
    return folder;
  },
) as [string, string, string, string, string];
// When root runs the tests, the databases run as another user, who has to get there.
for (const folder of [base, temp, templates]) chmodSync(folder, 0o755);
const times = values.times ?? join(base, "times");

const packages = process.env[PACKAGES] ?? (await bundlePackages(base));
const files = groupUnitTests(positionals, root, entries);
const ending = new AbortController();
let interrupted: number | null = null;
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
  process.on(name, () => {
    interrupted = exitCodeOf(name);
    ending.abort();
  });

const stream = run({
  files,
  concurrency: Number(values.concurrency),
  // Node 24.21 can spin for ever while it ends by itself, in its clean-up of handles (seen once in
  // a file whose tests had all passed). Processes and folders that a test leaves are looked for
  // below.
  forceExit: true,
  timeout: TEST_LIMIT_MS,
  signal: ending.signal,
  execArgv: [
    `--import=${new URL("test-flush.ts", import.meta.url).href}`,
    `--import=${new URL("test-packages.ts", import.meta.url).href}`,
    "--disable-warning=ExperimentalWarning",
  ],
  env: {
    ...process.env,
    TMPDIR: temp,
    [MARK]: mark,
    HIGHWATER_PG_TEMPLATES: templates,
    HIGHWATER_TEST_TIMES: times,
    HIGHWATER_SERVICE_BUNDLES: bundles,
    // The hundreds of processes of a run strip and compile each module once.
    NODE_COMPILE_CACHE: cache,
    [PACKAGES]: packages,
  },
});
const names = new TestNames();
stream.on("test:pass", names.add);
stream.on("test:fail", names.add);
stream.on("test:fail", ({ todo }) => {
  if (todo === undefined || todo === false) process.exitCode = 1;
});
await Promise.all([
  pipeline(stream.compose(new spec()), process.stdout, { end: false }),
  pipeline(stream.compose(reportEnds(files)), process.stderr, { end: false }),
]);
if (values.names !== undefined) writeFileSync(values.names, names.lines.map((line) => `${line}\n`).join(""));
// What has failed is to stand last.
if (process.exitCode === undefined) printSlowest();

const processes = await settle(() => processesWith(temp, `${MARK}=${mark}`));
const folders = await settle(() => readdirSync(temp).filter((name) => !name.startsWith("node-")));
for (const line of processes) console.error(`left running: ${line}`);
for (const name of folders) console.error(`left behind: ${join(temp, name)}`);
// What is left behind stays for a look; all else is taken out of the memory.
for (const folder of folders.length === 0
  ? [base]
  : [entries, templates, bundles, cache, join(base, "node_modules")])
  rmSync(folder, { recursive: true, force: true });
const isClean = processes.length + folders.length === 0;
process.exit(interrupted ?? (isClean ? process.exitCode : 1));

/**
 * Whether there is a file system in memory with room for the run. The clusters write gigabytes that
 * live for seconds, and that costs an ordinary disk more than the tests. It takes nothing from what
 * they prove: no test cuts the power, and what a killed server has written is there afterwards,
 * wherever the folder is.
 */
function hasMemoryFolder(): boolean {
  try {
    const mount = readFileSync("/proc/mounts", "utf8")
      .split("\n")
      .map((line) => line.split(" "))
      .find(([, folder]) => folder === MEMORY_FOLDER);
    const { bavail, bsize } = statfsSync(MEMORY_FOLDER);
    const room = Math.min(bavail * bsize, freemem());
    return mount?.[3]?.split(",").includes("noexec") === false && room >= MEMORY_BYTES;
  } catch {
    return false;
  }
}

function printSlowest(): void {
  const lines = readFileSync(times, { encoding: "utf8", flag: "a+" }).split("\n").filter(Boolean);
  const taken = lines.map((line) => JSON.parse(line) as { file: string; wallS: number; processorS: number });
  const slowest = taken.sort((a, b) => b.wallS - a.wallS).slice(0, SLOWEST);
  console.log(`\nthe slowest of ${String(files.length)} files (seconds; of a processor)`);
  for (const { file, wallS, processorS } of slowest)
    console.log(
      `${wallS.toFixed(0).padStart(5)} ${processorS.toFixed(0).padStart(5)}  ${file.replace(`${root}/`, "")}`,
    );
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
