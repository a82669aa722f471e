// The parts of a run, and what they know of each other: a system under test, a workload, a nemesis.
import { type EpochId, type Failure, type Fault, type FinalState, type WrongClock } from "@highwater/checker";

/**
 * A region's services as a client sees them, nearest first. Links to other regions are delayed and
 * can be cut.
 */
export interface Endpoint {
  readonly region: string;
  readonly gateway: string;
  readonly tracker: string;
  /** A URL for clients of PostgreSQL; absent where the system has none. */
  readonly postgres?: string;
}

/** A user of services that require keys. Other owners may not see its transactions. */
export interface Owner {
  readonly name: string;
  /** The database's login role of its key. */
  readonly role: string;
  /** A key with every scope. */
  readonly apiKey: string;
}

/** The default retention of the services, longer than any run. */
export const USUAL_RETENTION_MS = 86_400_000;

/** The workload's view of the system. */
export interface Target {
  readonly regions: readonly string[];
  /** Every tracker's own address, without links. */
  readonly trackers: Readonly<Record<string, string>>;
  /** The endpoints that clients in a region use. */
  endpoints(from: string): Promise<readonly Endpoint[]>;
  /** How long the services keep receipts. */
  readonly retentionMs: number;
  /**
   * Services keep contents: clients have a part of their transactions kept, and an operator brings
   * lost ones back.
   */
  readonly keeps?: boolean;
  /**
   * Set where services require keys. Clients are divided among the owners, and each owner has
   * endpoints for webhooks on this machine.
   */
  readonly owners?: readonly Owner[];
  /** Runs SQL as superuser in the application's database of a node, without services. */
  query(node: string, sql: string): Promise<readonly Record<string, unknown>[]>;
}

export interface WorkloadOptions {
  readonly target: Target;
  readonly seed: number;
  /** The folder in which every process writes its part of the history, as `*.jsonl`. */
  readonly dir: string;
  /** Weakest first. */
  readonly levels: readonly string[];
  /** Approximate number of transactions a second, of all clients together. */
  readonly rate: number;
}

export interface Progress {
  readonly invoked: number;
  readonly committed: number;
  readonly unknown: number;
  readonly lost: number;
}

export interface Workload {
  readonly progress: Progress;
  /** Starts no more transactions. Resolves when those in flight have their answer. */
  stop(): Promise<void>;
  /**
   * After the system is healed: resolves unknown outcomes, waits for every promise, asks every
   * tracker for final verdicts, and reads the final state of the node whose history counts.
   * Resolves when all of that is recorded.
   */
  settle(primary: string): Promise<FinalState>;
  /** Ends its processes, even after an error. */
  close(): Promise<void>;
}

/** An epoch, and the one that it continues. */
export interface EpochSummary {
  readonly id: EpochId;
  readonly seq: number;
  readonly previous: EpochId | null;
  readonly node: string;
}

/** The nemesis's record of its actions. */
export interface FaultLog {
  fault(fault: Omit<Fault, "type">): void;
  clock(clock: Omit<WrongClock, "type">): void;
  failure(failure: Omit<Failure, "type">): void;
  /** For the workload, which puts every epoch into the final state. */
  epoch(epoch: EpochSummary): void;
}
