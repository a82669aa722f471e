// Keeps lock files at one line for each package, so that a change of one package is a change of one
// line. npm and pip read them as they read their own layout. `make fmt` writes them so; with
// --check, exit code 1 names those that are not.
import { writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { readOptions } from "@highwater/lab-tools/process";
import { jsonLines } from "@highwater/lab-tools/json";
import { readTree, ROOT } from "./tree.ts";

/** Below `packages` each entry has a line of its own. */
const LOCK_DEPTH = 2;
const LOCK = /^(?:package-lock\.json|requirements.*\.txt)$/;

/** The same lock in the layout of this project. */
export function compactLock(path: string, text: string): string {
  return basename(path) === "package-lock.json"
    ? jsonLines(JSON.parse(text), LOCK_DEPTH)
    : compactRequirements(text);
}

/**
 * Joins a requirement with its hashes, and leaves out which package needs it: `pip show` says that.
 */
function compactRequirements(text: string): string {
  return text
    .replaceAll(/ *\\\n */g, " ")
    .replaceAll(/^ +# .*\n/gm, "")
    .replaceAll(/\n{2,}/g, "\n");
}

if (import.meta.main) {
  const isCheck = readOptions(import.meta.filename, {
    options: { check: { type: "boolean", default: false } },
  }).values.check;
  for (const [path, text] of readTree()) {
    if (!LOCK.test(basename(path))) continue;
    const compact = compactLock(path, text);
    if (compact === text) continue;
    if (!isCheck) writeFileSync(join(ROOT, path), compact);
    else {
      console.error(`${path} has another layout: make fmt`);
      process.exitCode = 1;
    }
  }
}
