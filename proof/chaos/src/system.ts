// The interfaces that a chaos run needs: the system, and the nemesis that breaks it. Neither knows
// of the run's other parts.
import { type FaultLog, type Target } from "./parts.ts";

interface SystemUnderTest {
  readonly target: Target;
  /** Levels that verdicts may name, weakest first. */
  readonly levels: readonly string[];
  /**
   * Files and folders that explain a failure, while the system exists: logs of services and
   * databases.
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
   * Causes faults until the time is over, and resolves when the last one has ended. Rejects if it
   * broke something that it cannot repair.
   */
  run(durationMs: number): Promise<void>;
  /**
   * Undoes all faults that are left. Resolves with the node whose history counts once every service
   * is ready.
   */
  heal(): Promise<string>;
}

/** A system and its nemesis. */
export interface Rig {
  readonly system: SystemUnderTest;
  nemesis(options: NemesisOptions): Nemesis;
}
