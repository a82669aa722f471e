// What one client of the load generator does, one job after the other.

/**
 * `rolled_back`: by the application's own decision, as one of a hundred orders in TPC-C; it counts as done.
 */
export type Attempt = "committed" | "conflict" | "rolled_back";

/** Something that begins now and is tried until it has committed or has conflicted too often. */
export interface Job {
  readonly kind: string;
  attempt(): Promise<Attempt>;
}

/** Tells of a step inside a job that is measured for itself. */
export type Note = (kind: string, elapsedMs: number) => void;

export interface Worker {
  next(): Job;
  close(): Promise<void>;
}
