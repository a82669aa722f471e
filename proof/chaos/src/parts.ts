// What a run is made of, and what its parts know of each other: a system under test, a workload, a
// nemesis.
import { type EpochId, type Failure, type Fault, type FinalState, type WrongClock } from "@highwater/checker";

/**
 * A region's services as a client sees them, nearest first; links to other regions are delayed and
 * can be cut.
 */
export interface Endpoint {
  readonly region: string;
  readonly gateway: string;
  readonly tracker: string;
  /** A URL for clients of PostgreSQL; absent where the system has none. */
  readonly postgres?: string;
}

/** A user of services that ask for keys. No other one may see its transactions. */
export interface Owner {
  readonly name: string;
  /** The database's login role of its key. */
  readonly role: string;
  /** With every right. */
  readonly apiKey: string;
}

/** Of services that are not configured otherwise: no run is so long. */
export const USUAL_RETENTION_MS = 86_400_000;

/** What the workload needs of the system. */
export interface Target {
  readonly regions: readonly string[];
  /** Every tracker's own address, past all links. */
  readonly trackers: Readonly<Record<string, string>>;
  /** As seen from a region, by clients that are there. */
  endpoints(from: string): Promise<readonly Endpoint[]>;
  /** How long the services keep receipts. */
  readonly retentionMs: number;
  /**
   * Where services ask for keys. Clients are dealt out to them, and they have endpoints for
   * webhooks on this machine.
   */
  readonly owners?: readonly Owner[];
  /** As superuser on the application's database of a node, past all services. */
  query(node: string, sql: string): Promise<readonly Record<string, unknown>[]>;
}

export interface WorkloadOptions {
  readonly target: Target;
  readonly seed: number;
  /** Where every process writes its part of the history: `*.jsonl`. */
  readonly dir: string;
  /** Weakest first. */
  readonly levels: readonly string[];
  /** Transactions a second of all clients together, about. */
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
  /** No new transactions; resolves when those in flight have their answer. */
  stop(): Promise<void>;
  /**
   * With the system healed: asks for what is unknown, waits for every promise, asks every tracker
   * for its final word, and reads the final state of the node whose history counts. Resolves when
   * all of that is in the history.
   */
  settle(primary: string): Promise<FinalState>;
  /** Ends its processes; also after an error. */
  close(): Promise<void>;
}

/** Which epoch it continues, and where. */
export interface EpochSummary {
  readonly id: EpochId;
  readonly seq: number;
  readonly previous: EpochId | null;
  readonly node: string;
}

/** Where the nemesis writes what it does. */
export interface FaultLog {
  fault(fault: Omit<Fault, "type">): void;
  clock(clock: Omit<WrongClock, "type">): void;
  failure(failure: Omit<Failure, "type">): void;
  /** For the workload, which gives every epoch its place in the final state. */
  epoch(epoch: EpochSummary): void;
}
