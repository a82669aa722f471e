// Applies schema migrations, and creates the partitions of the receipts.
import { readdirSync, readFileSync } from "node:fs";
import pg, { type ClientBase } from "pg";
import { lockTable } from "./locks.ts";

const MIGRATIONS = new URL("../../migrations/", import.meta.url);
export const MIGRATION_FILES = readdirSync(MIGRATIONS)
  .filter((file) => file.endsWith(".sql"))
  .sort();
export const NEWEST_MIGRATION = MIGRATION_FILES.at(-1) ?? "";

/**
 * SQLSTATEs of two who create the same schema or table at once: the second one waits for the first,
 * and then fails.
 */
const CREATED_BY_ANOTHER: ReadonlySet<string> = new Set(["23505", "42P06", "42P07"]);

/**
 * Applies what is missing, each migration once, under a lock that makes a second process wait and
 * then find nothing to do.
 */
export async function migrate(client: ClientBase): Promise<void> {
  try {
    await migrateOnce(client);
  } catch (cause) {
    if (!CREATED_BY_ANOTHER.has(String((cause as { code?: unknown }).code))) throw cause;
    await migrateOnce(client);
  }
}

async function migrateOnce(client: ClientBase): Promise<void> {
  await client.query("BEGIN ISOLATION LEVEL READ COMMITTED");
  try {
    await client.query("SET LOCAL synchronous_commit TO local");
    await refuseStrangers(client);
    // Even with IF NOT EXISTS it takes the right to create, which a copy of a database does not
    // bring along.
    const schema = await client.query("SELECT FROM pg_namespace WHERE nspname = 'highwater'");
    if (schema.rowCount === 0) await client.query("CREATE SCHEMA highwater");
    await client.query(
      "CREATE TABLE IF NOT EXISTS highwater.migration (name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())",
    );
    await lockTable(client, "highwater.migration");
    const done = await client.query<{ name: string }>("SELECT name FROM highwater.migration");
    const applied = new Set(done.rows.map((row) => row.name));
    const missing = MIGRATION_FILES.filter((file) => !applied.has(file));
    for (const file of missing) {
      await client.query(readFileSync(new URL(file, MIGRATIONS), "utf8"));
      await client.query("INSERT INTO highwater.migration (name) VALUES ($1)", [file]);
    }
    await nameNewest(client, [...applied, ...missing].sort().at(-1) ?? "");
    await client.query("COMMIT");
  } catch (cause) {
    await client.query("ROLLBACK").catch(() => undefined);
    throw cause;
  }
}

/**
 * A role that may create schemas could have taken a name before Highwater used it, and functions
 * there would run with the service's rights. An administrator makes some of them in the set-up.
 */
const STRANGERS = `SELECT n.nspname AS schema, r.rolname AS owner
  FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner
  WHERE n.nspname IN ('highwater', 'highwater_audit', 'highwater_jobs', 'highwater_sequences')
    AND r.rolname <> current_user AND NOT r.rolsuper AND NOT r.rolcreaterole
    AND NOT EXISTS (SELECT FROM pg_database d WHERE d.datname = current_database() AND d.datdba = r.oid)`;

async function refuseStrangers(client: ClientBase): Promise<void> {
  const { rows } = await client.query<{ schema: string; owner: string }>(STRANGERS);
  const [row] = rows;
  if (row === undefined) return;
  const { schema, owner } = row;
  throw new Error(
    `the schema ${schema} belongs to the role ${owner}, which is neither the service's role nor an administrator's: if Highwater did not make the schema, drop it; otherwise run ALTER SCHEMA ${schema} OWNER TO the right role`,
  );
}

/**
 * In the schema's comment, which every probe reads: one look says whether a migration is missing.
 */
async function nameNewest(client: ClientBase, newest: string): Promise<void> {
  const named = await client.query(
    "SELECT FROM pg_namespace n WHERE n.nspname = 'highwater' AND obj_description(n.oid, 'pg_namespace') = $1",
    [newest],
  );
  if (named.rowCount === 0) await client.query(`COMMENT ON SCHEMA highwater IS ${pg.escapeLiteral(newest)}`);
}

export interface RetentionConfig {
  /** Receipts are kept at least this long after the time in their id. */
  readonly retentionMs: number;
}

const LOCK_PATIENCE_MS = 250;
const PARTITIONS_PER_RETENTION = 4;
const MIN_PARTITION_MS = 1_000;
/** Partitions exist this many retentions ahead, so that a tracker may be down for long. */
const AHEAD = 2;

/** Lowest UUID with this timestamp: no UUIDv7 of an earlier millisecond is above it. */
export function uuidFloor(ms: number): string {
  const hex = Math.max(0, Math.floor(ms)).toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-0000-0000-000000000000`;
}

/**
 * What a drop meets that ran out of its time, or that another process is at: it holds the table's
 * lock, has just finished a part of it, or is waited for in turn. A later call finishes what is
 * left.
 */
const LEFT_FOR_LATER: ReadonlySet<string> = new Set(["57014", "55P03", "55000", "42P01", "42809", "40P01"]);

/**
 * Partitions, and what once were some, whose end is not above `expired_before`. The one that is
 * being detached comes first: there can be only one.
 */
const EXPIRED = `SELECT c.relname AS name, i.inhrelid IS NOT NULL AS is_attached, coalesce(i.inhdetachpending, false) AS is_pending
FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid, highwater.retention r
WHERE c.relnamespace = 'highwater'::regnamespace AND c.relkind = 'r' AND c.relname ~ '^receipt_[0-9a-f]{12}_[0-9a-f]{12}$'
  AND ('x' || lpad(right(c.relname, 12), 16, '0'))::bit(64)::bigint <= extract(epoch FROM r.expired_before) * 1000
ORDER BY is_pending DESC, c.relname`;

/** Another session of the service's own role drops partitions now. */
const DROPPING = `SELECT FROM pg_stat_activity WHERE usename = current_user AND datname = current_database() AND state = 'active'
  AND pid <> pg_backend_pid() AND query LIKE 'ALTER TABLE highwater.receipt DETACH PARTITION %'`;

const PARTITION_NAME = /^receipt_([0-9a-f]{12})_([0-9a-f]{12})$/;
const hex12 = (ms: number): string => Math.floor(ms).toString(16).padStart(12, "0");

/**
 * Adds the partitions that cover now and the time ahead, moves `expired_before` to the end of those
 * wholly below `expireBeforeMs`, and then drops them. The order guarantees that every id always has
 * either a receipt or the answer `expired`.
 */
export async function maintainPartitions(
  client: ClientBase,
  config: RetentionConfig,
  expireBeforeMs: number | null,
): Promise<void> {
  await client.query("BEGIN ISOLATION LEVEL READ COMMITTED");
  try {
    await client.query("SET LOCAL synchronous_commit TO local");
    await lockTable(client, "highwater.retention");
    // Better to fail and be called again than to have others wait behind it.
    await client.query(`SET LOCAL lock_timeout TO ${String(LOCK_PATIENCE_MS)}`);
    const [clock] = (
      await client.query<{ now_ms: string }>(
        "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::text AS now_ms",
      )
    ).rows;
    const nowMs = Number(clock?.now_ms);
    const existing = await listPartitions(client);
    const [kept] = (
      await client.query<{ expired_before_ms: string }>(
        "SELECT extract(epoch FROM expired_before) * 1000 AS expired_before_ms FROM highwater.retention",
      )
    ).rows;
    const expiredBeforeMs = Math.round(Number(kept?.expired_before_ms ?? 0));
    const ceilingMs = await addPartitions(client, config, { nowMs, expiredBeforeMs }, existing);
    const expired =
      expireBeforeMs === null ? [] : existing.filter((partition) => partition.toMs <= expireBeforeMs);
    const floorMs = expired.reduce((max, partition) => Math.max(max, partition.toMs), 0);
    await client.query(
      `INSERT INTO highwater.retention (expired_before, ceiling)
       VALUES (to_timestamp($1::float8 / 1000), to_timestamp($2::float8 / 1000))
       ON CONFLICT (only_row) DO UPDATE SET ceiling = excluded.ceiling,
         expired_before = greatest(retention.expired_before, to_timestamp($3::float8 / 1000))`,
      [
        Math.min(...existing.map((partition) => partition.fromMs), firstStart(config, nowMs)),
        ceilingMs,
        floorMs,
      ],
    );
    await client.query("COMMIT");
  } catch (cause) {
    await client.query("ROLLBACK").catch(() => undefined);
    throw cause;
  }
  if (expireBeforeMs !== null) await dropExpired(client);
}

/**
 * Every transaction that is open has locked the table of receipts since its first moment, and there
 * may always be one: a plain DROP would wait for all of them, and later transactions would wait
 * behind it. A detached partition can be dropped without that lock, and DETACH CONCURRENTLY lets
 * everybody else pass while it waits for those who are open. If it has not finished within the
 * session's time limit, or was killed, a later call finishes.
 */
async function dropExpired(client: ClientBase): Promise<void> {
  await client.query("SET synchronous_commit TO local");
  // It may wait for long. Two who overlook each other here do no harm: one of them fails and leaves
  // the rest for later.
  if ((await client.query(DROPPING)).rowCount !== 0) return;
  try {
    const { rows } = await client.query<ExpiredRow>(EXPIRED);
    for (const { name, is_attached, is_pending } of rows) {
      const partition = `highwater.${name}`;
      const detach = `ALTER TABLE highwater.receipt DETACH PARTITION ${partition}`;
      if (is_attached) await client.query(`${detach} ${is_pending ? "FINALIZE" : "CONCURRENTLY"}`);
      await client.query(`DROP TABLE ${partition}`);
    }
  } catch (cause) {
    if (!LEFT_FOR_LATER.has(String((cause as { code?: unknown }).code))) throw cause;
  }
}

interface ExpiredRow {
  readonly name: string;
  readonly is_attached: boolean;
  readonly is_pending: boolean;
}

interface Partition {
  readonly name: string;
  readonly fromMs: number;
  readonly toMs: number;
}

async function listPartitions(client: ClientBase): Promise<Partition[]> {
  const { rows } = await client.query<{ name: string }>(
    "SELECT c.relname AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'highwater.receipt'::regclass",
  );
  return rows.flatMap(({ name }) => {
    const match = PARTITION_NAME.exec(name);
    if (match?.[1] === undefined || match[2] === undefined) return [];
    return [{ name, fromMs: Number.parseInt(match[1], 16), toMs: Number.parseInt(match[2], 16) }];
  });
}

function partitionMs(config: RetentionConfig): number {
  return Math.max(MIN_PARTITION_MS, Math.floor(config.retentionMs / PARTITIONS_PER_RETENTION));
}

function firstStart(config: RetentionConfig, nowMs: number): number {
  const width = partitionMs(config);
  return Math.floor((nowMs - config.retentionMs) / width) * width;
}

/**
 * Fills the window with partitions where it has none, whatever was made before by another width or
 * a clock that was wrong. Below `expired_before` receipts were dropped: no id of that time may find
 * a place again. Returns the end of what is covered from now on.
 */
async function addPartitions(
  client: ClientBase,
  config: RetentionConfig,
  window: { readonly nowMs: number; readonly expiredBeforeMs: number },
  existing: readonly Partition[],
): Promise<number> {
  const width = partitionMs(config);
  const until = window.nowMs + AHEAD * config.retentionMs;
  let from = Math.max(firstStart(config, window.nowMs), window.expiredBeforeMs);
  for (;;) {
    const at = from;
    const here = existing.find(({ fromMs, toMs }) => fromMs <= at && at < toMs);
    if (here !== undefined) {
      from = here.toMs;
      continue;
    }
    if (from >= until) return from;
    const next = Math.min(...existing.map(({ fromMs }) => fromMs).filter((start) => start > at));
    const to = Math.min(from + width, next);
    const name = `highwater.receipt_${hex12(from)}_${hex12(to)}`;
    // CREATE … PARTITION OF would lock every writer out; ATTACH does not.
    await client.query(`CREATE TABLE ${name} (LIKE highwater.receipt INCLUDING ALL)`);
    // LIKE copies no row level security. Without a policy it lets no role write here past the
    // parent's, whatever the database's default privileges grant.
    await client.query(`ALTER TABLE ${name} ENABLE ROW LEVEL SECURITY`);
    await client.query(`REVOKE ALL ON ${name} FROM PUBLIC, highwater_app`);
    await client.query(
      `ALTER TABLE highwater.receipt ATTACH PARTITION ${name} FOR VALUES FROM ('${uuidFloor(from)}') TO ('${uuidFloor(to)}')`,
    );
    from = to;
  }
}
