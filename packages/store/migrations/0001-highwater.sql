-- Everything the service keeps inside the store. Run in one transaction under an advisory lock.
-- One row per epoch of this history, appended when the epoch begins. A row without start_offset was never completed
-- (its writer died) and does not count.
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

-- Which epoch this very server process is in. UNLOGGED: every crash recovery and every promotion empties it.
-- A clean copy keeps the row, but not the start time of the server that reads it.
CREATE UNLOGGED TABLE highwater.epoch_sentinel (
  only_row          boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  id                uuid NOT NULL,
  started_at        timestamptz NOT NULL,
  system_identifier bigint NOT NULL
);

-- The proof that a transaction is in this history: written by the transaction itself, or as a tombstone.
-- Partitioned by ranges of the UUIDv7 itself, so that the primary key holds over all of them and expiry drops a table.
CREATE TABLE highwater.receipt (
  id    uuid NOT NULL PRIMARY KEY,
  epoch uuid NOT NULL,
  kind  text NOT NULL DEFAULT 'commit' CHECK (kind IN ('commit', 'aborted', 'lost'))
) PARTITION BY RANGE (id);

CREATE TABLE highwater.retention (
  only_row       boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  expired_before timestamptz NOT NULL,
  ceiling        timestamptz NOT NULL
);

-- "The log of this epoch is contained in this history at least up to `reached`", said by the history itself.
-- One row per helper, so that helpers never wait for each other.
CREATE TABLE highwater.witness (
  helper  text PRIMARY KEY,
  epoch   uuid NOT NULL,
  reached pg_lsn NOT NULL
) WITH (fillfactor = 20);

-- An operator's word that a node is the primary. Carried out by the first process that begins an epoch for it.
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

-- Applications may write receipts of their own commits, and nothing else: `kind` is left to its default.
GRANT USAGE ON SCHEMA highwater TO highwater_app;
GRANT INSERT (id, epoch) ON highwater.receipt TO highwater_app;
GRANT SELECT ON highwater.epoch_sentinel TO highwater_app;
