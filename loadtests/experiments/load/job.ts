// The work of one client of the load generator, one job after the other.

/**
 * `rolled_back`: by the application's own decision, as one of a hundred orders in TPC-C; it counts
 * as done.
 */
export type Attempt = "committed" | "conflict" | "rolled_back";

/** A job that begins now and is tried until it has committed or has conflicted too often. */
export interface Job {
  readonly kind: string;
  attempt(): Promise<Attempt>;
}

/** Reports a step inside a job that is measured separately. */
export type Note = (kind: string, elapsedMs: number) => void;

export interface Worker {
  next(): Job;
  close(): Promise<void>;
}
