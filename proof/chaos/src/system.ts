// What a chaos run needs of the system that it runs on and of the nemesis that breaks it; neither knows of the other runs.
import { type FaultLog, type Target } from "./parts.ts";

interface SystemUnderTest {
  readonly target: Target;
  /** Levels that verdicts may name, weakest first. */
  readonly levels: readonly string[];
  /** Files and folders that explain a failure, while the system exists: logs of services and databases. */
  readonly evidence: readonly string[];
  /** Ends everything; also what the nemesis has stopped or cut. */
  close(): Promise<void>;
}

export interface NemesisOptions {
  readonly seed: number;
  readonly log: FaultLog;
  /** One line about what happens now. */
  readonly say: (line: string) => void;
}

export interface Nemesis {
  /** Begins faults until the time is over, and resolves when the last of them has ended. Rejects if it broke what it cannot mend. */
  run(durationMs: number): Promise<void>;
  /** Undoes whatever is left. Resolves with the node whose history counts once every service says that it is ready. */
  heal(): Promise<string>;
}

/** A system together with whoever breaks it. */
export interface Rig {
  readonly system: SystemUnderTest;
  nemesis(options: NemesisOptions): Nemesis;
}
