// The table of all scenarios, and the metadata of its transactions.

export const LEVEL = "region";
/** Rows that transactions increment: enough to make conflicts rare. */
export const ROWS = 10_000;
/** Metadata of transactions whose webhooks are received. */
export const WATCHED = { soak: "watched" };

/** Leaves room on every page for a second version of its rows, so that updates touch no index. */
export const SETUP = [
  "CREATE TABLE soak (id int PRIMARY KEY, n int NOT NULL DEFAULT 0) WITH (fillfactor = 50)",
  `INSERT INTO soak (id) SELECT generate_series(1, ${String(ROWS)})`,
  "GRANT SELECT, UPDATE ON soak TO app",
  "VACUUM ANALYZE soak",
] as const;

export const TOTAL = "SELECT sum(n)::text AS total FROM soak";
