// What an attack is: something a stranger sends, and a look at what it did.
import { type Target } from "./target.ts";

export interface Recipe {
  /** Of docs/security.md. */
  readonly item: string;
  readonly title: string;
  /** What the attack achieved; null when it was refused or is harmless. */
  run(target: Target): Promise<string | null>;
}

/** The first of these that is not null. */
export function firstOf(...hits: readonly (string | null)[]): string | null {
  return hits.find((hit) => hit !== null) ?? null;
}
