// A scenario: one kind of fault, from its beginning until the system is as healthy as before.
import { type Card } from "./deck.ts";
import { type Random } from "./random.ts";
import { type Resource } from "./turn.ts";
import { type World } from "./world.ts";

export interface Stage {
  readonly world: World;
  readonly random: Random;
  /** Names the target, for the record. */
  readonly aim: (target: string) => void;
}

export interface Scenario extends Card {
  /** What it needs for itself. Everything else goes on, other faults included. */
  readonly needs: readonly Resource[];
  /** Returns the reason why this machine cannot do it; null if it can. */
  readonly impossible?: (world: World) => Promise<string | null>;
  run(stage: Stage): Promise<void>;
}
