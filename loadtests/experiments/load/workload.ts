// What a group of clients runs: the papers' single-statement transactions. The data sets are made
// here too, so that both sides of a comparison find the same tables.
import { type Random, whole } from "./random.ts";

/** Which rows an update picks. Without `hot`, uniformly. */
export interface Rows {
  readonly table: string;
  readonly rows: number;
  /**
   * With this probability one of the first rows, otherwise one of all the others: the thesis'
   * contention level.
   */
  readonly hot?: { readonly share: number; readonly rows: number };
}

export type Workload =
  | ({ readonly kind: "update" } & Rows)
  | ({ readonly kind: "read" } & Rows)
  | { readonly kind: "insert"; readonly table: string };

export interface Statement {
  readonly sql: string;
  readonly params: readonly (string | number)[];
}

/** The thesis' test table: keys and values, both integers. */
export function keyValueTable(table: string, rows: number): string[] {
  return [
    // Room on every page for second versions: an update then touches no index, whichever way it
    // comes.
    `CREATE TABLE ${table} (key int PRIMARY KEY, value int NOT NULL DEFAULT 0) WITH (fillfactor = 50)`,
    `INSERT INTO ${table} (key) SELECT generate_series(1, ${String(rows)})`,
  ];
}

/** Without a key: what is measured is the commit, not an index. */
export const insertTable = (table: string): string[] => [`CREATE TABLE ${table} (key int, value int)`];

export function pickRow({ rows, hot }: Rows, random: Random): number {
  if (hot === undefined) return whole(random, 1, rows);
  return random() < hot.share ? whole(random, 1, hot.rows) : whole(random, hot.rows + 1, rows);
}

export function statementOf(workload: Workload, random: Random): Statement {
  switch (workload.kind) {
    case "update":
      return {
        sql: `UPDATE ${workload.table} SET value = value + 1 WHERE key = $1`,
        params: [pickRow(workload, random)],
      };
    case "read":
      return {
        sql: `SELECT value FROM ${workload.table} WHERE key = $1`,
        params: [pickRow(workload, random)],
      };
    case "insert":
      return {
        sql: `INSERT INTO ${workload.table} (key, value) VALUES ($1, $2)`,
        params: [whole(random, 1, 1_000_000), whole(random, 1, 1_000_000)],
      };
  }
}

/**
 * Counts what has changed a table: of an update table the sum of its values, of an insert table its
 * rows.
 */
export function countOf(workload: Workload): string | null {
  if (workload.kind === "read") return null;
  const what = workload.kind === "update" ? "coalesce(sum(value), 0)" : "count(*)";
  return `SELECT ${what}::text AS total FROM ${workload.table}`;
}
