// Says which sentences break a rule of prose (rules.ts): those of the files that are named, else those by which a folder exceeds
// its figures in scripts/ratchets.json. Usage: node scripts/prose/cli.ts [FILE…]. Exit codes: 0 none; 1 some.
import { execFileSync } from "node:child_process";
import { compare, proseOf, readTree } from "../ratchets.ts";
import { ROOT } from "../import-circles.ts";

/** A folder has many old findings; the new ones are in what the last commit or the work tree changes. */
const SHOWN = 20;

const paths = new Set(process.argv.slice(2));
const tree = readTree();
if (paths.size > 0) {
  const named = await proseOf(new Map([...tree].filter(([path]) => paths.has(path))));
  fail(Object.values(named).flatMap((rules) => Object.values(rules).flat()));
} else {
  const changed = new Set(
    git("diff", "--name-only", "HEAD~1").concat(git("ls-files", "-o", "--exclude-standard")),
  );
  const isOld = (path: string): number => (changed.has(path) ? 0 : 1);
  const newFirst = [...tree].sort(([one], [other]) => isOld(one) - isOld(other));
  const { worse } = compare({ prose: await proseOf(new Map(newFirst)) });
  fail(worse.map((text) => text.split("\n").slice(0, SHOWN).join("\n")));
}

function fail(lines: readonly string[]): void {
  for (const line of lines) console.log(line);
  if (lines.length > 0) process.exitCode = 1;
}

/** The paths that git names; none where the history is too short. */
function git(...args: string[]): string[] {
  try {
    return execFileSync("git", args, { cwd: ROOT, encoding: "utf8", stdio: "pipe" }).split("\n");
  } catch {
    return [];
  }
}
