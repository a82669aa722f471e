// What a scenario is: one kind of trouble, from the first blow until the system is as healthy as it
// was before.
import { type Card } from "./deck.ts";
import { type Random } from "./random.ts";
import { type Resource } from "./turn.ts";
import { type World } from "./world.ts";

export interface Stage {
  readonly world: World;
  readonly random: Random;
  /** Whom it hits, for the record. */
  readonly aim: (target: string) => void;
}

export interface Scenario extends Card {
  /** What it needs for itself. Everything else goes on beside it, faults included. */
  readonly needs: readonly Resource[];
  /** Why it cannot be done on this machine; null if it can. */
  readonly impossible?: (world: World) => Promise<string | null>;
  run(stage: Stage): Promise<void>;
}
