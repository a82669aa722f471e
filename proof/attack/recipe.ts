// An attack: a stranger's requests, and a look at their effect.
import { type Target } from "./target.ts";

export interface Recipe {
  /** An item of docs/security.md. */
  readonly item: string;
  readonly title: string;
  /** The attack is known to achieve something, which docs/security.md describes. */
  readonly isOpen?: true;
  /** It needs a system of its own, which it shares with others of this kind. */
  readonly isAlone?: true;
  /** What the attack achieved; null when it was refused or is harmless. */
  run(target: Target): Promise<string | null>;
}
