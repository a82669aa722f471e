// The transaction that every client of the benchmark runs, whichever way it reaches the database:
// an update and a read of the same row, or the update alone.

/** So many that 64 clients seldom meet on one. */
const ROWS = 10_000;
export const ISOLATION = "serializable";
export const UPDATE = "UPDATE bench SET n = n + 1 WHERE id = $1";
export const SELECT = "SELECT n FROM bench WHERE id = $1";
/** Of safe transactions: the replica has it. */
export const LEVEL = "zone";

/**
 * Room on every page for a second version of its rows: updates then touch no index, on any of the
 * paths.
 */
export const SETUP = [
  "CREATE TABLE bench (id int PRIMARY KEY, n int NOT NULL DEFAULT 0) WITH (fillfactor = 50)",
  `INSERT INTO bench (id) SELECT generate_series(1, ${String(ROWS)})`,
  "VACUUM ANALYZE bench",
] as const;

export const TOTAL = "SELECT sum(n)::text AS total FROM bench";

export function chooseRow(): string {
  return String(1 + Math.floor(ROWS * Math.random()));
}

/** One way to run the transaction. One client has at most one under way. */
export interface Client {
  /** False: refused for a conflict with another transaction, and nothing was applied. */
  transact(row: string): Promise<boolean>;
  close(): Promise<void>;
}
