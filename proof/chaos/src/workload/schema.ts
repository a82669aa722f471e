// The application's tables, and the statements of each operation. Rows name the transaction that
// wrote them.
import { type Operation, type Shown, type TxnId } from "@highwater/checker";

export const ACCOUNTS = 12;
export const BALANCE = 1_000;

/** Rows that every client writes to; the others are its own. */
export const SHARED_ROWS: readonly string[] = Array.from(
  { length: 120 },
  (_, at) => `c4a05000-0000-4000-8000-${String(at).padStart(12, "0")}`,
);

export interface Statement {
  readonly sql: string;
  readonly params?: readonly (string | number)[];
}

/** Text values by row and column, as answers contain them. */
export type Values = readonly (readonly (string | null)[])[];

export const CREATE_TABLES: readonly Statement[] = [
  { sql: "CREATE TABLE chaos_list (key text PRIMARY KEY, list int8[] NOT NULL, txn uuid NOT NULL)" },
  { sql: "CREATE TABLE chaos_account (id int PRIMARY KEY, balance int8 NOT NULL)" },
  // Neither table has a key, so that duplicates stay visible.
  {
    sql: "CREATE TABLE chaos_transfer (txn uuid NOT NULL, source int NOT NULL, target int NOT NULL, amount int8 NOT NULL)",
  },
  { sql: "CREATE TABLE chaos_set (value int8 NOT NULL, txn uuid NOT NULL)" },
  { sql: "CREATE TABLE chaos_row (id uuid PRIMARY KEY, count int8 NOT NULL, log int8[] NOT NULL)" },
  {
    sql: `INSERT INTO chaos_account SELECT id, ${String(BALANCE)} FROM generate_series(0, ${String(ACCOUNTS - 1)}) AS id`,
  },
  { sql: `INSERT INTO chaos_row VALUES ${SHARED_ROWS.map((id) => `('${id}', 0, '{}')`).join(", ")}` },
];

/** Reads everything that was written, each as one JSON text. */
export const FINAL_QUERIES = {
  lists: "SELECT coalesce(json_object_agg(key, list), '{}')::text AS data FROM chaos_list",
  balances: "SELECT coalesce(json_agg(balance ORDER BY id), '[]')::text AS data FROM chaos_account",
  inserted: "SELECT coalesce(json_agg(value ORDER BY value), '[]')::text AS data FROM chaos_set",
  transfers: `SELECT coalesce(json_agg(json_build_object('txn', txn, 'from', source, 'to', target, 'amount', amount)), '[]')::text AS data
    FROM chaos_transfer`,
  rows: `SELECT coalesce(json_agg(json_build_object('key', id, 'count', count, 'log', log)), '[]')::text AS data
    FROM chaos_row`,
  redone:
    "SELECT coalesce(json_agg(json_build_object('root', root, 'txn', id)), '[]')::text AS data FROM highwater.redo",
  receipts: `SELECT coalesce(json_agg(json_build_object('txn', id, 'kind', kind, 'epoch', epoch)), '[]')::text AS data
    FROM highwater.receipt`,
  /** Read after the receipts: one that expires in between counts as expired but present. */
  expiry: `SELECT json_build_object('expiredBeforeMs', extract(epoch FROM expired_before) * 1000, 'readAtMs', extract(epoch FROM clock_timestamp()) * 1000)::text AS data
    FROM highwater.retention`,
  epochs: `SELECT coalesce(json_agg(json_build_object('id', id, 'seq', seq, 'previous', previous, 'node', node, 'commanded', command IS NOT NULL) ORDER BY seq), '[]')::text AS data
    FROM highwater.epoch WHERE start_offset IS NOT NULL`,
} as const;

/** One operation's statements, and which of their results it returns. */
interface Step {
  readonly statements: readonly Statement[];
  readonly shows: number | null;
}

const readList = (key: string): Statement => ({
  sql: "SELECT array_to_json(list)::text FROM chaos_list WHERE key = $1",
  params: [key],
});

const append = (key: string, value: number, txn: TxnId): Statement => ({
  sql: `INSERT INTO chaos_list AS present (key, list, txn) VALUES ($1, ARRAY[$2::int8], $3::uuid)
    ON CONFLICT (key) DO UPDATE SET list = present.list || excluded.list, txn = excluded.txn`,
  params: [key, value, txn],
});

const pay = (account: number, amount: number): Statement => ({
  sql: "UPDATE chaos_account SET balance = balance + $1::int8 WHERE id = $2::int",
  params: [amount, account],
});

const UPDATE_ROW = "UPDATE chaos_row SET count = count + 1, log = log || $2::int8 WHERE id = $1::uuid";
const ADD = {
  shown: `${UPDATE_ROW} RETURNING log`,
  // Equal answers prove nothing here: only who wrote the row last keeps it from being run again.
  silent: `${UPDATE_ROW} RETURNING id`,
  upsert: `INSERT INTO chaos_row AS present (id, count, log) VALUES ($1::uuid, 1, ARRAY[$2::int8])
    ON CONFLICT (id) DO UPDATE SET count = present.count + 1, log = present.log || excluded.log RETURNING log`,
} as const;

function stepOf(operation: Operation, txn: TxnId): Step {
  switch (operation.f) {
    case "read":
      return { statements: [readList(operation.key)], shows: 0 };
    case "append":
      return { statements: [append(operation.key, operation.value, txn)], shows: null };
    case "readAppend": {
      const { key, value } = operation;
      return { statements: [readList(key), append(key, value, txn)], shows: 0 };
    }
    case "transfer": {
      const { from, to, amount } = operation;
      const record: Statement = {
        sql: "INSERT INTO chaos_transfer (txn, source, target, amount) VALUES ($1::uuid, $2::int, $3::int, $4::int8)",
        params: [txn, from, to, amount],
      };
      return { statements: [pay(from, -amount), pay(to, amount), record], shows: null };
    }
    case "sum":
      return { statements: [{ sql: "SELECT to_json(sum(balance))::text FROM chaos_account" }], shows: 0 };
    case "insert": {
      const sql = "INSERT INTO chaos_set (value, txn) VALUES ($1::int8, $2::uuid)";
      return { statements: [{ sql, params: [operation.value, txn] }], shows: null };
    }
    case "make": {
      const sql = "INSERT INTO chaos_row (id, count, log) VALUES ($1::uuid, 1, ARRAY[$2::int8])";
      return { statements: [{ sql, params: [operation.key, operation.value] }], shows: null };
    }
    case "add": {
      const { key, value, how } = operation;
      return { statements: [{ sql: ADD[how], params: [key, value] }], shows: 0 };
    }
    case "look":
      return {
        statements: [{ sql: "SELECT log FROM chaos_row WHERE id = $1::uuid", params: [operation.key] }],
        shows: 0,
      };
  }
}

export function statementsOf(operations: readonly Operation[], txn: TxnId): Statement[] {
  return operations.flatMap((operation) => [...stepOf(operation, txn).statements]);
}

/** What the operations returned, by the results of their statements. */
export function shownBy(operations: readonly Operation[], results: readonly Values[]): Shown[] {
  let at = 0;
  return operations.map((operation) => {
    const { statements, shows } = stepOf(operation, "");
    const rows = shows === null ? undefined : results[at + shows];
    at += statements.length;
    if (shows === null) return null;
    if (rows === undefined) throw new Error(`the answer has no result for ${JSON.stringify(operation)}`);
    const text = rows[0]?.[0] ?? null;
    // Without a row the list is empty.
    if (text === null) return operation.f === "sum" ? 0 : [];
    if (operation.f === "add" && operation.how === "silent") return null;
    // An array of the database, {1,2}.
    return JSON.parse(text.startsWith("{") ? `[${text.slice(1, -1)}]` : text) as Shown;
  });
}
