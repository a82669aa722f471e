-- Everything the service keeps inside the store. Run in one transaction under an advisory lock. One
-- row per epoch of this history, appended when the epoch begins. A row without start_offset was
-- never completed (its writer died) and does not count.
CREATE TABLE highwater.epoch (
  seq          bigint PRIMARY KEY,
  id           uuid NOT NULL UNIQUE,
  previous     uuid,
  node         text NOT NULL,
  cause        text NOT NULL,
  timeline     integer NOT NULL,
  started_at   timestamptz NOT NULL,
  start_offset pg_lsn,
  fork_offset  pg_lsn NOT NULL,
  fork_limit   pg_lsn,
  supersedes   uuid[] NOT NULL DEFAULT '{}',
  command      uuid,
  final_marks  jsonb NOT NULL DEFAULT '{}'
);

-- Which epoch this very server process is in. UNLOGGED: every crash recovery and every promotion
-- empties it. A clean copy keeps the row, but not the start time of the server that reads it.
CREATE UNLOGGED TABLE highwater.epoch_sentinel (
  only_row          boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  id                uuid NOT NULL,
  started_at        timestamptz NOT NULL,
  system_identifier bigint NOT NULL
);

-- The proof that a transaction is in this history: written by the transaction itself, or as a
-- tombstone. Partitioned by ranges of the UUIDv7 itself, so that the primary key holds over all of
-- them and expiry drops a table. A type for `kind`, not a check: PostgreSQL parses a check's
-- expression anew in every insert, a tenth of what a small transaction costs.
CREATE TYPE highwater.receipt_kind AS ENUM ('commit', 'aborted', 'lost');

-- `owner`: whose transaction it was. `digest`: of what it ran, so that a replay with another body
-- is refused. 0: not known.
CREATE TABLE highwater.receipt (
  id     uuid NOT NULL PRIMARY KEY,
  epoch  uuid NOT NULL,
  owner  bigint NOT NULL DEFAULT 0,
  digest bigint NOT NULL DEFAULT 0,
  kind   highwater.receipt_kind NOT NULL DEFAULT 'commit'
) PARTITION BY RANGE (id);

CREATE TABLE highwater.retention (
  only_row       boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  expired_before timestamptz NOT NULL,
  ceiling        timestamptz NOT NULL
);

-- "The log of this epoch is contained in this history at least up to `reached`", said by the
-- history itself. One row per helper, so that helpers never wait for each other.
CREATE TABLE highwater.witness (
  helper  text PRIMARY KEY,
  epoch   uuid NOT NULL,
  reached pg_lsn NOT NULL
) WITH (fillfactor = 20);

-- An operator's word that a node is the primary. Carried out by the first process that begins an
-- epoch for it.
CREATE TABLE highwater.authority_command (
  id        uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  node      text NOT NULL,
  reason    text,
  issued_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  epoch     uuid
);

DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'highwater_app') THEN
    CREATE ROLE highwater_app NOLOGIN;
  END IF;
END
$$;

-- Applications may write receipts of their own commits, and nothing else: `kind` is left to its
-- default.
GRANT USAGE ON SCHEMA highwater TO highwater_app;
GRANT INSERT (id, epoch, owner, digest) ON highwater.receipt TO highwater_app;
GRANT SELECT ON highwater.epoch_sentinel TO highwater_app;

-- Which history the snapshot of a replica belongs to, and how far it goes. `epoch` is the newest
-- one in the snapshot of the query that calls it. `is_on_timeline` is false or NULL when the log is
-- not from that epoch's timeline, as between a promotion and the next epoch's record. `has_after`
-- says whether the snapshot has `after_epoch`'s log up to `after_offset`, by a witness's row or a
-- later epoch's record. (The log's own positions could not say so. After a crash they are used
-- again, over what was lost, before there is a record.) `replayed` is read behind the snapshot:
-- nothing it shows lies above.
CREATE FUNCTION highwater.replica_snapshot(after_epoch uuid, after_offset pg_lsn)
RETURNS TABLE (in_recovery boolean, epoch uuid, is_on_timeline boolean, replayed pg_lsn, has_after boolean, age_ms float8)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
  SELECT pg_is_in_recovery(), newest.id,
    (SELECT newest.timeline = received_tli FROM pg_stat_get_wal_receiver() WHERE status = 'streaming'),
    pg_last_wal_replay_lsn(),
    EXISTS (SELECT FROM highwater.witness w WHERE w.epoch = after_epoch AND w.reached >= after_offset)
      OR EXISTS (SELECT FROM highwater.epoch later WHERE later.previous = after_epoch
        AND later.start_offset IS NOT NULL AND later.fork_offset >= after_offset),
    extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) * 1000
  FROM highwater.epoch newest WHERE newest.start_offset IS NOT NULL ORDER BY newest.seq DESC LIMIT 1
$$;
REVOKE EXECUTE ON FUNCTION highwater.replica_snapshot(uuid, pg_lsn) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION highwater.replica_snapshot(uuid, pg_lsn) TO highwater_app;
