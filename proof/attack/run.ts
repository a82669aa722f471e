// Runs every recipe in turn, and checks after each that the other tenant can still work.
import { eventually } from "@highwater/lab-tools/process";
import { type Recipe } from "./recipe.ts";
import { RECIPES } from "./recipes/index.ts";
import { Target } from "./target.ts";

const AFTERWARDS_MS = 60_000;

export interface Outcome {
  readonly item: string;
  readonly title: string;
  /** What the attack achieved; null when it was refused or harmless. */
  readonly hit: string | null;
}

/** `only`: items; empty for all. Errors: an item without a recipe. */
export function chosen(only: readonly string[]): readonly Recipe[] {
  const unknown = only.filter((item) => !RECIPES.some((recipe) => recipe.item === item));
  if (unknown.length > 0)
    throw new Error(
      `there is no recipe for item ${unknown.join(", ")}: ONLY takes some of ${[...new Set(RECIPES.map(({ item }) => item))].join(",")}`,
    );
  return only.length === 0 ? RECIPES : RECIPES.filter(({ item }) => only.includes(item));
}

/** Runs the recipes against a new system, and those that need one of their own against another. */
export async function attackAll(
  recipes: readonly Recipe[],
  report: (outcome: Outcome) => void,
): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const isAlone of [false, true]) {
    const some = recipes.filter((recipe) => (recipe.isAlone ?? false) === isAlone);
    if (some.length === 0) continue;
    await using target = await Target.start();
    outcomes.push(...(await attack(target, some, report)));
  }
  return outcomes;
}

export async function attack(
  target: Target,
  recipes: readonly Recipe[],
  report: (outcome: Outcome) => void,
): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const recipe of recipes) {
    const outcome = { item: recipe.item, title: recipe.title, hit: await hitOf(target, recipe) };
    outcomes.push(outcome);
    report(outcome);
  }
  return outcomes;
}

/** An attack that broke off proves nothing, so it counts as a hit until someone has looked. */
async function hitOf(target: Target, recipe: Recipe): Promise<string | null> {
  try {
    return (await recipe.run(target)) ?? (await afterwards(target));
  } catch (cause) {
    return `the attack broke off: ${cause instanceof Error ? cause.message : String(cause)}`;
  }
}

/**
 * After any attack, another tenant's safe transaction must commit, if necessary after the attack's
 * failover.
 */
async function afterwards({ other }: Target): Promise<string | null> {
  const commits = (): Promise<unknown> =>
    other.mustCommit("SELECT 1", "INSERT INTO crane.orders VALUES (gen_random_uuid()::text, 'afterwards')");
  try {
    await eventually("another tenant's transaction commits", commits, AFTERWARDS_MS);
    return null;
  } catch (cause) {
    return `another tenant cannot work afterwards: ${String((cause as Error).cause)}`;
  }
}
