// Every statement that the CockroachDB adapter sends. Names have their schemas, parameters their
// types: CockroachDB refuses a parameter whose type it cannot infer.

/** In this order, each alone: CockroachDB changes schemas outside of transactions. */
export const TABLES: readonly string[] = [
  `CREATE SCHEMA IF NOT EXISTS highwater`,
  // No row is ever updated: the timestamp of a row's version is the position of its commit.
  `CREATE TABLE IF NOT EXISTS highwater.epoch (seq INT8 PRIMARY KEY, id UUID NOT NULL, previous UUID,
  node TEXT NOT NULL, cause TEXT NOT NULL, cluster_id UUID NOT NULL, source TEXT NOT NULL,
  started_at TIMESTAMPTZ NOT NULL, fork_offset TEXT NOT NULL, fork_limit TEXT, supersedes TEXT NOT NULL,
  commanded BOOL NOT NULL)`,
  `CREATE TABLE IF NOT EXISTS highwater.final_mark (epoch UUID, level TEXT, mark TEXT NOT NULL, PRIMARY KEY (epoch, level))`,
  // Ids rise with time: without the hash, every insert would go to one range.
  `CREATE TABLE IF NOT EXISTS highwater.receipt (id UUID, tag UUID, kind TEXT NOT NULL, epoch UUID NOT NULL,
  digest INT8 NOT NULL, at_ms INT8 NOT NULL, PRIMARY KEY (id, tag) USING HASH)`,
  `CREATE TABLE IF NOT EXISTS highwater.retention (id INT8 PRIMARY KEY, expired_before_ms INT8 NOT NULL, ceiling_ms INT8 NOT NULL)`,
  `CREATE TABLE IF NOT EXISTS highwater.key_check (kid INT8 PRIMARY KEY, valid_from_ms INT8 NOT NULL, value TEXT NOT NULL)`,
];

const NOW_MS = "(extract(epoch FROM clock_timestamp()) * 1000)::INT8";

export const VERSION = "SELECT version()";
export const IS_PREPARED =
  "SELECT count(*) = 1 AS prepared FROM information_schema.tables WHERE table_schema = 'highwater' AND table_name = 'key_check'";
export const IDENTITY = `SELECT crdb_internal.cluster_id() AS cluster_id, ${NOW_MS} AS now_ms, cluster_logical_timestamp() AS now`;
export const EPOCHS = `SELECT seq, id, previous, node, cause, cluster_id, source, started_at, fork_offset, fork_limit,
  supersedes, commanded, crdb_internal_mvcc_timestamp AS start_offset FROM highwater.epoch ORDER BY seq`;
export const FINAL_MARKS = "SELECT epoch, level, mark FROM highwater.final_mark";
export const ADD_EPOCH = `INSERT INTO highwater.epoch (seq, id, previous, node, cause, cluster_id, source, started_at,
  fork_offset, fork_limit, supersedes, commanded) VALUES ($1::INT8, gen_random_uuid(), $2::UUID, $3::TEXT, $4::TEXT,
  crdb_internal.cluster_id(), $5::TEXT, clock_timestamp(), $6::TEXT, $7::TEXT, $8::TEXT, $9::BOOL)`;
/** Marks are texts of whole numbers, so that a longer one is higher. */
export const RAISE_FINAL_MARK = `INSERT INTO highwater.final_mark AS old (epoch, level, mark) VALUES ($1::UUID, $2::TEXT, $3::TEXT)
  ON CONFLICT (epoch, level) DO UPDATE SET mark = excluded.mark
  WHERE (length(old.mark), old.mark) < (length(excluded.mark), excluded.mark)`;

/** The newest epoch, if it began on this cluster; else no row. */
const CURRENT = `SELECT id FROM highwater.epoch
  WHERE seq = (SELECT max(seq) FROM highwater.epoch) AND cluster_id = crdb_internal.cluster_id()`;
/** The end of the log is read as the last of all: `clock` is another statement's business. */
export const LOG_END = `SELECT (${CURRENT}) AS epoch, cluster_logical_timestamp() AS position`;

/** Of a read: the epoch in its snapshot, and where this history left $1, if that has ended. */
export const SNAPSHOT = `SELECT (${CURRENT}) AS epoch, (SELECT fork_offset FROM highwater.epoch WHERE previous = $1::UUID LIMIT 1) AS fork`;

/**
 * $1 id, $2 tag, $3 epoch, $4 digest, $5 the id's time. In another epoch the column `epoch` is
 * null, and outside the window the column `kind`. The insert fails then, and the transaction.
 */
export const INSERT_RECEIPT = `INSERT INTO highwater.receipt (id, tag, kind, epoch, digest, at_ms) VALUES ($1::UUID, $2::UUID,
  (SELECT 'commit' FROM highwater.retention WHERE $5::INT8 >= expired_before_ms AND $5::INT8 < ceiling_ms),
  (SELECT id FROM highwater.epoch WHERE id = $3::UUID AND seq = (SELECT max(seq) FROM highwater.epoch)
    AND cluster_id = crdb_internal.cluster_id()), $4::INT8, $5::INT8)`;
/** $1 id, $2 tag. The version's own timestamp is the commit's in every isolation level. */
export const RECEIPT_POSITION =
  "SELECT crdb_internal_mvcc_timestamp, epoch FROM highwater.receipt WHERE id = $1::UUID AND tag = $2::UUID";
/** $1 id, $2 tag, $3 epoch, $4 kind, $5 the id's time. */
export const INSERT_TOMBSTONE = `INSERT INTO highwater.receipt (id, tag, kind, epoch, digest, at_ms)
  SELECT $1::UUID, $2::UUID, $4::TEXT, id, 0, $5::INT8 FROM (${CURRENT}) AS newest WHERE id = $3::UUID
  ON CONFLICT (id, tag) DO NOTHING`;
export const RECEIPT =
  "SELECT kind, epoch, digest FROM highwater.receipt WHERE id = $1::UUID AND tag = $2::UUID";

export const RETENTION = `SELECT expired_before_ms, ceiling_ms, ${NOW_MS} AS now_ms FROM highwater.retention`;
/** $1: the retention in milliseconds. */
export const FIRST_RETENTION = `INSERT INTO highwater.retention (id, expired_before_ms, ceiling_ms)
  VALUES (1, ${NOW_MS} - $1::INT8, ${NOW_MS} + 2 * $1::INT8) ON CONFLICT (id) DO NOTHING`;
/** $1: the retention, $2: what expires. */
export const MOVE_RETENTION = `UPDATE highwater.retention SET
  expired_before_ms = greatest(expired_before_ms, $2::INT8), ceiling_ms = greatest(ceiling_ms, ${NOW_MS} + 2 * $1::INT8)
  WHERE id = 1`;
/** At most 1,000 a statement: CockroachDB keeps what a transaction writes in memory. */
export const DROP_RECEIPTS = `DELETE FROM highwater.receipt WHERE (id, tag) IN (SELECT id, tag FROM highwater.receipt
  WHERE at_ms < (SELECT expired_before_ms FROM highwater.retention) LIMIT 1000)`;

export const KEY_CHECKS = "SELECT kid, valid_from_ms, value FROM highwater.key_check ORDER BY kid";
export const ADD_KEY_CHECK = `INSERT INTO highwater.key_check (kid, valid_from_ms, value)
  VALUES ($1::INT8, $2::INT8, $3::TEXT) ON CONFLICT (kid) DO NOTHING`;

/** In the system virtual cluster. Servers lose commits in a crash while it is on. */
export const UNSAFE_LOG = "SHOW CLUSTER SETTING kv.raft_log.synchronization.unsafe.disabled";

/** In the system virtual cluster. The name is one of the configuration. */
export function showStatus(virtualCluster: string): string {
  return `SHOW VIRTUAL CLUSTER ${virtualCluster} WITH REPLICATION STATUS, PRIOR REPLICATION DETAILS`;
}
