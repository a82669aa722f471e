// Runs in a worker thread, so that a disk's flush never delays a mark: the ledger file, by SQLite.
import { DatabaseSync } from "node:sqlite";
import { parentPort, workerData } from "node:worker_threads";

export type LedgerOperation = {
  readonly table: "entry" | "epoch" | "mark" | "meta";
  readonly key: string;
  readonly body: string | null;
};

export type LedgerRequest =
  | { readonly kind: "load" }
  | { readonly kind: "write"; readonly operations: readonly LedgerOperation[] }
  | { readonly kind: "close" };

export type LedgerReply =
  | { readonly kind: "loaded"; readonly rows: readonly { table: string; key: string; body: string }[] }
  | { readonly kind: "done" }
  | { readonly kind: "failed"; readonly message: string };

const TABLES = ["entry", "epoch", "mark", "meta"] as const;

const database = new DatabaseSync((workerData as { file: string }).file);
// FULL: an acknowledged announcement is on the disk, not only handed to the system.
database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 2000;");
for (const table of TABLES)
  database.exec(
    `CREATE TABLE IF NOT EXISTS ${table} (key TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID`,
  );
const upserts = new Map(
  TABLES.map((table) => [
    table,
    database.prepare(
      `INSERT INTO ${table} VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET body = excluded.body`,
    ),
  ]),
);
const removals = new Map(
  TABLES.map((table) => [table, database.prepare(`DELETE FROM ${table} WHERE key = ?`)]),
);

function handle(request: LedgerRequest): LedgerReply {
  switch (request.kind) {
    case "load":
      return {
        kind: "loaded",
        rows: TABLES.flatMap((table) =>
          database
            .prepare(`SELECT key, body FROM ${table}`)
            .all()
            .map((row) => ({ table, key: String(row.key), body: String(row.body) })),
        ),
      };
    case "write":
      database.exec("BEGIN");
      try {
        for (const { table, key, body } of request.operations) {
          if (body === null) removals.get(table)?.run(key);
          else upserts.get(table)?.run(key, body);
        }
        database.exec("COMMIT");
      } catch (cause) {
        database.exec("ROLLBACK");
        throw cause;
      }
      return { kind: "done" };
    case "close":
      database.close();
      return { kind: "done" };
  }
}

parentPort?.on("message", (request: LedgerRequest) => {
  let reply: LedgerReply;
  try {
    reply = handle(request);
  } catch (cause) {
    reply = { kind: "failed", message: cause instanceof Error ? cause.message : String(cause) };
  }
  parentPort?.postMessage(reply);
});
