// `highwater lost extract`: what a copy of the old primary's data folder shows of the transactions
// that committed behind the fork. It is evidence: what no row shows is counted, not guessed.
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { type Call } from "../command.ts";
import { rows, withServer } from "../postgres.ts";
import { badInput, EXIT_REFUSED, Refusal } from "../refusal.ts";
import { type Opened, withCopy } from "./copy.ts";
import { type Changes, type Committed, type Log, readLog } from "./log.ts";

const LSN = /^[0-9A-F]{1,8}\/[0-9A-F]{1,8}$/i;
/** A copy may be large, and each of its tables is read once. */
const QUERY_LIMIT_MS = 86_400_000;
const REPLAY_LIMIT_MS = 600_000;
const PAUSE_MS = 100;
const EXIT_DONE = 0;

const DATABASES = `SELECT oid::text AS oid, datname AS name FROM pg_database
WHERE datallowconn AND datname <> 'template1' ORDER BY 2`;
/** Of `isRead`: unlogged tables are empty on a standby, and temporary ones are their session's. */
const TABLES = `SELECT format('%I.%I', n.nspname, c.relname) AS name, c.oid::text AS oid,
  pg_relation_filenode(c.oid)::text AS file, n.nspname !~ '^(pg_|information_schema$|highwater)' AS "isShown",
  c.relkind = 'r' AND c.relpersistence = 'p' AS "isRead",
  ARRAY(SELECT quote_ident(a.attname) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0
    AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum) AS columns
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE pg_relation_filenode(c.oid) IS NOT NULL ORDER BY 1`;
const RECEIPTS = `SELECT xmin::text AS xid, id, tag FROM highwater.receipt
WHERE kind = 'commit' AND xmin = ANY($1::xid[]) ORDER BY id`;
const ROOTS = "SELECT xmin::text AS xid, root AS id, tag FROM highwater.redo WHERE xmin = ANY($1::xid[])";

interface Receipt {
  readonly id: string;
  readonly tag: string;
}

interface Part {
  readonly database: string;
  /** Null: no table of the copy has the file. It was dropped, truncated or rewritten since. */
  readonly table: string | null;
  readonly columns: readonly string[];
  /** Counted in the log behind the fork. */
  changes: Changes;
  readonly rows: (readonly (string | null)[])[];
  /** The table's file is from behind the fork: its rows may be older than their transaction. */
  readonly isRewritten: boolean;
}

interface Evidence extends Committed {
  receipt: Receipt | null;
  /** It brought another lost transaction back. */
  redoOf: Receipt | null;
  readonly parts: Map<string, Part>;
}

export async function run(call: Call): Promise<number> {
  const { given, print, note } = call;
  const [folder, fork, bin] = [given.only("folder"), given.text("fork"), given.text("bin")];
  if (folder === null) throw badInput("name the copy of the data folder");
  if (!given.flag("is-copy"))
    throw badInput(
      `${folder} will be opened as a standby, which writes into it`,
      "Give --is-copy if it is a copy, with all tablespaces and the log, and not the only one.",
    );
  if (fork === null || !LSN.test(fork))
    throw badInput("give --fork LSN, the fork_offset of the epoch after the loss");
  if (bin === null) throw badInput("give --bin FOLDER, the programs of the PostgreSQL of the copy");
  const print1 = given.flag("sql") ? asSql : asJson;
  const copy = { folder, bin, user: given.text("user") ?? "postgres" };
  const found = await withCopy(copy, (opened) =>
    gather(opened, { folder, fork, program: join(bin, "pg_waldump") }),
  );
  for (const each of found) print(print1(each));
  const hidden = found.filter((each) => hiddenIn(each) > 0).length;
  note(
    `${String(found.length)} transactions committed behind ${fork}; ${String(hidden)} of them changed more than their rows show.`,
  );
  return EXIT_DONE;
}

async function gather(
  opened: Opened,
  { folder, fork, program }: { readonly folder: string; readonly fork: string; readonly program: string },
): Promise<readonly Evidence[]> {
  const { log, databases } = await withServer(
    opened.url("template1"),
    async (client) => {
      const [checkpoint] = await rows<{ timeline: number }>(
        client,
        "SELECT timeline_id AS timeline FROM pg_control_checkpoint()",
      );
      const read = await readLog(program, {
        folder: join(folder, "pg_wal"),
        timeline: checkpoint?.timeline ?? 1,
        fork,
      });
      await untilReplayed(client, read);
      return { log: read, databases: await rows<{ oid: string; name: string }>(client, DATABASES) };
    },
    { limitMs: QUERY_LIMIT_MS },
  );
  const found = log.committed.map((each): Evidence => ({
    ...each,
    receipt: null,
    redoOf: null,
    parts: new Map(),
  }));
  for (const database of databases)
    await withServer(opened.url(database.name), (client) => look(client, database, log, found), {
      limitMs: QUERY_LIMIT_MS,
    });
  return found;
}

async function untilReplayed(client: pg.Client, { last }: Log): Promise<void> {
  for (let waited = 0; waited < REPLAY_LIMIT_MS; waited += PAUSE_MS) {
    const [replayed] = await rows<{ all: boolean | null }>(
      client,
      "SELECT pg_last_wal_replay_lsn() > $1::pg_lsn AS all",
      [last],
    );
    if (replayed?.all === true) return;
    await sleep(PAUSE_MS);
  }
  throw new Refusal([`The copy does not replay its log up to ${last}`], EXIT_REFUSED);
}

async function look(
  client: pg.Client,
  database: { readonly oid: string; readonly name: string },
  log: Log,
  found: readonly Evidence[],
): Promise<void> {
  // The same text wherever it is read again, and an error instead of rows that a policy hides.
  await client.query("SET datestyle = 'ISO'; SET intervalstyle = 'postgres'; SET bytea_output = 'hex'");
  await client.query("SET extra_float_digits = 1; SET row_security = off; SET timezone = 'UTC'");
  const byXid = new Map(
    found.flatMap((each) => [each.xid, ...each.subxids].map((xid) => [xid, each] as const)),
  );
  const xids = [...byXid.keys()];
  const tables = await rows<{
    name: string;
    oid: string;
    file: string;
    isShown: boolean;
    isRead: boolean;
    columns: string[];
  }>(client, TABLES);
  const byFile = new Map(tables.map((table) => [table.file, table]));
  const partOf = (each: Evidence, table: (typeof tables)[number] | null, file: string): Part => {
    const key = `${database.oid}/${file}`;
    const isRewritten = table !== null && log.created.has(key) && table.oid !== file;
    const part = each.parts.get(key) ?? {
      database: database.name,
      table: table?.name ?? null,
      columns: table?.columns ?? [],
      changes: { inserted: 0, updated: 0, deleted: 0 },
      rows: [],
      isRewritten,
    };
    each.parts.set(key, part);
    return part;
  };
  for (const each of found)
    for (const [path, changes] of each.changes) {
      const [, oid, file = ""] = path.split("/");
      const table = byFile.get(file) ?? null;
      if (oid === database.oid && table?.isShown !== false) partOf(each, table, file).changes = changes;
    }
  for (const table of tables.filter(({ isShown, isRead }) => isShown && isRead)) {
    const values = table.columns.map((column) => textOf(`t.${column}`)).join(", ");
    const written = await rows<{ xid: string; values: (string | null)[] }>(
      client,
      `SELECT t.xmin::text AS xid, ARRAY[${values}]::text[] AS values FROM ONLY ${table.name} t WHERE t.xmin = ANY($1::xid[])`,
      [xids],
    );
    for (const { xid, values: row } of written) {
      const each = byXid.get(xid);
      if (each !== undefined) partOf(each, table, table.file).rows.push(row);
    }
  }
  for (const [name, sql, field] of [
    ["highwater.receipt", RECEIPTS, "receipt"],
    ["highwater.redo", ROOTS, "redoOf"],
  ] as const) {
    const [has] = await rows<{ it: boolean }>(client, "SELECT to_regclass($1) IS NOT NULL AS it", [name]);
    if (has?.it !== true) continue;
    for (const { xid, id, tag } of await rows<Receipt & { xid: string }>(client, sql, [xids])) {
      const each = byXid.get(xid);
      if (each !== undefined) each[field] = { id, tag };
    }
  }
}

/**
 * By the type's own output: a cast to text may be a function of the type's owner, and would run as
 * a superuser here. `IS NULL` is also true of a composite value whose fields are all null.
 */
const textOf = (value: string): string => `CASE WHEN num_nulls(${value}) = 0 THEN format('%s', ${value}) END`;

/** Changes that no row of the copy shows, at least. */
function hiddenIn({ parts }: Evidence): number {
  return [...parts.values()].reduce(
    (sum, { changes: { inserted, updated, deleted }, rows: { length } }) =>
      sum + deleted + Math.max(0, inserted + updated - length),
    0,
  );
}

function asJson(each: Evidence): string {
  const { xid, subxids, committedAt, lsn, receipt, redoOf, parts } = each;
  return JSON.stringify({
    xid,
    subxids,
    committedAt,
    lsn,
    id: receipt?.id ?? null,
    ...(redoOf !== null && { redoOf: redoOf.id }),
    hiddenChanges: hiddenIn(each),
    tables: [...parts.values()].map(({ database, table, columns, changes, rows: written, isRewritten }) => ({
      database,
      table,
      ...changes,
      isRewritten,
      columns,
      rows: written,
    })),
  });
}

/** Its last line rolls it back: a person decides on each transaction. */
function asSql(each: Evidence): string {
  const { xid, committedAt, receipt, redoOf } = each;
  const parts = [...each.parts.values()];
  const root = redoOf ?? receipt;
  const hidden = hiddenIn(each);
  const counts = parts.map(({ database, table, changes: { inserted, updated, deleted } }) =>
    comment(
      `${database} ${table ?? "(a table that is gone)"}: ${String(inserted)} inserted, ${String(updated)} updated, ${String(deleted)} deleted`,
    ),
  );
  return [
    `-- Transaction ${xid}, committed ${committedAt} on the old primary, id ${receipt?.id ?? "not known: it has no receipt"}`,
    ...counts,
    ...(hidden > 0 ? [`-- INCOMPLETE: ${String(hidden)} changes or more show in no row.`] : []),
    "BEGIN;",
    ...(root === null ? ["-- Without a receipt nothing keeps it from taking effect twice."] : takeRoot(root)),
    ...parts.flatMap(insertsOf),
    "ROLLBACK; -- or COMMIT, after you have read it and asked its application\n",
  ].join("\n");
}

/** An error, if its client or another redo was faster. */
function takeRoot({ id, tag }: Receipt): string[] {
  const key = `'${id}', '${tag}'`;
  return [
    `INSERT INTO highwater.receipt (id, tag, epoch, digest, kind) SELECT ${key}, e.id, 0, 'lost' FROM highwater.current_epoch e ON CONFLICT (id, tag) DO NOTHING;`,
    `INSERT INTO highwater.redo (root, tag, id) VALUES ('${id}', (SELECT tag FROM highwater.receipt WHERE (id, tag) = (${key}) AND kind = 'lost'), gen_random_uuid());`,
  ];
}

/** As comments, where the rows may have been there before, or are not all. */
function insertsOf({ table, columns, changes, rows: written, isRewritten }: Part): string[] {
  const { inserted, updated, deleted } = changes;
  const isWhole = !isRewritten && updated === 0 && deleted === 0 && inserted === written.length;
  return written.map((row) => {
    const values = row.map((value) => (value === null ? "NULL" : pg.escapeLiteral(value))).join(", ");
    const sql = `INSERT INTO ${table ?? ""} (${columns.join(", ")}) OVERRIDING SYSTEM VALUE VALUES (${values});`;
    return isWhole ? sql : comment(sql);
  });
}

function comment(text: string): string {
  return `-- ${text.replaceAll(/\r\n?|\n/g, "\n-- ")}`;
}
