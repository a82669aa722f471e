// What an attack is: something a stranger sends, and a look at what it did.
import { type Target } from "./target.ts";

export interface Recipe {
  /** Of docs/security.md. */
  readonly item: string;
  readonly title: string;
  /** It is known to achieve something, and docs/security.md says so. */
  readonly isOpen?: true;
  /** What the attack achieved; null when it was refused or is harmless. */
  run(target: Target): Promise<string | null>;
}
