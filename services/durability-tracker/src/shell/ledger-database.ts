// The ledger's file in SQLite. It gives back what was written: SQLite detects a torn write, but
// neither a bit that flipped in a row nor a table whose name is lost. An incomplete ledger would
// forget promises, so it is refused as a whole.
import { closeSync, openSync, readSync, statSync } from "node:fs";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { crc32 } from "node:zlib";

const TABLES = ["entry", "epoch", "mark", "meta", "outbox"] as const;
const ALL_TABLES = [...TABLES, "waiting"] as const;
export type Table = (typeof TABLES)[number];
export type AnyTable = (typeof ALL_TABLES)[number];

export interface LedgerRow {
  readonly table: Table;
  readonly key: string;
  /** Null: the row is deleted. */
  readonly body: string | null;
}

/** Written in one transaction, in this order. */
export interface LedgerBatch {
  readonly clearsWaiting: boolean;
  /** Waiting attempts at or below this sortable offset are deleted. */
  readonly through: string | null;
  readonly rows: readonly LedgerRow[];
  readonly waiting: readonly { readonly key: string; readonly body: string }[];
}

/** A row as its reader knows it. */
export interface KeptRow {
  readonly key: string;
  readonly body: string;
}

/** Rows in one answer. */
const PART = 10_000;
/** Behind every key of the same offset. */
const AFTER_KEYS = "0";
/**
 * Since version 1 rows begin with their sum, since 2 keys name owners by tags of 128 bits, and
 * since 3 entries have the glossary's names.
 */
const VERSION = 3;
const SUM_CHARS = 8;

const schemaOf = (table: string): string =>
  `CREATE TABLE ${table} (key TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID`;

export class LedgerDatabase {
  readonly #database: DatabaseSync;
  readonly #upserts: ReadonlyMap<AnyTable, StatementSync>;
  readonly #removals: ReadonlyMap<AnyTable, StatementSync>;
  readonly #reads: ReadonlyMap<AnyTable, StatementSync>;
  readonly #removeWaiting: StatementSync;

  /** Opens the file. Throws if it is in use, or is not as a ledger left it. */
  constructor(file: string) {
    assertHead(file);
    const database = new DatabaseSync(file);
    this.#database = database;
    try {
      // EXCLUSIVE: a second tracker on the same file is refused. FULL: an acknowledged announcement
      // is on the disk, not only handed to the system.
      database.exec(
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA busy_timeout = 2000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;",
      );
      this.#prepareTables();
    } catch (cause) {
      database.close();
      throw cause;
    }
    const each = (sqlOf: (table: AnyTable) => string): ReadonlyMap<AnyTable, StatementSync> =>
      new Map(ALL_TABLES.map((table) => [table, database.prepare(sqlOf(table))]));
    this.#upserts = each(
      (table) => `INSERT INTO ${table} VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET body = excluded.body`,
    );
    this.#removals = each((table) => `DELETE FROM ${table} WHERE key = ?`);
    this.#reads = each(
      (table) => `SELECT key, body FROM ${table} WHERE key > ? ORDER BY key LIMIT ${String(PART)}`,
    );
    this.#removeWaiting = database.prepare("DELETE FROM waiting WHERE key < ?");
  }

  #prepareTables(): void {
    const database = this.#database;
    const found = database.prepare("SELECT name, sql FROM sqlite_master").all();
    if (found.length === 0) {
      this.#transact(() => {
        for (const table of ALL_TABLES) database.exec(schemaOf(table));
        database.exec(`PRAGMA user_version = ${String(VERSION)}`);
      });
      return;
    }
    const tables = new Map(found.map(({ name, sql }) => [name, sql]));
    const isLedger = ALL_TABLES.every((table) => tables.get(table) === schemaOf(table));
    if (!isLedger || tables.size !== ALL_TABLES.length)
      throw new Error("the file is not a ledger's, or damaged");
    const [state] = database.prepare("PRAGMA quick_check(1)").all();
    if (state?.["quick_check"] !== "ok")
      throw new Error(`the file is damaged: ${String(state?.["quick_check"])}`);
    const version = database.prepare("PRAGMA user_version").get()?.["user_version"];
    if (version !== VERSION)
      throw new Error(
        `the file is of version ${String(version)}, and this tracker reads version ${String(VERSION)}: start it on an empty data folder, once every transaction that the file holds is durable`,
      );
  }

  /**
   * Returns the next rows by key, up to a maximum; none when there are no more. Throws if one is
   * damaged.
   */
  read(table: AnyTable, after: string): KeptRow[] {
    const rows = this.#reads.get(table)?.all(after) ?? [];
    let before = after;
    return rows.map((found) => {
      const row = { key: String(found["key"]), body: String(found["body"]) };
      const body = unsummed(table, row);
      // Out of order, or again: a part of the file lies in the place of another one, whose rows are
      // gone. (Keys are ASCII.)
      if (body === null || row.key <= before) throw new Error(`a row of ${table} is damaged`);
      before = row.key;
      return { key: row.key, body };
    });
  }

  write({ clearsWaiting, through, rows, waiting }: LedgerBatch): void {
    this.#transact(() => {
      if (clearsWaiting) this.#database.exec("DELETE FROM waiting");
      if (through !== null) this.#removeWaiting.run(through + AFTER_KEYS);
      for (const { table, key, body } of rows) {
        if (body === null) this.#removals.get(table)?.run(key);
        else this.#upserts.get(table)?.run(key, summed(table, { key, body }));
      }
      for (const row of waiting) this.#upserts.get("waiting")?.run(row.key, summed("waiting", row));
    });
  }

  #transact(work: () => void): void {
    this.#database.exec("BEGIN");
    try {
      work();
      this.#database.exec("COMMIT");
    } catch (cause) {
      this.#database.exec("ROLLBACK");
      throw cause;
    }
  }

  close(): void {
    this.#database.close();
  }
}

/**
 * Refuses a file with a damaged first page. If SQLite finds no page, it begins a new database and
 * deletes the log beside it. If the first page says that there is no log, SQLite ignores the log.
 * Either would lose part of the ledger.
 */
function assertHead(file: string): void {
  const isLogged = sizeOf(`${file}-wal`) > 0;
  const size = sizeOf(file);
  if (size === 0 && !isLogged) return;
  const head = readHead(file);
  if (head.length < HEAD_BYTES || head.subarray(...FORMAT_AT).some((version) => version !== LOGGED))
    throw new Error("the file is not a ledger's, or damaged");
}

/**
 * Where a SQLite file says how it is written and read (its format, section 1.3.4), and what it says
 * with a log.
 */
const HEAD_BYTES = 100;
const FORMAT_AT = [18, 20] as const;
const LOGGED = 2;

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

function readHead(file: string): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  const handle = openSync(file, "r");
  try {
    return head.subarray(0, readSync(handle, head, 0, HEAD_BYTES, 0));
  } finally {
    closeSync(handle);
  }
}

function sumOf(table: AnyTable, { key, body }: KeptRow): string {
  return crc32(`${table}/${key}/${body}`).toString(16).padStart(SUM_CHARS, "0");
}

function summed(table: AnyTable, row: KeptRow): string {
  return sumOf(table, row) + row.body;
}

/** Returns the row without its sum, or null if the sum is wrong. */
function unsummed(table: AnyTable, { key, body: text }: KeptRow): string | null {
  const body = text.slice(SUM_CHARS);
  return text.slice(0, SUM_CHARS) === sumOf(table, { key, body }) ? body : null;
}
