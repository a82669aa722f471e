// The file with the contents of kept transactions and the list of what was lost, in SQLite. Beside
// the ledger, and not in it: contents are large, may be refused, and are overwritten when they are
// deleted. They are a log first, and mostly forgotten so. Transactions get rows of their own when
// their epoch has ended or their owner's contents are erased. Keeps the limits; judges nothing and
// opens nothing. (docs/decisions/0249-kept-contents-are-a-log-first.md)
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import {
  type Answered,
  type ContentsState,
  type NotKeptWhy,
  type TxnId,
  txnTimestampMs,
} from "@highwater/protocol";
import { splitSealed } from "@highwater/service/sealed";
import { sortable, unsortable } from "../shell/ledger-codec.ts";
import { type ContentsGroup, type Entry, entryText, readEntries } from "./entries.ts";

export interface ContentsLimits {
  /** Bytes of all contents, and of one owner's. */
  readonly bytes: number;
  readonly bytesPerOwner: number;
}

/** One attempt. The owner is a decimal number. */
export interface AttemptKey {
  readonly owner: string;
  readonly id: string;
  readonly epoch: string;
}

export interface NotKept extends AttemptKey {
  readonly why: NotKeptWhy;
}

export interface PendingContents extends AttemptKey {
  readonly offset: string;
}

export interface LostRow extends AttemptKey {
  readonly atMs: number;
  /** TransactionEventData as JSON. */
  readonly data: string;
}

export interface ListedLost extends LostRow {
  readonly n: number;
  readonly answered: Answered;
  readonly contents: ContentsState;
}

export interface LostQuestion {
  /** Null: of all owners. */
  readonly owner: string | null;
  readonly after: number;
  readonly limit: number;
  readonly sinceMs: number;
  readonly id: string | null;
  readonly contents: ContentsState | null;
  readonly answered: Answered | null;
}

/** Of one attempt: what ContentsKeys can open. */
export interface SealedContents {
  readonly offset: string;
  readonly wrapped: Uint8Array;
  readonly body: Uint8Array;
}

export interface ContentsTotals {
  readonly transactions: number;
  readonly bytes: number;
}

interface DataKey {
  readonly n: number;
  readonly wrapped: Uint8Array;
}

const VERSION = 2;
/** What a row takes beside its contents. */
const ROW_BYTES = 256;
/** The log of an ended epoch is read in parts, between which the file does other work. */
const UNPACKED_CHARS = 512 * 1_024;
const PENDING_MAX = 1_000;
/** Whose data keys are remembered. */
const OWNERS_MAX = 10_000;

/** Since version 2. `place`: see `sortable`. */
const LOG = `
CREATE TABLE log (n INTEGER PRIMARY KEY AUTOINCREMENT, epoch TEXT NOT NULL, owner TEXT NOT NULL, place TEXT NOT NULL,
  transactions INTEGER NOT NULL, bytes INTEGER NOT NULL, entries TEXT NOT NULL);
CREATE INDEX log_place ON log (epoch, place);
CREATE INDEX log_epoch ON log (epoch);
PRAGMA user_version = ${String(VERSION)};`;

const SCHEMA = `
CREATE TABLE data_key (n INTEGER PRIMARY KEY, owner TEXT NOT NULL, wrapped BLOB NOT NULL, UNIQUE (owner, wrapped));
CREATE TABLE kept (owner TEXT NOT NULL, id TEXT NOT NULL, epoch TEXT NOT NULL, place TEXT NOT NULL, data_key INTEGER, body BLOB,
  bytes INTEGER NOT NULL, state TEXT NOT NULL, answered TEXT NOT NULL DEFAULT 'unknown', PRIMARY KEY (owner, id, epoch));
CREATE INDEX kept_place ON kept (epoch, place);
CREATE TABLE lost (n INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, id TEXT NOT NULL, epoch TEXT NOT NULL, at_ms INTEGER NOT NULL,
  data TEXT NOT NULL, UNIQUE (owner, id, epoch));
CREATE TABLE erasure (owner TEXT PRIMARY KEY, through_ms INTEGER NOT NULL);${LOG}`;

const IS_LOST =
  "EXISTS (SELECT 1 FROM lost l WHERE l.owner = kept.owner AND l.id = kept.id AND l.epoch = kept.epoch)";

const SQL = {
  addKey: "INSERT INTO data_key (owner, wrapped) VALUES (?, ?) ON CONFLICT DO NOTHING",
  findKey: "SELECT n FROM data_key WHERE owner = ? AND wrapped = ?",
  known: "SELECT state FROM kept WHERE owner = ? AND id = ? AND epoch = ?",
  log: "INSERT INTO log (epoch, owner, place, transactions, bytes, entries) VALUES (?, ?, ?, ?, ?, ?)",
  forgetLog: "DELETE FROM log WHERE epoch = ? AND place <= ? RETURNING owner, transactions, bytes",
  ofEpoch: "SELECT n, epoch, owner, entries FROM log WHERE epoch = ? ORDER BY n LIMIT 1",
  ofOwner: "SELECT n, epoch, owner, entries FROM log WHERE owner = ? ORDER BY n LIMIT 1",
  dropLog: "DELETE FROM log WHERE n = ? RETURNING owner, transactions, bytes",
  logSums:
    "SELECT epoch, owner, sum(transactions) AS transactions, sum(bytes) AS bytes FROM log GROUP BY epoch, owner",
  places:
    "SELECT epoch, max(place) AS place FROM (SELECT epoch, place FROM log UNION ALL SELECT epoch, place FROM kept) GROUP BY epoch",
  refuse:
    "INSERT INTO kept (owner, id, epoch, place, bytes, state) VALUES (?, ?, ?, ?, 0, ?) ON CONFLICT DO NOTHING",
  /** What came first stays, unless there was no room for it. */
  add: `INSERT INTO kept (owner, id, epoch, place, data_key, body, bytes, state) VALUES (?, ?, ?, ?, ?, ?, ?, 'kept')
    ON CONFLICT (owner, id, epoch) DO UPDATE SET place = excluded.place, data_key = excluded.data_key, body = excluded.body,
      bytes = excluded.bytes, state = 'kept' WHERE state = 'over_limit'`,
  answered: "UPDATE kept SET answered = ? WHERE owner = ? AND id = ? AND epoch = ?",
  erasures: "SELECT owner, through_ms FROM erasure",
  forgetThrough: `DELETE FROM kept WHERE epoch = ? AND place <= ? AND NOT ${IS_LOST} RETURNING owner, bytes`,
  forget: "DELETE FROM kept WHERE owner = ? AND id = ? AND epoch = ? RETURNING owner, bytes",
  /** ?1: the epoch whose marks decide. */
  pending: `SELECT owner, id, epoch, place FROM kept WHERE epoch <> ? AND NOT ${IS_LOST} AND (epoch, owner, id) > (?, ?, ?)
    ORDER BY epoch, owner, id LIMIT ${String(PENDING_MAX)}`,
  lose: `INSERT INTO lost (owner, id, epoch, at_ms, data) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (owner, id, epoch) DO UPDATE SET data = excluded.data`,
  list: `SELECT l.n, l.owner, l.id, l.epoch, l.at_ms, l.data, coalesce(k.answered, 'unknown') AS answered, coalesce(k.state, 'not_kept') AS state
    FROM lost l LEFT JOIN kept k ON k.owner = l.owner AND k.id = l.id AND k.epoch = l.epoch
    WHERE l.at_ms >= :since`,
  sealed: `SELECT k.place, d.wrapped, k.body FROM kept k JOIN data_key d ON d.n = k.data_key
    WHERE k.owner = ? AND k.id = ? AND k.epoch = ?`,
  erase: `UPDATE kept SET state = 'erased', body = NULL, data_key = NULL, bytes = 0 WHERE owner = ? AND state = 'kept' RETURNING id`,
  destroyKeys: "DELETE FROM data_key WHERE owner = ?",
  mark: `INSERT INTO erasure (owner, through_ms) VALUES (?, ?)
    ON CONFLICT (owner) DO UPDATE SET through_ms = max(through_ms, excluded.through_ms)`,
  expireKept: `DELETE FROM kept WHERE EXISTS (SELECT 1 FROM lost l
    WHERE l.owner = kept.owner AND l.id = kept.id AND l.epoch = kept.epoch AND l.at_ms < ?) RETURNING owner, bytes`,
  expireLost: "DELETE FROM lost WHERE at_ms < ?",
  dropKeys: "DELETE FROM data_key WHERE n NOT IN (SELECT data_key FROM kept WHERE data_key IS NOT NULL)",
  sums: "SELECT owner, count(*) AS transactions, sum(bytes) AS bytes FROM kept GROUP BY owner",
} as const;

/** What a list may be narrowed to. In statements of their own: an index serves no `IS NULL OR`. */
const ONLY = {
  owner: "l.owner = :owner",
  id: "l.id = :id",
  contents: "coalesce(k.state, 'not_kept') = :contents",
  answered: "coalesce(k.answered, 'unknown') = :answered",
} as const;

export function listStatement(question: LostQuestion): {
  sql: string;
  values: Record<string, SQLInputValue>;
} {
  const { after, limit, sinceMs } = question;
  let sql: string = SQL.list;
  const values: Record<string, SQLInputValue> = { after, limit, since: sinceMs };
  for (const name of ["owner", "id", "contents", "answered"] as const) {
    const value = question[name];
    if (value === null) continue;
    sql += ` AND ${ONLY[name]}`;
    values[name] = value;
  }
  // The sign: of few rows with the id, and not of all in their order.
  const n = question.id === null ? "l.n" : "+l.n";
  return { sql: `${sql} AND ${n} > :after ORDER BY ${n} LIMIT :limit`, values };
}

export class ContentsDatabase {
  readonly #database: DatabaseSync;
  readonly #limits: ContentsLimits;
  readonly #statements = new Map<string, StatementSync>();
  readonly #bytesOf = new Map<string, number>();
  /** As the file has them: asking it for each transaction costs more than its row. */
  readonly #erasedThrough = new Map<string, number>();
  readonly #dataKeys = new Map<string, DataKey>();
  /** The epochs of the log. */
  readonly #logged = new Set<string>();
  /** By epoch, behind the positions of all its contents. */
  readonly #places = new Map<string, string>();
  #bytes = 0;
  #transactions = 0;

  /** Opens the file. Throws if it is in use, or is no such file. */
  constructor(file: string, limits: ContentsLimits) {
    const database = new DatabaseSync(file);
    this.#database = database;
    this.#limits = limits;
    try {
      // `secure_delete` overwrites what is deleted: else an erasure would leave data keys behind.
      database.exec(
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA busy_timeout = 2000; PRAGMA secure_delete = ON; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;",
      );
      const [{ tables } = { tables: 0 }] = this.#ask("SELECT count(*) AS tables FROM sqlite_master");
      if (tables === 0) database.exec(`BEGIN; ${SCHEMA} COMMIT;`);
      const [{ version } = { version: null }] = this.#ask(
        "SELECT user_version AS version FROM pragma_user_version",
      );
      if (version === 1) database.exec(`BEGIN; ${LOG} COMMIT;`);
      else if (version !== VERSION)
        throw new Error(
          `the file is of version ${String(version)}, and this tracker reads version ${String(VERSION)}`,
        );
      // Files of this version may lack it.
      database.exec("CREATE INDEX IF NOT EXISTS lost_owner ON lost (owner, n)");
    } catch (cause) {
      database.close();
      throw cause;
    }
    this.#recount();
  }

  #recount(): void {
    [this.#bytes, this.#transactions] = [0, 0];
    for (const each of [this.#bytesOf, this.#erasedThrough, this.#dataKeys, this.#logged, this.#places])
      each.clear();
    for (const row of this.#ask(SQL.erasures))
      this.#erasedThrough.set(String(row["owner"]), Number(row["through_ms"]));
    for (const row of this.#ask(SQL.places)) this.#places.set(String(row["epoch"]), String(row["place"]));
    for (const row of this.#ask(SQL.sums)) this.#count(row, 1);
    for (const row of this.#ask(SQL.logSums)) {
      this.#logged.add(String(row["epoch"]));
      this.#count(row, 1);
    }
  }

  get totals(): ContentsTotals {
    return { transactions: this.#transactions, bytes: this.#bytes };
  }

  /** Takes all of them in one transaction. Returns those whose contents are not kept. */
  take(groups: readonly ContentsGroup[]): NotKept[] {
    return this.#transact(() => groups.flatMap((group) => this.#takeGroup(group)));
  }

  #takeGroup(group: ContentsGroup): NotKept[] {
    const { owner } = group;
    if (!this.#erasedThrough.has(owner) && this.#hasRoom(owner, bytesOf(group.entries))) {
      this.#log(group);
      return [];
    }
    const notKept: NotKept[] = [];
    let [entries, transactions] = ["", 0];
    for (const entry of readEntries(group.entries)) {
      const text = entryText(entry);
      if (entry.kind === "contents") {
        const why = this.#whyNot(owner, entry.id, bytesOf(entries + text));
        if (why !== null) {
          const known = this.#refuse(group, entry, why);
          if (known !== "kept") notKept.push({ owner, epoch: group.epoch, id: entry.id, why: known });
          continue;
        }
        transactions++;
      }
      entries += text;
    }
    if (entries !== "") this.#log({ ...group, transactions, entries });
    return notKept;
  }

  #log({ owner, epoch, transactions, place, entries }: ContentsGroup): void {
    const bytes = bytesOf(entries);
    this.#run(SQL.log, epoch, owner, this.#placeOf(epoch, place), transactions, bytes, entries);
    this.#logged.add(epoch);
    this.#count({ owner, transactions, bytes }, 1);
  }

  /** Nothing goes before what came earlier. So an answer stays as long as its contents. */
  #placeOf(epoch: string, own: string): string {
    const known = this.#places.get(epoch) ?? "";
    if (own <= known) return known;
    this.#places.set(epoch, own);
    return own;
  }

  #whyNot(owner: string, id: string, bytes: number): NotKeptWhy | null {
    if (this.isErased(owner, txnTimestampMs(id as TxnId))) return "erased";
    return this.#hasRoom(owner, bytes) ? null : "over_limit";
  }

  /** Keeps why, for the list of what was lost. Returns what is known of them already, or why. */
  #refuse(
    { owner, epoch }: ContentsGroup,
    { id, offset }: Extract<Entry, { kind: "contents" }>,
    why: NotKeptWhy,
  ): NotKeptWhy | "kept" {
    if (this.#run(SQL.refuse, owner, id, epoch, this.#placeOf(epoch, sortable(offset)), why) > 0) {
      this.#transactions++;
      return why;
    }
    // It was sent again, because the answer did not arrive.
    return this.#ask(SQL.known, owner, id, epoch)[0]?.["state"] as NotKeptWhy | "kept";
  }

  /**
   * Gives some of the log's transactions rows of their own: of epochs other than this, which have
   * ended. Returns whether there are more.
   */
  unpackElsewhere(epoch: string): boolean {
    for (const other of [...this.#logged].filter((each) => each !== epoch)) {
      if (this.#unpack(SQL.ofEpoch, other, UNPACKED_CHARS)) return true;
      this.#logged.delete(other);
    }
    return false;
  }

  /** Returns false if none is left. */
  #unpack(sql: string, which: string, mostChars: number): boolean {
    return this.#transact(() => {
      for (let chars = 0; chars < mostChars;) {
        const [row] = this.#ask(sql, which);
        if (row === undefined) return false;
        this.#giveRows(row);
        chars += String(row["entries"]).length;
      }
      return true;
    });
  }

  #giveRows(row: Row): void {
    const [owner, epoch] = [String(row["owner"]), String(row["epoch"])];
    for (const entry of readEntries(String(row["entries"])))
      if (entry.kind === "answered") this.#run(SQL.answered, entry.answered, owner, entry.id, epoch);
      else this.#giveRow(owner, epoch, entry);
    for (const dropped of this.#ask(SQL.dropLog, Number(row["n"]))) this.#count(dropped, -1);
  }

  #giveRow(owner: string, epoch: string, { id, offset, sealed }: Extract<Entry, { kind: "contents" }>): void {
    const { wrapped, body } = splitSealed(Buffer.from(sealed, "base64url"));
    const isKnown = this.#ask(SQL.known, owner, id, epoch).length > 0;
    const bytes = body.length + ROW_BYTES;
    const key = this.#keyOf(owner, wrapped);
    if (this.#run(SQL.add, owner, id, epoch, sortable(offset), key, body, bytes) > 0)
      this.#count({ owner, transactions: isKnown ? 0 : 1, bytes }, 1);
  }

  /** Remembers the last one of each owner, which its next transactions have, too. */
  #keyOf(owner: string, wrapped: Uint8Array): number {
    const known = this.#dataKeys.get(owner);
    if (known !== undefined && Buffer.compare(known.wrapped, wrapped) === 0) return known.n;
    this.#run(SQL.addKey, owner, wrapped);
    const n = Number(this.#ask(SQL.findKey, owner, wrapped)[0]?.["n"]);
    if (this.#dataKeys.size >= OWNERS_MAX) this.#dataKeys.clear();
    this.#dataKeys.set(owner, { n, wrapped: wrapped.slice() });
    return n;
  }

  #hasRoom(owner: string, bytes: number): boolean {
    const { bytes: all, bytesPerOwner } = this.#limits;
    return this.#bytes + bytes <= all && (this.#bytesOf.get(owner) ?? 0) + bytes <= bytesPerOwner;
  }

  /** Adds what the row says, or (-1) takes it away. */
  #count(row: Row, sign: 1 | -1): void {
    const owner = String(row["owner"]);
    const bytes = sign * Number(row["bytes"]);
    this.#transactions += sign * Number(row["transactions"] ?? 1);
    this.#bytes += bytes;
    const left = (this.#bytesOf.get(owner) ?? 0) + bytes;
    if (left > 0) this.#bytesOf.set(owner, left);
    else this.#bytesOf.delete(owner);
  }

  #forgotten(rows: readonly Row[]): void {
    for (const row of rows) this.#count(row, -1);
  }

  /** Forgets everything of the epoch up to the offset, except what was lost. */
  forgetThrough(epoch: string, offset: string): void {
    this.#transact(() => {
      for (const sql of [SQL.forgetLog, SQL.forgetThrough])
        this.#forgotten(this.#ask(sql, epoch, sortable(offset)));
    });
  }

  forget(attempts: readonly AttemptKey[]): void {
    this.#transact(() => {
      for (const { owner, id, epoch } of attempts) this.#forgotten(this.#ask(SQL.forget, owner, id, epoch));
    });
  }

  /**
   * Contents of other epochs than this that are not known to be lost, behind the given one and in a
   * fixed order; a bounded number of them, and none when there are no more. Only those with rows.
   */
  pendingElsewhere(epoch: string, after: AttemptKey | null): PendingContents[] {
    const from = after ?? { epoch: "", owner: "", id: "" };
    return this.#ask(SQL.pending, epoch, from.epoch, from.owner, from.id).map((row) => ({
      ...keyOf(row),
      offset: unsortable(String(row["place"])),
    }));
  }

  /** Lists them as lost. One that is listed already keeps its place and time. */
  lose(rows: readonly LostRow[]): void {
    this.#transact(() => {
      for (const { owner, id, epoch, atMs, data } of rows) this.#run(SQL.lose, owner, id, epoch, atMs, data);
    });
  }

  list(question: LostQuestion): ListedLost[] {
    const { sql, values } = listStatement(question);
    const rows = this.#prepare(sql).all(values);
    return rows.map((row) => ({
      ...keyOf(row),
      n: Number(row["n"]),
      atMs: Number(row["at_ms"]),
      data: String(row["data"]),
      answered: row["answered"] as Answered,
      contents: row["state"] as ContentsState,
    }));
  }

  /** Null: there are none. */
  sealed({ owner, id, epoch }: AttemptKey): SealedContents | null {
    const [row] = this.#ask(SQL.sealed, owner, id, epoch);
    if (row === undefined) return null;
    return {
      offset: unsortable(String(row["place"])),
      wrapped: row["wrapped"] as Uint8Array,
      body: row["body"] as Uint8Array,
    };
  }

  /**
   * Destroys the owner's data keys and contents, and refuses contents of ids up to the time from
   * now on. Returns of how many transactions there were any.
   */
  erase(owner: string, throughMs: number): number {
    while (this.#unpack(SQL.ofOwner, owner, UNPACKED_CHARS));
    const erased = this.#transact(() => {
      this.#run(SQL.mark, owner, throughMs);
      this.#erasedThrough.set(owner, Math.max(throughMs, this.#erasedThrough.get(owner) ?? throughMs));
      this.#dataKeys.delete(owner);
      const rows = this.#ask(SQL.erase, owner);
      this.#run(SQL.destroyKeys, owner);
      return rows.length;
    });
    this.#count({ owner, transactions: 0, bytes: this.#bytesOf.get(owner) ?? 0 }, -1);
    // The log beside the file still has what was overwritten.
    this.#database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    return erased;
  }

  /** True if contents of the owner's ids up to the time are refused already. */
  isErased(owner: string, throughMs: number): boolean {
    return (this.#erasedThrough.get(owner) ?? -1) >= throughMs;
  }

  /** Forgets what was lost before the time. */
  expire(beforeMs: number): void {
    this.#transact(() => {
      this.#forgotten(this.#ask(SQL.expireKept, beforeMs));
      this.#run(SQL.expireLost, beforeMs);
      this.#run(SQL.dropKeys);
      this.#dataKeys.clear();
    });
  }

  #prepare(sql: string): StatementSync {
    let statement = this.#statements.get(sql);
    if (statement === undefined) this.#statements.set(sql, (statement = this.#database.prepare(sql)));
    return statement;
  }

  #ask(sql: string, ...values: SQLInputValue[]): Row[] {
    return this.#prepare(sql).all(...values);
  }

  /** Returns how many rows it changed. */
  #run(sql: string, ...values: SQLInputValue[]): number {
    return Number(this.#prepare(sql).run(...values).changes);
  }

  #transact<T>(work: () => T): T {
    this.#database.exec("BEGIN");
    try {
      const result = work();
      this.#database.exec("COMMIT");
      return result;
    } catch (cause) {
      this.#database.exec("ROLLBACK");
      this.#recount();
      throw cause;
    }
  }

  close(): void {
    this.#database.close();
  }
}

type Row = Record<string, unknown>;

function bytesOf(entries: string): number {
  return entries.length + ROW_BYTES;
}

function keyOf(row: Row): AttemptKey {
  return { owner: String(row["owner"]), id: String(row["id"]), epoch: String(row["epoch"]) };
}
