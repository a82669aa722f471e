// Every SQL text that the adapter sends, with its purpose. Functions and operators have their
// schema where they run on a connection that user statements share: a changed search_path must not
// change their meaning.
import { roleFaults } from "./role-faults.ts";

/**
 * The epoch of this very server process in this very database, or NULL when it has none. The view
 * says when the sentinel's row counts, in the migration's own schema and without the caller's
 * search_path; the planner puts its text in its place.
 */
const SENTINEL_EPOCH = `(SELECT s.id FROM highwater.current_epoch s)`;

/** Shows whether it is a page boundary or inside the log; see lsn.ts. */
const SEGMENT_BYTES = "pg_size_bytes(current_setting('wal_segment_size'))::text";

/** Names a session so that a later process under the same number is not taken for it. */
const holder = (activity: string): string =>
  `concat(${activity}.pid, '/', (extract(epoch FROM ${activity}.backend_start) * 1000000)::bigint)`;

/**
 * What a session of the write pool says of itself. The role may have a search path of its own, so a
 * transaction with ours is around it.
 */
export const ADMISSION = `BEGIN READ ONLY; SET LOCAL search_path TO pg_catalog, pg_temp;
SELECT pg_is_in_recovery()::text, ${SEGMENT_BYTES}, session_user::text,
  (SELECT ${holder("a")} FROM pg_stat_get_activity(pg_backend_pid()) a);
${roleFaults("session_user")}; COMMIT`;

/**
 * $1 id, $2 tag, $3 the epoch in which the request arrived, $4 digest. In any other epoch the NULL
 * is refused, by the policy of row level security or by NOT NULL, and nothing commits. An id that
 * may have committed in what a restore gave up becomes NULL itself: no partition takes it.
 */
export const INSERT_RECEIPT = `INSERT INTO highwater.receipt (id, tag, epoch, digest)
SELECT CASE WHEN s.ids_from OPERATOR(pg_catalog.>) asked.id THEN NULL ELSE asked.id END, asked.tag, s.id, asked.digest
FROM (VALUES ($1::pg_catalog.uuid, $2::pg_catalog.uuid, $3::pg_catalog.uuid, $4::pg_catalog.int8)) asked (id, tag, epoch, digest)
LEFT JOIN highwater.current_epoch s ON s.id OPERATOR(pg_catalog.=) asked.epoch`;

const XID_AND_SNAPSHOT = "pg_catalog.pg_current_xact_id(), pg_catalog.pg_current_snapshot()";

/** Read behind the last statement of a write: what it overwrote, this snapshot shows. */
export const ORDER = `SELECT ${XID_AND_SNAPSHOT}`;

/** From REPEATABLE READ on, a transaction's first snapshot is its last one too. */
export const INSERT_ORDERED_RECEIPT = `${INSERT_RECEIPT} RETURNING ${XID_AND_SNAPSHOT}`;

/** User code may have changed it; no lock may outlive the commit point. */
export const COMMIT_EARLY = "SET LOCAL synchronous_commit TO off";
export const COMMIT = "COMMIT";

/** Read after COMMIT on the same connection: an upper bound of the commit record's place. */
export const POSITION = "SELECT pg_catalog.pg_current_wal_insert_lsn(), highwater.sentinel_epoch()";

/**
 * What a snapshot can show lies below: the log's end is read after the snapshot was taken, within
 * one statement. Two equal snapshots show the same transactions.
 */
export const SNAPSHOT_POSITION = `SELECT pg_catalog.pg_current_wal_insert_lsn(), highwater.sentinel_epoch(),
  pg_catalog.pg_current_snapshot(), pg_catalog.pg_current_wal_flush_lsn()`;

/**
 * $1 epoch, $2 offset that have to be in the snapshot, or NULL. The function is the migration's; so
 * are the reasons. The last three columns are read behind it, in this order; see replica-read.ts.
 */
export const REPLICA_SNAPSHOT = `SELECT in_recovery::pg_catalog.text, epoch::pg_catalog.text, is_on_timeline::pg_catalog.text,
  replayed::pg_catalog.text, has_after::pg_catalog.text, age_ms::pg_catalog.text, highwater.replay_waits()::pg_catalog.text,
  pg_catalog.pg_last_wal_replay_lsn()::pg_catalog.text, pg_catalog.pg_last_wal_receive_lsn()::pg_catalog.text
FROM highwater.replica_snapshot($1, $2)`;

/**
 * The schema's comment names the newest migration, see prepare.ts; NULL where there are no tables
 * of the service.
 */
export const FACTS = `SELECT pg_is_in_recovery() AS in_recovery,
  CASE WHEN to_regclass('highwater.epoch') IS NOT NULL
    THEN coalesce(obj_description(to_regnamespace('highwater'), 'pg_namespace'), '') END AS migrated_to,
  extract(epoch FROM pg_postmaster_start_time())::text AS started_at,
  (SELECT system_identifier::text FROM pg_control_system()) AS system_identifier,
  extract(epoch FROM clock_timestamp()) * 1000 AS server_time_ms,
  current_setting('fsync') AS fsync,
  (SELECT string_agg(name, ', ') FROM pg_settings
    WHERE name LIKE 'recovery_target%' AND name NOT IN ('recovery_target_inclusive', 'recovery_target_timeline', 'recovery_target_action')
      AND setting <> '') AS recovery_target`;

/** `epoch.seq`, not `seq`: the latter would sort by the text, and epoch 10 before epoch 9. */
export const EPOCHS = `SELECT seq::text, id::text, previous::text, node, cause, timeline,
  to_char(started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS started_at, start_offset::text,
  fork_offset::text, fork_limit::text, supersedes::text[] AS supersedes, command IS NOT NULL AS commanded, final_marks
FROM highwater.epoch WHERE start_offset IS NOT NULL ORDER BY epoch.seq`;

/**
 * $1 epoch, $2 marks by level. Two trackers at once: the second waits for the row, and compares
 * with what the first has written.
 */
export const RAISE_FINAL_MARKS = `UPDATE highwater.epoch e SET final_marks = e.final_marks || (
  SELECT coalesce(jsonb_object_agg(told.key, told.value), '{}') FROM jsonb_each_text($2::jsonb) AS told
  WHERE coalesce((e.final_marks ->> told.key)::numeric, -1) < told.value::numeric)
WHERE e.id = $1 AND EXISTS (SELECT FROM jsonb_each_text($2::jsonb) AS told
  WHERE coalesce((e.final_marks ->> told.key)::numeric, -1) < told.value::numeric)`;

/**
 * $1 node. A command is spent when its history has since gone on elsewhere, or under another
 * command: a replica inherits the row, and the node may be cloned back from it much later.
 */
export const PENDING_COMMAND = `SELECT c.id::text, c.overrules::text[] AS overrules FROM highwater.authority_command c
WHERE c.node = $1 AND c.epoch IS NULL AND NOT EXISTS (
  SELECT FROM highwater.epoch e WHERE e.seq > c.after_seq AND e.start_offset IS NOT NULL AND (e.node <> c.node OR e.command IS NOT NULL))
ORDER BY c.issued_at DESC LIMIT 1`;

/**
 * Of the database that the sentinel is in. The path of a table's file holds it, and no other
 * function that is this cheap does.
 */
const DATABASE_OID = "split_part(pg_relation_filepath('highwater.epoch_sentinel'), '/', -2)";

/**
 * The sentinel as it stands, valid or not. `in_place`: no copy of a row, or of a database, that was
 * written elsewhere.
 */
export const SENTINEL = `SELECT s.id::text, s.system_identifier::text,
  s.started_at = pg_postmaster_start_time() AS same_start,
  s.writer = s.xmin AND s.database_oid = ${DATABASE_OID} AS in_place,
  (SELECT c.relpersistence = 'u' FROM pg_class c WHERE c.oid = 'highwater.epoch_sentinel'::regclass) AS unlogged,
  (SELECT ceil(extract(epoch FROM h.until - clock_timestamp()) * 1000)::int FROM highwater.replay_hold h
    WHERE h.epoch = s.id AND h.ended_at IS NULL AND h.until > clock_timestamp()) AS held_ms
FROM highwater.epoch_sentinel s`;

/** $1 epoch, if it is to be opened and may lack something, $2 milliseconds. */
export const HOLD_WRITES = `INSERT INTO highwater.replay_hold (epoch, until)
SELECT e.id, clock_timestamp() + $2::int * interval '1 ms' FROM highwater.epoch e
WHERE e.id = $1 AND e.start_offset IS NULL AND e.cause NOT IN ('first', 'clean_restart') ON CONFLICT DO NOTHING`;

/**
 * Shown only to roles with pg_read_all_stats. A server that goes through a crash recovery starts
 * another one.
 */
const CHECKPOINTER =
  "pg_stat_get_activity(NULL) a WHERE a.backend_type = 'checkpointer' AND a.backend_start IS NOT NULL";

/**
 * The row beside the sentinel's; see migration 0022. `in_place`: it is as it was written here, and
 * so was the sentinel's row, if there is one: ALTER TABLE may have rewritten that. `same_life`: no
 * recovery since then.
 */
export const OPENED_EPOCH = `SELECT o.id::text, o.recovered_at = a.backend_start AS same_life,
  o.writer = o.xmin AND o.database_oid = ${DATABASE_OID} AND NOT EXISTS (SELECT FROM highwater.epoch_sentinel s
    WHERE s.writer <> o.writer OR s.system_identifier <> (SELECT system_identifier FROM pg_control_system())) AS in_place
FROM highwater.opened_epoch o, ${CHECKPOINTER}`;

/**
 * $1 epoch. From its commit on transactions can commit in the epoch. The log goes on behind the
 * offset: the update itself is in it.
 */
export const OPEN_EPOCH = `UPDATE highwater.epoch SET start_offset = pg_current_wal_insert_lsn() WHERE id = $1 AND start_offset IS NULL`;

/**
 * $1 command, $2 epoch, if it is the newest. The command may come after the epoch that it confirms:
 * the record says so from then on, in every later comparison. Commands that were given before it
 * are settled with it; one that was given since may overrule more, and waits.
 */
export const CARRY_OUT = `WITH newest AS (
  SELECT e.id FROM highwater.epoch e WHERE e.start_offset IS NOT NULL ORDER BY e.seq DESC LIMIT 1), confirmed AS (
  UPDATE highwater.epoch e SET command = $1 FROM newest WHERE newest.id = $2 AND e.id = $2 AND e.command IS NULL)
UPDATE highwater.authority_command a SET epoch = $2 FROM highwater.authority_command c, newest
WHERE newest.id = $2 AND c.id = $1 AND a.node = c.node AND a.epoch IS NULL AND a.issued_at <= c.issued_at`;

/** $1 epoch: where it is to be opened, a sentinel that is there is another's. */
export const DROP_SENTINEL = `DELETE FROM highwater.epoch_sentinel
WHERE EXISTS (SELECT FROM highwater.epoch e WHERE e.id = $1 AND e.start_offset IS NULL)`;

/** $1 epoch. The rows name the transaction that writes them, and the database that they are in. */
export const OPEN_SENTINEL = `WITH sentinel AS (
  INSERT INTO highwater.epoch_sentinel (id, started_at, system_identifier, database_oid, writer, ids_from)
  SELECT e.id, pg_postmaster_start_time(), (SELECT system_identifier FROM pg_control_system()), ${DATABASE_OID},
    pg_current_xact_id()::xid, e.ids_from
  FROM highwater.epoch e WHERE e.id = $1 AND e.start_offset IS NULL RETURNING id, database_oid, writer)
INSERT INTO highwater.opened_epoch (id, database_oid, writer, recovered_at)
SELECT s.id, s.database_oid, s.writer, a.backend_start FROM sentinel s, ${CHECKPOINTER}
ON CONFLICT (only_row) DO UPDATE SET id = excluded.id, database_oid = excluded.database_oid, writer = excluded.writer,
  recovered_at = excluded.recovered_at`;

/** $1 epoch. From now on its row is one that was written elsewhere. */
export const DISOWN_SENTINEL = "UPDATE highwater.epoch_sentinel SET writer = '0' WHERE id = $1";

export const KEY_CHECKS = `SELECT kid, floor(extract(epoch FROM valid_from) * 1000)::text AS valid_from_ms,
  encode(check_value, 'hex') AS value FROM highwater.deployment_key`;

/** $1 kids, $2 milliseconds since 1970, $3 values. */
export const ADD_KEY_CHECKS = `INSERT INTO highwater.deployment_key (kid, valid_from, check_value)
SELECT g.kid, to_timestamp(g.ms / 1000), decode(g.value, 'hex')
FROM unnest($1::smallint[], $2::float8[], $3::text[]) AS g (kid, ms, value) ON CONFLICT (kid) DO NOTHING`;

/** $1 node. `fits`: on the same node, in the same life of its server. */
export const UNFINISHED_EPOCH = `SELECT id::text, seq::text, previous::text, timeline, supersedes::text[] AS supersedes,
  node = $1 AND started_at = pg_postmaster_start_time() AS fits
FROM highwater.epoch WHERE start_offset IS NULL ORDER BY epoch.seq DESC LIMIT 1`;

/**
 * The timeline's history file, which a promotion writes, if it is younger than the server's
 * processes: then no other recovery has followed. Times of files have whole seconds, so a promotion
 * within the second of the start is not seen. Only roles of pg_monitor may list the files of the
 * log.
 */
export const PROMOTED_SINCE_START = `SELECT FROM pg_ls_waldir() f, ${CHECKPOINTER}
  AND f.name = left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) || '.history'
  AND f.modification BETWEEN a.backend_start AND clock_timestamp()`;

/**
 * $1 command, $2 the lowest id. The server's report about itself and the newest epoch. `replayed`:
 * how far the last recovery went. A server remembers that until its shared memory is made anew, by
 * a restart or a crash. `received`: null unless that recovery was a replica's.
 * `went_on`: where the log goes on after a crash, above a record that the crash has cut. The
 * recovery's own checkpoint begins there, and nothing runs beside it; any later one is an online
 * checkpoint, which begins before its record.
 */
export const SERVER_FACTS = `SELECT pg_walfile_name(pg_current_wal_insert_lsn()) AS walfile,
  (SELECT system_identifier::text FROM pg_control_system()) AS system_identifier,
  extract(epoch FROM pg_postmaster_start_time())::text AS started_at,
  (SELECT relpersistence = 'u' FROM pg_class WHERE oid = 'highwater.epoch_sentinel'::regclass) AS unlogged,
  pg_last_wal_replay_lsn()::text AS replayed,
  pg_last_wal_receive_lsn()::text AS received,
  (SELECT CASE WHEN redo_lsn = checkpoint_lsn THEN redo_lsn END::text FROM pg_control_checkpoint()) AS went_on,
  (SELECT max(w.reached)::text FROM highwater.witness w WHERE w.epoch = newest.id) AS witnessed,
  greatest(newest.ids_from, command.ids_from, $2)::text AS ids_from, command.id IS NOT NULL AND command.epoch IS NULL AS is_pending,
  (extract(epoch FROM clock_timestamp()) * 1000)::text AS now_ms, pg_relation_size('pg_sequence')::float8 AS sequence_bytes
FROM (SELECT 1) one
LEFT JOIN (SELECT e.id, e.ids_from FROM highwater.epoch e WHERE e.start_offset IS NOT NULL ORDER BY e.seq DESC LIMIT 1) newest ON true
LEFT JOIN highwater.authority_command command ON command.id = $1`;

/**
 * $13 the newest complete epoch. Nothing where another process has begun an epoch since that was
 * read.
 */
export const BEGIN_EPOCH = `INSERT INTO highwater.epoch (seq, id, previous, node, cause, timeline, started_at, fork_offset, fork_limit,
  supersedes, command, final_marks, ids_from)
SELECT $1, $2, $3, $4, $5, $6, pg_postmaster_start_time(), $7, $8, $9, $10, $11, $12
WHERE NOT EXISTS (SELECT FROM highwater.epoch e WHERE e.start_offset IS NULL OR e.seq > $13)`;

/** $1 milliseconds. For the statements below, in their session. */
export const BEGIN_RESERVE = `SELECT set_config('highwater.sequences_reached', '0', false), set_config('statement_timeout', $1, false)`;

/**
 * $1 epoch, if it is to be opened and may lack something, $2 the reserve, $3 the server's time at
 * which to stop. Advances the next part of the sequences; null if none is left. The session keeps
 * how far it came, so that all parts can be sent at once. An epoch that others began in a history
 * that is lost, too, had a reserve of its own.
 */
export const RESERVE_SEQUENCES = `SELECT p.reserved, set_config('highwater.sequences_reached', coalesce(p.reserved ->> 'reached', ''), false)
FROM (SELECT highwater_sequences.reserve(
    $2::bigint * (e.seq - coalesce((SELECT p.seq FROM highwater.epoch p WHERE p.id = e.previous), e.seq - 1)),
    nullif(current_setting('highwater.sequences_reached'), '')::oid, to_timestamp($3::float8 / 1000)) AS reserved
  FROM highwater.epoch e WHERE e.id = $1 AND e.start_offset IS NULL AND e.cause NOT IN ('first', 'clean_restart')) p`;

export const END_RESERVE = "RESET statement_timeout";

export const PRIMARY_POSITION = `SELECT pg_current_wal_flush_lsn()::text AS flushed,
  pg_current_wal_insert_lsn()::text AS applied, ${SEGMENT_BYTES} AS segment_bytes`;

/** A stream is one life of one walreceiver: its process and when that began. */
export const REPLICA_POSITION = `SELECT pg_last_wal_replay_lsn()::text AS applied, pg_last_wal_receive_lsn()::text AS received,
  w.pid::text || '/' || extract(epoch FROM a.backend_start)::text AS session, w.flushed_lsn::text AS streamed, w.status, w.pid
FROM (SELECT 1) one LEFT JOIN pg_stat_get_wal_receiver() w ON true LEFT JOIN pg_stat_get_activity(w.pid) a ON true`;

/**
 * One row for the primary with its replicas beside it, a line for each; everything from shared
 * memory, within one server process. A walsender without a replay position feeds no server: it is
 * no copy of the log that could take over.
 */
const positions = (line: string, from: string): string =>
  `SELECT ${SENTINEL_EPOCH}::text AS epoch, pg_current_wal_flush_lsn()::text AS flushed,
  pg_current_wal_insert_lsn()::text AS applied, ${SEGMENT_BYTES} AS segment_bytes, current_setting('fsync') AS fsync,
  (SELECT string_agg(concat(w.pid, E'\t', w.flush_lsn, E'\t', w.sync_state${line}), E'\n') FROM pg_stat_get_wal_senders() w${from}
   WHERE w.state IN ('streaming', 'catchup') AND w.flush_lsn IS NOT NULL AND w.replay_lsn IS NOT NULL) AS streams`;

const identified = (address: string, slot: string, slots: string): string =>
  positions(
    `, E'\t', extract(epoch FROM a.backend_start), E'\t', a.datid, E'\t', ${address}, E'\t', ${slot}, E'\t', a.application_name`,
    ` JOIN pg_stat_get_activity(w.pid) a ON true${slots}`,
  );

/** Only where the streams stand, by process id. */
export const BARE_POSITIONS = positions("", "");
/** And whose they are. */
export const POSITIONS = identified("''", "''", "");
/**
 * Where a node is recognised by more than its name: the address a stream comes from, and the slot
 * that it holds.
 */
export const POSITIONS_WITH_SOURCES = identified(
  "host(a.client_addr)",
  "s.slot_name",
  " LEFT JOIN pg_get_replication_slots() s ON s.active_pid = w.pid AND s.slot_type = 'physical'",
);

/** $1 epoch. The proof of a replica's own replayed log. */
export const WITNESSED_BY_REPLICA = `SELECT pg_is_in_recovery() AS in_recovery,
  extract(epoch FROM pg_postmaster_start_time())::text AS started_at, current_setting('fsync') AS fsync,
  (SELECT max(w.reached)::text FROM highwater.witness w WHERE w.epoch = $1) AS reached`;

/**
 * $1 helper, $2 epoch, $3 its marks by level. Its commit flushes everything before it and wakes the
 * walsenders; `reached` is proof for later histories. A helper that has started anew may know less
 * than before.
 */
export const HELP_FLUSH = `INSERT INTO highwater.witness (helper, epoch, reached, marks)
SELECT $1, s.id, pg_current_wal_insert_lsn(), jsonb_build_object(s.id, $3::jsonb) FROM highwater.current_epoch s WHERE s.id = $2
ON CONFLICT (helper) DO UPDATE SET epoch = excluded.epoch, reached = excluded.reached,
  marks = jsonb_build_object(excluded.epoch, coalesce(witness.marks -> excluded.epoch::text, '{}') || (excluded.marks -> excluded.epoch::text))
RETURNING reached::text`;

/**
 * $1 epoch. The end of what is replayed is read behind the snapshot: no witness that it shows lies
 * above. `to_jsonb` reads also a table that has no marks yet.
 */
export const NEWEST_WITNESS = `SELECT max(reached)::text AS reached, (CASE WHEN pg_is_in_recovery()
  THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END)::text AS seen_by,
  (SELECT jsonb_object_agg(highest.level, highest.mark) FROM (
    SELECT known.key AS level, max(known.value::numeric)::text AS mark
    FROM highwater.witness w, jsonb_each_text(to_jsonb(w) -> 'marks' -> $1::uuid::text) known GROUP BY known.key) highest) AS marks
FROM highwater.witness WHERE epoch = $1::uuid`;

/**
 * $1 ids, $2 their tags. A row for each receipt that is there, `n` its key's place in the arrays.
 * LIMIT has the planner probe the primary key once for each key: rows that SQL has written under
 * the same id with other tags are never read. `kind` as text: its type is another one after the
 * schema was dropped and made anew, and a prepared statement must not notice.
 */
export const RECEIPTS = `SELECT k.n::int AS n, r.epoch::text, r.digest::text, r.kind::text,
  r.kind = 'lost' AND EXISTS (SELECT FROM highwater.redo d WHERE d.root = k.id AND d.tag = k.tag) AS redone
FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY AS k (id, tag, n)
CROSS JOIN LATERAL (SELECT r.epoch, r.digest, r.kind FROM highwater.receipt r WHERE r.id = k.id AND r.tag = k.tag LIMIT 1) r`;

/**
 * $1 ids, $2 their tags, $3 epoch, $4 kind. Sorted, so that two trackers with overlapping batches
 * cannot deadlock. In any other epoch it writes nothing: an error would have the server log the
 * row, and the tag with it.
 */
export const INSERT_TOMBSTONES = `INSERT INTO highwater.receipt (id, tag, epoch, digest, kind)
SELECT k.id, k.tag, s.id, 0, $4::highwater.receipt_kind
FROM unnest($1::uuid[], $2::uuid[]) AS k (id, tag), highwater.current_epoch s
WHERE s.id = $3
ORDER BY k.id, k.tag ON CONFLICT (id, tag) DO NOTHING`;

export const NOTIFICATION_QUEUE_USAGE = "SELECT pg_notification_queue_usage() AS usage";

export const UNLOGGED_TABLES = `SELECT format('%I.%I', n.nspname, c.relname) AS name
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relpersistence = 'u' AND c.relkind IN ('r', 'S') AND n.nspname NOT IN ('highwater', 'highwater_jobs')
ORDER BY 1 LIMIT 20`;

export const LOG_END = `SELECT pg_current_wal_insert_lsn()::text AS applied, ${SEGMENT_BYTES} AS segment_bytes,
  ${SENTINEL_EPOCH}::text AS epoch`;

/** $1 id. A row where no transaction may commit under it any more. */
export const BEFORE_RESTORE = "SELECT FROM highwater.epoch WHERE ids_from > $1::uuid LIMIT 1";

export const RETENTION = `SELECT extract(epoch FROM expired_before) * 1000 AS expired_before_ms,
  extract(epoch FROM ceiling) * 1000 AS ceiling_ms, extract(epoch FROM clock_timestamp()) * 1000 AS server_time_ms
FROM highwater.retention`;

/** $1 process, $2 its name, $3 milliseconds. Rows that no transaction can belong to any more go. */
export const REGISTER_LIMIT = `WITH gone AS (
  DELETE FROM highwater.transaction_limit WHERE process <> $1
    AND seen_at < clock_timestamp() - interval '1 day' - limit_ms * interval '1 millisecond')
INSERT INTO highwater.transaction_limit (process, name, limit_ms) VALUES ($1, $2, $3)
ON CONFLICT (process) DO UPDATE SET limit_ms = excluded.limit_ms, seen_at = excluded.seen_at`;

/**
 * Only a superuser can end a superuser's session, and to try would be an error that spares the
 * others, too.
 */
const CAN_BE_ENDED = `(NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.oid = a.usesysid) OR current_setting('is_superuser')::boolean)`;

/**
 * $1 the backend that waits, $2 sessions that are to be ended. Those whose transaction is older
 * than any gateway allows are ended as well: their gateway is gone, for it would have ended them.
 * By what the server itself says of a session and its own clock: a session can change its name, but
 * neither when it began nor when its transaction did. Only while it waits for another's
 * transaction, which has written the same id: who holds another lock is left alone.
 */
export const END_HOLDERS = `SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
WHERE a.pid = ANY (pg_blocking_pids($1)) AND ${CAN_BE_ENDED}
  AND EXISTS (SELECT FROM pg_locks l WHERE l.pid = $1 AND NOT l.granted AND l.locktype = 'transactionid')
  AND (${holder("a")} = ANY ($2::text[]) OR a.xact_start < clock_timestamp()
    - (SELECT max(limit_ms) FROM highwater.transaction_limit) * interval '1 millisecond')`;

/**
 * $1 the backend that waits for a lock on a private table, to begin an epoch. One that settles is
 * left alone: it ends soon.
 */
export const TERMINATE_BLOCKERS = `SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
WHERE a.pid = ANY (pg_blocking_pids($1)) AND ${CAN_BE_ENDED}
  AND NOT (a.usename = current_user AND a.application_name LIKE 'highwater:%:settle')`;

/**
 * Locks the catalogs of roles, and their indexes, as every reader does. A session that holds a lock
 * needs no room in the server's table to take it again.
 */
export const KEEP_ROLES_LOCKED = `COMMIT; BEGIN; SELECT FROM pg_roles LIMIT 0; SELECT FROM pg_auth_members LIMIT 0`;

export const FORGET_SESSIONS = "SELECT pg_stat_clear_snapshot()";

/**
 * Ends the sessions of others than superusers that hold more than 1,000 advisory locks; and, when
 * there are more locks than the server's table is made for, those that hold a quarter of it. It
 * names no relation but pg_roles: a statement that needs another lock may get none.
 */
export const END_LOCK_FLOODS = `SELECT a.role, held.locks::int AS locks, pg_terminate_backend(held.pid)
FROM (SELECT l.pid, count(*) AS locks, count(*) FILTER (WHERE l.locktype = 'advisory') AS advisory, sum(count(*)) OVER () AS total
  FROM pg_lock_status() l GROUP BY l.pid) held
CROSS JOIN LATERAL (SELECT s.usesysid, pg_get_userbyid(s.usesysid)::text AS role FROM pg_stat_get_activity(held.pid) s
  WHERE s.backend_type = 'client backend') a
CROSS JOIN (SELECT current_setting('max_locks_per_transaction')::int
  * (current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int) AS slots) server
WHERE (held.advisory > 1000 OR (held.total > server.slots AND 4 * held.locks > server.slots)) AND held.pid <> pg_backend_pid()
  AND ${CAN_BE_ENDED}`;

/** $1 the backend, $2 its login role: the number may be another session's by now. */
export const END_SESSION = `SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
WHERE a.pid = $1 AND a.usename = $2 AND ${CAN_BE_ENDED}`;

/** $1 the backend whose statement is to end. */
export const CANCEL = `SELECT pg_cancel_backend($1)`;
/** $1 the backend that is to end itself. */
export const TERMINATE = `SELECT pg_terminate_backend($1)`;
