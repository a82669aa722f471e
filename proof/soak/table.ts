// The one table of all scenarios, and what they say of its transactions.

export const LEVEL = "region";
/** Rows that transactions add one to: so many that they seldom meet. */
export const ROWS = 10_000;
/** Of transactions whose webhooks are wanted. */
export const WATCHED = { soak: "watched" };

/** Room on every page for a second version of its rows: updates then touch no index. */
export const SETUP = [
  "CREATE TABLE soak (id int PRIMARY KEY, n int NOT NULL DEFAULT 0) WITH (fillfactor = 50)",
  `INSERT INTO soak (id) SELECT generate_series(1, ${String(ROWS)})`,
  "GRANT SELECT, UPDATE ON soak TO app",
  "VACUUM ANALYZE soak",
] as const;

export const TOTAL = "SELECT sum(n)::text AS total FROM soak";
