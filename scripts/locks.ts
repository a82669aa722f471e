// Keeps lock files at one line for each package, so that a change of one package is a change of one line. npm and pip read them as
// they read their own layout. `make fmt` writes them so; with --check, exit code 1 names those that are not.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { basename, dirname } from "node:path";
import { pathToFileURL } from "node:url";
import { jsonLines } from "@highwater/lab-tools/json";

/** Below `packages` each entry has a line of its own. */
const LOCK_DEPTH = 2;
const REQUIREMENTS = /^requirements.*\.txt$/;

/** The same lock in the layout of this project. */
export function compactLock(path: string, text: string): string {
  return basename(path) === "package-lock.json"
    ? jsonLines(JSON.parse(text), LOCK_DEPTH)
    : compactRequirements(text);
}

/** Joins a requirement with its hashes, and leaves out which package needs it: `pip show` says that. */
function compactRequirements(text: string): string {
  return text
    .replaceAll(/ *\\\n */g, " ")
    .replaceAll(/^ +# .*\n/gm, "")
    .replaceAll(/\n{2,}/g, "\n");
}

function lockFiles(): string[] {
  const tracked = execFileSync("git", ["ls-files"], { encoding: "utf8" }).split("\n");
  return tracked.filter((path) => {
    const name = basename(path);
    return name === "package-lock.json" || REQUIREMENTS.test(name);
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  process.chdir(dirname(import.meta.dirname));
  const isCheck = process.argv.includes("--check");
  for (const path of lockFiles()) {
    const text = readFileSync(path, "utf8");
    const compact = compactLock(path, text);
    if (compact === text) continue;
    if (!isCheck) writeFileSync(path, compact);
    else {
      console.error(`${path} has another layout: make fmt`);
      process.exitCode = 1;
    }
  }
}
