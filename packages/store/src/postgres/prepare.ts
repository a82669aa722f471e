// Schema migrations and the partitions of the receipts.
import { readdir, readFile } from "node:fs/promises";
import { type ClientBase } from "pg";

const MIGRATIONS = new URL("../../migrations/", import.meta.url);
/** Any constant: it only has to be the same in every process of this service, and unlikely in others. */
const MIGRATION_LOCK = 7_240_519_001;

/** Applies what is missing, each migration once, under a lock that makes a second process wait and then find nothing to do. */
export async function migrate(client: ClientBase): Promise<void> {
  await client.query("BEGIN ISOLATION LEVEL READ COMMITTED");
  try {
    await client.query("SET LOCAL synchronous_commit TO local");
    await client.query("SELECT pg_advisory_xact_lock($1)", [MIGRATION_LOCK]);
    await client.query("CREATE SCHEMA IF NOT EXISTS highwater");
    await client.query(
      "CREATE TABLE IF NOT EXISTS highwater.migration (name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())",
    );
    const done = await client.query<{ name: string }>("SELECT name FROM highwater.migration");
    const applied = new Set(done.rows.map((row) => row.name));
    const files = (await readdir(MIGRATIONS)).filter((file) => file.endsWith(".sql")).sort();
    for (const file of files) {
      if (applied.has(file)) continue;
      await client.query(await readFile(new URL(file, MIGRATIONS), "utf8"));
      await client.query("INSERT INTO highwater.migration (name) VALUES ($1)", [file]);
    }
    await client.query("COMMIT");
  } catch (cause) {
    await client.query("ROLLBACK").catch(() => undefined);
    throw cause;
  }
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

/** Held by a session that drops partitions; not the lock above, for whoever starts must not wait for an open transaction. */
const DROP_LOCK = 7_240_519_004;
const QUERY_CANCELED = "57014";

/**
 * Partitions, and what once were some, whose end is not above `expired_before`. The one that is being detached comes first:
 * there can be only one.
 */
const EXPIRED = `SELECT c.relname AS name, i.inhrelid IS NOT NULL AS is_attached, coalesce(i.inhdetachpending, false) AS is_pending
FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid, highwater.retention r
WHERE c.relnamespace = 'highwater'::regnamespace AND c.relkind = 'r' AND c.relname ~ '^receipt_[0-9a-f]{12}_[0-9a-f]{12}$'
  AND ('x' || lpad(right(c.relname, 12), 16, '0'))::bit(64)::bigint <= extract(epoch FROM r.expired_before) * 1000
ORDER BY is_pending DESC, c.relname`;

const PARTITION_NAME = /^receipt_([0-9a-f]{12})_([0-9a-f]{12})$/;
const hex12 = (ms: number): string => Math.floor(ms).toString(16).padStart(12, "0");

/**
 * Adds the partitions that cover now and the time ahead, moves `expired_before` to the end of those wholly below
 * `expireBeforeMs`, and then drops them: in this order, so that no id is ever without either a receipt or the word `expired`.
 */
export async function maintainPartitions(
  client: ClientBase,
  config: RetentionConfig,
  expireBeforeMs: number | null,
): Promise<void> {
  await client.query("BEGIN ISOLATION LEVEL READ COMMITTED");
  try {
    await client.query("SET LOCAL synchronous_commit TO local");
    await client.query("SELECT pg_advisory_xact_lock($1)", [MIGRATION_LOCK]);
    // Better to fail and be called again than to have others wait behind it.
    await client.query(`SET LOCAL lock_timeout TO ${String(LOCK_PATIENCE_MS)}`);
    const [clock] = (
      await client.query<{ now_ms: string }>(
        "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::text AS now_ms",
      )
    ).rows;
    const nowMs = Number(clock?.now_ms);
    const existing = await listPartitions(client);
    const ceilingMs = await addPartitions(client, config, nowMs, existing);
    const expired =
      expireBeforeMs === null ? [] : existing.filter((partition) => partition.toMs <= expireBeforeMs);
    const floorMs = expired.reduce((max, partition) => Math.max(max, partition.toMs), 0);
    await client.query(
      `INSERT INTO highwater.retention (expired_before, ceiling)
       VALUES (to_timestamp($1::float8 / 1000), to_timestamp($2::float8 / 1000))
       ON CONFLICT (only_row) DO UPDATE SET ceiling = greatest(retention.ceiling, excluded.ceiling),
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
 * Every transaction that is open has locked the table of receipts since its first moment, and there may always be one: a plain
 * DROP would wait for all of them, and whoever comes would wait behind it. A detached partition can be dropped without that
 * lock, and DETACH CONCURRENTLY lets everybody else pass while it waits for those who are open. What it has not finished
 * within the session's time limit, or was killed over, a later call finishes.
 */
async function dropExpired(client: ClientBase): Promise<void> {
  await client.query("SET synchronous_commit TO local");
  const lock = await client.query<{ held: boolean }>("SELECT pg_try_advisory_lock($1) AS held", [DROP_LOCK]);
  // Another process is at it.
  if (lock.rows[0]?.held !== true) return;
  try {
    const { rows } = await client.query<ExpiredRow>(EXPIRED);
    for (const { name, is_attached, is_pending } of rows) {
      const partition = `highwater.${name}`;
      const detach = `ALTER TABLE highwater.receipt DETACH PARTITION ${partition}`;
      if (is_attached) await client.query(`${detach} ${is_pending ? "FINALIZE" : "CONCURRENTLY"}`);
      await client.query(`DROP TABLE ${partition}`);
    }
  } catch (cause) {
    if ((cause as { code?: string }).code !== QUERY_CANCELED) throw cause;
  } finally {
    await client.query("SELECT pg_advisory_unlock($1)", [DROP_LOCK]).catch(() => undefined);
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

/** Continues after the last partition, so that a changed width leaves neither a gap nor an overlap. */
async function addPartitions(
  client: ClientBase,
  config: RetentionConfig,
  nowMs: number,
  existing: readonly Partition[],
): Promise<number> {
  const width = partitionMs(config);
  let from =
    existing.length === 0
      ? firstStart(config, nowMs)
      : Math.max(...existing.map((partition) => partition.toMs));
  const until = nowMs + AHEAD * config.retentionMs;
  while (from < until) {
    const to = from + width;
    const name = `highwater.receipt_${hex12(from)}_${hex12(to)}`;
    // CREATE … PARTITION OF would lock every writer out; ATTACH does not.
    await client.query(`CREATE TABLE ${name} (LIKE highwater.receipt INCLUDING ALL)`);
    await client.query(
      `ALTER TABLE highwater.receipt ATTACH PARTITION ${name} FOR VALUES FROM ('${uuidFloor(from)}') TO ('${uuidFloor(to)}')`,
    );
    from = to;
  }
  return from;
}
