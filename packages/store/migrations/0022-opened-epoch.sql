-- Written with the sentinel and named like it, in a table that no recovery empties. ALTER TABLE
-- gives a row that it rewrites another xmin, as a restore does. Of the two tables the owner's
-- statement rewrites one, and a restore writes both. So while either row is as it was written, the
-- data is no copy. (docs/decisions/0090-a-restored-database-is-a-new-epoch.md)
CREATE TABLE highwater.opened_epoch (
  only_row     boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  id           uuid NOT NULL,
  database_oid text NOT NULL,
  writer       xid NOT NULL,
  -- When the server's checkpointer began. Every crash recovery begins another one, and nothing else
  -- does.
  recovered_at timestamptz NOT NULL
);

-- Neither by a grant nor by a database's default privileges.
REVOKE ALL ON highwater.opened_epoch FROM PUBLIC, highwater_app, highwater_read;

-- The epoch goes on. In a restored database none is current, and then nothing is written.
WITH sentinel AS (
  UPDATE highwater.epoch_sentinel s SET writer = pg_current_xact_id()::xid
  WHERE s.id = (SELECT c.id FROM highwater.current_epoch c) RETURNING s.id, s.database_oid, s.writer)
INSERT INTO highwater.opened_epoch (id, database_oid, writer, recovered_at)
SELECT s.id, s.database_oid, s.writer, a.backend_start FROM sentinel s, pg_stat_get_activity(NULL) a
WHERE a.backend_type = 'checkpointer' AND a.backend_start IS NOT NULL;
