// Runs in a worker thread, so that a disk's flush never delays a mark: the ledger file, by SQLite.
import { DatabaseSync } from "node:sqlite";
import { parentPort, workerData } from "node:worker_threads";

const TABLES = ["entry", "epoch", "mark", "meta", "outbox"] as const;
export type Table = (typeof TABLES)[number];

export interface LedgerRow {
  readonly table: Table;
  readonly key: string;
  /** Null: the row goes. */
  readonly body: string | null;
}

/** Written in one transaction, in this order. */
export interface LedgerBatch {
  readonly clearsWaiting: boolean;
  /** The waiting at or below this sortable offset go. */
  readonly through: string | null;
  readonly rows: readonly LedgerRow[];
  readonly waiting: readonly { readonly key: string; readonly body: string }[];
}

export type LedgerRequest =
  /** The next rows by key, a bounded number of them; none when there are no more. */
  | { readonly kind: "read"; readonly table: Table | "waiting"; readonly after: string }
  | { readonly kind: "write"; readonly batch: LedgerBatch }
  | { readonly kind: "close" };

export type LedgerReply =
  | { readonly kind: "rows"; readonly rows: readonly { readonly key: string; readonly body: string }[] }
  | { readonly kind: "done" }
  | { readonly kind: "failed"; readonly message: string };

/** Rows in one answer. */
const PART = 10_000;
/** Behind every key of the same offset. */
const AFTER_KEYS = "0";

const database = new DatabaseSync((workerData as { file: string }).file);
// EXCLUSIVE: a second tracker on the same file is refused. FULL: an acknowledged announcement is on the disk, not only
// handed to the system.
database.exec(
  "PRAGMA locking_mode = EXCLUSIVE; PRAGMA busy_timeout = 2000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;",
);
for (const table of [...TABLES, "waiting"])
  database.exec(
    `CREATE TABLE IF NOT EXISTS ${table} (key TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID`,
  );
const upsertInto = (table: string): ReturnType<DatabaseSync["prepare"]> =>
  database.prepare(`INSERT INTO ${table} VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET body = excluded.body`);
const upserts = new Map(TABLES.map((table) => [table, upsertInto(table)]));
const removals = new Map(
  TABLES.map((table) => [table, database.prepare(`DELETE FROM ${table} WHERE key = ?`)]),
);
const addWaiting = upsertInto("waiting");
const removeWaiting = database.prepare("DELETE FROM waiting WHERE key < ?");

const reads = new Map(
  [...TABLES, "waiting" as const].map((table) => [
    table,
    database.prepare(`SELECT key, body FROM ${table} WHERE key > ? ORDER BY key LIMIT ${String(PART)}`),
  ]),
);

function handle(request: LedgerRequest): LedgerReply {
  switch (request.kind) {
    case "read": {
      const rows = reads.get(request.table)?.all(request.after) ?? [];
      return { kind: "rows", rows: rows.map(({ key, body }) => ({ key: String(key), body: String(body) })) };
    }
    case "write":
      database.exec("BEGIN");
      try {
        write(request.batch);
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

function write({ clearsWaiting, through, rows, waiting }: LedgerBatch): void {
  if (clearsWaiting) database.exec("DELETE FROM waiting");
  if (through !== null) removeWaiting.run(through + AFTER_KEYS);
  for (const { table, key, body } of rows) {
    if (body === null) removals.get(table)?.run(key);
    else upserts.get(table)?.run(key, body);
  }
  for (const { key, body } of waiting) addWaiting.run(key, body);
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
