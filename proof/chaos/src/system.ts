// The interfaces that a chaos run needs: the system, and the nemesis that breaks it. Neither knows
// the run's other parts.
import { type FaultLog, type Target } from "./parts.ts";

interface SystemUnderTest {
  readonly target: Target;
  /** Levels that verdicts may name, weakest first. */
  readonly levels: readonly string[];
  /**
   * Logs of services and databases that may explain a failure. They exist only as long as the
   * system.
   */
  readonly evidence: readonly string[];
  /** Ends everything, including what the nemesis stopped or cut. */
  close(): Promise<void>;
}

export interface NemesisOptions {
  readonly seed: number;
  readonly log: FaultLog;
  /** Prints one line about what happens now. */
  readonly say: (line: string) => void;
}

export interface Nemesis {
  /**
   * Causes faults until the time is over. Resolves when the last one has ended; rejects if it broke
   * something that it cannot repair.
   */
  run(durationMs: number): Promise<void>;
  /**
   * Undoes all remaining faults. Resolves with the node whose history counts once every service is
   * ready.
   */
  heal(): Promise<string>;
}

/** A system and its nemesis. */
export interface Rig {
  readonly system: SystemUnderTest;
  nemesis(options: NemesisOptions): Nemesis;
}
