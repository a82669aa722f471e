// Lists the names of all tests of a run, or the difference between two runs. A change that moves,
// merges or speeds up tests proves with it that no test is missing.
//   node scripts/test-names.ts BEFORE AFTER [EXPLAINED]
// BEFORE and AFTER are what `run-tests.ts --names=FILE` wrote; for several runs, concatenate the
// files. EXPLAINED lists the names that are rightly missing, one a line, each followed by a tab and
// where it went. Exit code 1: others are missing. test-titles.ts compares sources, without a run.
import { readFileSync } from "node:fs";
import type { EventData } from "node:test";

/**
 * Gathers the names of all tests and suites, each as the names that lead to it, outermost first.
 */
export class TestNames {
  /**
   * A test is reported after those inside it, so they wait here for the name that they stand under.
   */
  readonly #reported: { nesting: number; path: string }[] = [];

  readonly add = ({ name, nesting }: EventData.TestPass | EventData.TestFail): void => {
    for (const inner of this.#reported)
      if (inner.nesting === nesting + 1) {
        inner.nesting = nesting;
        inner.path = `${name} > ${inner.path}`;
      }
    this.#reported.push({ nesting, path: name });
  };

  get lines(): string[] {
    return this.#reported.map(({ path }) => path);
  }
}

export interface Comparison {
  /** Names that are there less often than before, without an explanation. */
  readonly missing: readonly string[];
  readonly explained: readonly string[];
  readonly added: readonly string[];
}

export function compare(
  before: readonly string[],
  after: readonly string[],
  explained: ReadonlySet<string>,
): Comparison {
  const gone = beyond(before, after);
  return {
    missing: gone.filter((name) => !explained.has(name)),
    explained: gone.filter((name) => explained.has(name)),
    added: beyond(after, before),
  };
}

/** What the first list has beyond the second; a name that stands there twice counts twice. */
function beyond(names: readonly string[], others: readonly string[]): string[] {
  const left = new Map<string, number>();
  for (const name of others) left.set(name, (left.get(name) ?? 0) + 1);
  return names.filter((name) => {
    const count = left.get(name) ?? 0;
    left.set(name, count - 1);
    return count <= 0;
  });
}

if (import.meta.main) {
  const [before = [], after = [], explained = []] = process.argv
    .slice(2)
    .map((file) => readFileSync(file, "utf8").split("\n").filter(Boolean));
  const names = new Set(explained.map((line) => line.split("\t")[0] ?? ""));
  const result = compare(before, after, names);
  for (const name of result.missing) console.log(`missing: ${name}`);
  for (const name of result.added) console.log(`added: ${name}`);
  console.log(
    `${String(before.length)} before, ${String(after.length)} after: ${String(result.missing.length)} missing, ` +
      `${String(result.explained.length)} explained, ${String(result.added.length)} added`,
  );
  process.exitCode = result.missing.length === 0 ? 0 : 1;
}
