// Says which sentences break a rule of prose (rules.ts): those of the files that are named, else
// those by which a folder exceeds its figures in scripts/ratchets.json. Usage: node
// scripts/prose/cli.ts [FILE…]. Exit codes: 0 none; 1 some.
import { execFileSync } from "node:child_process";
import { compare, proseOf } from "../ratchets.ts";
import { readTree, ROOT } from "../tree.ts";

/**
 * A folder has many old findings; the new ones are in what the last commit or the work tree
 * changes.
 */
const SHOWN = 20;

const paths = new Set(process.argv.slice(2));
const changed = new Set([
  ...git("diff", "--name-only", "HEAD~1"),
  ...git("ls-files", "-o", "--exclude-standard"),
]);
const isOld = (path: string): number => (changed.has(path) ? 0 : 1);
const tree = [...readTree()].sort(([one], [other]) => isOld(one) - isOld(other));
const named = paths.size === 0 ? tree : tree.filter(([path]) => paths.has(path));
for (const [name, rules] of Object.entries(await proseOf(new Map(named))))
  for (const [rule, found] of Object.entries(rules)) {
    const { worse } = compare({ prose: { [name]: { [rule]: found.length } } });
    if (paths.size > 0) say(found);
    else if (worse.length > 0) say([...worse, ...found.slice(0, SHOWN)]);
  }

function say(lines: readonly string[]): void {
  for (const line of lines) console.log(line);
  process.exitCode = 1;
}

/** The paths that git names; none where the history is too short. */
function git(...args: string[]): string[] {
  try {
    return execFileSync("git", args, { cwd: ROOT, encoding: "utf8", stdio: "pipe" }).split("\n");
  } catch {
    return [];
  }
}
