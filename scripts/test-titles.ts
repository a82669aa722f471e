// Follows the tests of a commit through history to HEAD: none may be missing.
// Usage: node scripts/test-titles.ts [BASE]
// It prints three kinds of tests that have lost their name:
// - `renamed: OLD → NEW`: a commit changed the name and kept the body.
// - `changed: OLD → NEW`: that commit also changed the body.
// - `gone: NAME → WHERE`: test-titles.txt says where the subject went.
// Exit code 1: another test is missing, or a line of test-titles.txt explains nothing.
//
// No test runs, so a title in a loop counts once, as the source writes it, and equal names count
// once. test-names.ts compares the names that two runs report.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { ROOT } from "./tree.ts";

export interface Title {
  /** The names that lead to the test, outermost first. */
  readonly name: string;
  /** What its source says besides the name, without what a formatter moves. */
  readonly body: string;
}

/** Of one file in one commit; an empty text stands for no file. */
export interface Change {
  readonly path: string;
  readonly before: string;
  readonly after: string;
}

/** The last commit before the tests were parted into tiers. */
const BASE = "8e32b34e";
const EXPLAINED = join(import.meta.dirname, "test-titles.txt");
/** Below this share of common words, an old and a new test are two tests. */
const LIKENESS = 0.6;
const TESTS = /\.test\.ts$|(?:^|\/)test_\w+\.py$|\.tftest\.hcl$|\/conformance(?:\/[\w-]+)?\.ts$/;
const PYTHON = /^(?<indent> *)(?:async )?def (?<name>test_\w+)(?<body>.*\n(?:\k<indent>[ )].*\n|\n)*)/gm;
const TERRAFORM = /^run "(?<name>[^"]*)"(?<body>.*\n(?:[^}\n].*\n|\n)*)/gm;
/** The functions that take a test's name as their first argument. */
export const TEST_FUNCTION = /^(?:\w+\.)?(?:test|it|describe|suite)(?:\.(?:skip|todo|only))?$/;

export function titlesOf(path: string, text: string): Title[] {
  const title = (name: string, body: string): Title => ({ name, body: body.replaceAll(/[\s,()]+/g, " ") });
  if (!path.endsWith(".ts"))
    return Array.from(text.matchAll(path.endsWith(".py") ? PYTHON : TERRAFORM), ({ groups = {} }) =>
      title(groups["name"] ?? "", groups["body"] ?? ""),
    );
  const titles: Title[] = [];
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.ESNext);
  const visit = (node: ts.Node, suite: string): void => {
    if (ts.isCallExpression(node) && TEST_FUNCTION.test(node.expression.getText(file))) {
      const [first, ...others] = node.arguments;
      if (first !== undefined && others.length > 0) {
        const name = suite + (ts.isStringLiteralLike(first) ? first.text : first.getText(file));
        titles.push(title(name, others.map((one) => one.getText(file)).join()));
        suite = `${name} > `;
      }
    }
    ts.forEachChild(node, (child) => visit(child, suite));
  };
  visit(file, "");
  return titles;
}

/**
 * The tests that these changes of one commit rename, by their old names. The pairs that are most
 * alike go first.
 */
export function renamesIn(changes: readonly Change[]): Map<string, { name: string; hasChanged: boolean }> {
  const before = changes.flatMap((change) => titlesOf(change.path, change.before));
  const after = changes.flatMap((change) => titlesOf(change.path, change.after));
  const added = without(after, before);
  const pairs = without(before, after)
    .flatMap((old) => added.map((current) => ({ old, current, likeness: likeness(old, current) })))
    .filter((pair) => pair.likeness >= LIKENESS)
    .sort((one, other) => other.likeness - one.likeness);
  const renames = new Map<string, { name: string; hasChanged: boolean }>();
  const taken = new Set<string>();
  for (const { old, current } of pairs) {
    if (renames.has(old.name) || taken.has(current.name)) continue;
    renames.set(old.name, { name: current.name, hasChanged: old.body !== current.body });
    taken.add(current.name);
  }
  return renames;
}

function without(titles: readonly Title[], others: readonly Title[]): Title[] {
  const names = new Set(others.map(({ name }) => name));
  return titles.filter(({ name }) => !names.has(name));
}

/**
 * From 0 to 1: the share of words that the bodies have in common. Among equal bodies, the names
 * decide.
 */
function likeness(one: Title, other: Title): number {
  return shareOfWords(one.body, other.body) + shareOfWords(one.name, other.name) / 1000;
}

function shareOfWords(one: string, other: string): number {
  const words = (text: string): string[] => text.match(/\w+/g) ?? [];
  const left = new Map<string, number>();
  for (const word of words(one)) left.set(word, (left.get(word) ?? 0) + 1);
  const shared = words(other).filter((word) => {
    const count = left.get(word) ?? 0;
    left.set(word, count - 1);
    return count > 0;
  });
  return (2 * shared.length) / Math.max(1, words(one).length + words(other).length);
}

interface File {
  readonly path: string;
  readonly before: string;
  readonly after: string;
}

/** What each commit after the base changes in files of tests, oldest commit first. */
function historySince(base: string): Change[][] {
  const log = git(
    ...["log", "--topo-order", "--reverse", "--no-merges", "--raw", "--no-renames", "--no-abbrev"],
    ...["--format=tformat:commit", `${base}..HEAD`],
  );
  const commits: File[][] = [];
  for (const line of log.split("\n")) {
    if (line === "commit") commits.push([]);
    const [, before = "", after = "", path = ""] = /^:\d+ \d+ (\w+) (\w+) \w\t(.*)$/.exec(line) ?? [];
    if (TESTS.test(path)) commits.at(-1)?.push({ path, before, after });
  }
  const text = textsOf(commits.flat().flatMap(({ before, after }) => [before, after]));
  return commits.map((files) =>
    files.map(({ path, before, after }) => ({ path, before: text(before), after: text(after) })),
  );
}

function namesAt(commit: string): Set<string> {
  const files = Array.from(
    git("ls-tree", "-r", commit).matchAll(/^\d+ blob (\w+)\t(.*)$/gm),
    ([, id = "", path = ""]) => ({ id, path }),
  ).filter(({ path }) => TESTS.test(path));
  const text = textsOf(files.map(({ id }) => id));
  return new Set(files.flatMap(({ id, path }) => titlesOf(path, text(id)).map(({ name }) => name)));
}

/** Reads these blobs. The id of zeros, which git gives a file that is not there, has no text. */
function textsOf(ids: readonly string[]): (id: string) => string {
  const asked = [...new Set(ids)].filter((id) => !/^0+$/.test(id));
  const input = asked.map((id) => `${id}\n`).join("");
  const output = execFileSync("git", ["cat-file", "--batch"], { cwd: ROOT, input, maxBuffer: 2 ** 30 });
  const texts = new Map<string, string>();
  for (let at = 0; at < output.length;) {
    const start = output.indexOf("\n", at) + 1;
    const [id = "", , bytes] = output.toString("utf8", at, start - 1).split(" ");
    at = start + Number(bytes) + 1;
    texts.set(id, output.toString("utf8", start, at - 1));
  }
  return (id) => texts.get(id) ?? "";
}

function git(...args: string[]): string {
  return execFileSync("git", args, { cwd: ROOT, encoding: "utf8", maxBuffer: 2 ** 28 });
}

/** Where the subject of each gone test went. A line with # says it for the tests below it. */
function readExplained(): Map<string, string> {
  const explained = new Map<string, string>();
  let where = "";
  for (const line of readFileSync(EXPLAINED, "utf8").split("\n").filter(Boolean))
    if (line.startsWith("# ")) where = line.slice(2);
    else explained.set(line, where);
  return explained;
}

if (import.meta.main) {
  const [base = BASE] = process.argv.slice(2);
  const [before, after] = [namesAt(base), namesAt("HEAD")];
  const explained = readExplained();
  const current = new Map(
    [...before].filter((name) => !after.has(name)).map((name) => [name, { name, hasChanged: false }]),
  );
  for (const changes of historySince(base)) {
    const renames = renamesIn(changes);
    for (const test of current.values()) {
      const rename = renames.get(test.name);
      if (rename === undefined) continue;
      test.name = rename.name;
      test.hasChanged ||= rename.hasChanged;
    }
  }
  const count = { renamed: 0, changed: 0, gone: 0, missing: 0 };
  const say = (kind: keyof typeof count, text: string): void => {
    count[kind] += 1;
    console.log(`${kind}: ${text}`);
  };
  for (const [old, { name, hasChanged }] of current) {
    const where = explained.get(old);
    explained.delete(old);
    if (where !== undefined) say("gone", `${old} → ${where}`);
    else if (after.has(name)) say(hasChanged ? "changed" : "renamed", `${old} → ${name}`);
    else say("missing", old);
  }
  if (base !== BASE) explained.clear();
  for (const name of explained.keys()) console.log(`explains nothing: ${name}`);
  console.log(`${String(before.size)} names at ${base}, ${String(after.size)} now:`, count);
  process.exitCode = count.missing + explained.size > 0 ? 1 : 0;
}
