// Figures of the project that may only get better. This file measures them; scripts/ratchets.json,
// and nothing else, holds them. `make test` fails when a figure is worse. Other figures are checked
// where they arise: skipped tests by the reporter test-ends.ts, and those of pytest by
// sdk/python/tests/skips.py. If a figure has to get worse, `make ratchet` writes all figures, and a
// reviewer judges the diff of scripts/ratchets.json. If one got better, the test passes and says
// so; `make ratchet` then keeps the gain.
// Usage: node scripts/ratchets.ts [--write]. Exit codes: 0 written, or no figure is worse; 1 one
// is.
import { writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { MUTATIONS } from "@highwater/checker/mutations";
import { MUTANTS } from "@highwater/durability-tracker/mutants";
import { readOptions } from "@highwater/lab-tools/process";
import { build } from "@highwater/sdk/build";
import { sizesOf } from "@highwater/sdk/sizes";
import FIGURES from "./ratchets.json" with { type: "json" };
import { findingsIn, findingsInTest } from "./prose/prose.ts";
import { WORDS } from "./prose/rules.ts";
import { readTree, ROOT } from "./tree.ts";

type Section<T> = Readonly<Record<string, Readonly<Record<string, T>>>>;
type Sections<T> = Readonly<Record<string, Section<T>>>;
/** By section, by the name of what is measured, and by kind. */
export type Figures = Sections<number>;

/**
 * The slack is how far a figure may be exceeded. A fix of a few lines passes with its test, and a
 * renamed variable may change some bytes; neither can add up to more, because the figure stays.
 * Mutants and skips are counted one by one and have none.
 */
const KINDS: Readonly<Record<string, { what: string; slack?: number; isMoreBetter?: boolean }>> = {
  code: { what: "lines of code", slack: 20 },
  minified: { what: "bytes minified", slack: 60 },
  gzip: { what: "bytes minified and packed", slack: 24 },
  words: { what: "words that prose avoids" },
  subject: { what: "sentences that open with a subject clause" },
  long: { what: "sentences that are too long" },
  wide: { what: "lines of prose that are too wide" },
  caught: { what: "mutants caught", isMoreBetter: true },
};

/** Compares the sections that were measured. A name that has no figure counts from zero. */
export function compare(
  measured: Figures,
  figures: Figures = FIGURES,
): { worse: string[]; better: string[] } {
  const worse: string[] = [];
  const better: string[] = [];
  for (const [section, names] of Object.entries(measured))
    for (const name of keysOf(names, figures[section]))
      for (const kind of keysOf(names[name], figures[section]?.[name])) {
        const now = names[name]?.[kind] ?? 0;
        const figure = figures[section]?.[name]?.[kind] ?? 0;
        const { what, slack = 0, isMoreBetter = false } = KINDS[kind] ?? { what: kind };
        const excess = isMoreBetter ? figure - now : now - figure;
        const says = `${name}: ${String(now)} ${what}; the figure is ${String(figure)}`;
        if (excess < 0) better.push(`${says}; make ratchet keeps the gain`);
        if (excess > slack)
          worse.push(`${says}, with a slack of ${String(slack)}: improve it, or run make ratchet for review`);
      }
  return { worse, better };
}

function keysOf(one: object = {}, other: object = {}): Set<string> {
  return new Set([...Object.keys(one), ...Object.keys(other)]);
}

/** Each package, service, SDK and part of the infrastructure counts by itself. */
export function folderOf(path: string): string {
  return /^(?:packages|services|sdk|infra|lab|proof)\/[^/]+(?=\/)|^[^/]+(?=\/)/.exec(path)?.[0] ?? ".";
}

/**
 * What the lines of a file count as. JSON, SVG and lists of requirements do not count: they are
 * data, settings or locks.
 */
export function kindOf(path: string, text: string): "code" | "tests" | "prose" | undefined {
  if (/^\W*Generated\b/.test(text)) return undefined;
  if (path.endsWith(".md")) return "prose";
  if (!/(?:\.(?:[jt]sx?|mjs|py|sql|tf|hcl|sh|ya?ml|toml)|\b(?:Makefile|Dockerfile))$/.test(path))
    return undefined;
  return /(^|\/)(tests?|sim)\/|\.test\.ts$/.test(path) ? "tests" : "code";
}

async function generatedPages(): Promise<Set<string>> {
  const { GENERATED, pathOf } = await import("./reference/pages.ts");
  const { PAGE } = await import("./verify/run.ts");
  return new Set([PAGE, ...GENERATED.map(({ name }) => relative(ROOT, pathOf(name)))]);
}

async function linesOf(tree: ReadonlyMap<string, string>): Promise<Figures[string]> {
  const generated = await generatedPages();
  const lines: Record<string, Record<"code", number>> = {};
  // More tests and more documentation are no loss.
  for (const [path, text] of tree)
    if (!generated.has(path) && kindOf(path, text) === "code")
      (lines[folderOf(path)] ??= { code: 0 }).code += text.match(/\S.*/g)?.length ?? 0;
  return lines;
}

/** Sentences that break a rule of prose: of all pages together, and of each folder's sources. */
export async function proseOf(tree: ReadonlyMap<string, string>): Promise<Section<string[]>> {
  const generated = await generatedPages();
  const prose: Record<string, Record<string, string[]>> = {};
  for (const [path, text] of tree) {
    const kind = kindOf(path, text);
    if (generated.has(path) || kind === undefined || /\.m?jsx?$/.test(path)) continue;
    const rules = (prose[kind === "prose" ? "Markdown" : folderOf(path)] ??= {});
    const find = kind === "tests" ? findingsInTest : findingsIn;
    for (const { rule, line, text: said, write } of find(path, text))
      (rules[rule in WORDS ? "words" : rule] ??= []).push(
        `${path}:${String(line)}: ${rule}: ${said} -- write: ${write}`,
      );
  }
  return prose;
}

async function countProse(tree: ReadonlyMap<string, string>): Promise<Figures[string]> {
  const counts: Record<string, Record<string, number>> = {};
  for (const [name, rules] of Object.entries(await proseOf(tree)))
    for (const [rule, found] of Object.entries(rules)) (counts[name] ??= {})[rule] = found.length;
  return counts;
}

export async function measure(): Promise<Figures> {
  // Tests demand that each one listed is caught.
  const mutants = {
    "the simulation": { caught: MUTANTS.length },
    "the checker of histories": { caught: Object.keys(MUTATIONS).length },
  };
  const tree = readTree();
  return {
    lines: await linesOf(tree),
    mutants,
    prose: await countProse(tree),
    bundles: await measureBundles(),
  };
}

async function measureBundles(): Promise<Figures[string]> {
  const project = await mkdtemp(join(tmpdir(), "highwater-ratchets-"));
  try {
    await build(join(project, "node_modules", "@highwater", "sdk"));
    return await sizesOf(project, Object.keys(FIGURES.bundles));
  } finally {
    await rm(project, { recursive: true, force: true });
  }
}

async function write(measured: Figures): Promise<void> {
  const text = JSON.stringify({ ...FIGURES, ...measured }, null, 2);
  // An object of numbers gets one line.
  const short = text.replaceAll(/\{[^{}]+\}/g, (leaf) => leaf.replaceAll(/\s+/g, " "));
  const path = join(import.meta.dirname, "ratchets.json");
  const { format } = await import("oxfmt");
  writeFileSync(path, (await format(path, short, { printWidth: 110 })).code);
}

if (import.meta.main) {
  const { values } = readOptions(import.meta.filename, {
    options: { write: { type: "boolean", default: false } },
  });
  const measured = await measure();
  const { worse, better } = compare(measured);
  for (const line of [...worse, ...better]) console.log(line);
  if (values.write) await write(measured);
  else if (worse.length > 0) process.exitCode = 1;
}
