// The files of the repository, for what measures or checks all of them.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

export const ROOT = join(import.meta.dirname, "..");

/** Texts by path from the root: of what git tracks, and of what it would track. */
export function readTree(): Map<string, string> {
  const list = execFileSync("git", ["ls-files", "-coz", "--exclude-standard"], {
    cwd: ROOT,
    encoding: "utf8",
  });
  const paths = list.split("\0").filter((path) => path !== "" && existsSync(join(ROOT, path)));
  return new Map(paths.sort().map((path) => [path, readFileSync(join(ROOT, path), "utf8")]));
}
