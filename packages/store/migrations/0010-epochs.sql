-- What a restore copies, a restore can repeat: a dump carries the sentinel's row, and CREATE
-- DATABASE … TEMPLATE carries the whole table. The row therefore names the database it is in and
-- the transaction that wrote it. A copy has another of the two.
ALTER TABLE highwater.epoch_sentinel
  ADD COLUMN database_oid text NOT NULL DEFAULT '',
  ADD COLUMN writer xid NOT NULL DEFAULT '0',
  ADD COLUMN ids_from uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000';

-- In this epoch no transaction commits under an id below `ids_from`: such an id may have committed
-- in what a restore gave up.
ALTER TABLE highwater.epoch ADD COLUMN ids_from uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000';

-- The epoch of this very server process in this very database; no row when it has none. The one
-- place that says when a sentinel counts: every statement and policy reads this view, whose text
-- the planner puts in its place.
CREATE VIEW highwater.current_epoch AS
  SELECT s.id, s.ids_from FROM highwater.epoch_sentinel s
  WHERE s.started_at = pg_postmaster_start_time() AND s.writer = s.xmin
    AND s.database_oid = split_part(pg_relation_filepath(s.tableoid), '/', -2);
REVOKE ALL ON highwater.current_epoch FROM PUBLIC;
GRANT SELECT ON highwater.current_epoch TO highwater_app;

-- The path of a table's file holds its database's oid; no other function that is this cheap does.
UPDATE highwater.epoch_sentinel SET database_oid = split_part(pg_relation_filepath(tableoid), '/', -2),
  writer = pg_current_xact_id()::xid;
ALTER TABLE highwater.epoch_sentinel ALTER COLUMN database_oid DROP DEFAULT, ALTER COLUMN writer DROP DEFAULT;

-- Advisory locks are for everybody who can run SQL, so none of them guards anything of the service.
-- These tables are empty: they are there to be locked, in a mode that needs rights which no
-- application has, and that a replica does not grant.
CREATE TABLE highwater.key_turn ();
CREATE TABLE highwater.job_turn ();

-- A reader that has read all changes up to one moment must not miss an earlier one that commits
-- later: changes take turns, and each is stamped later than all before it, whatever the clock says.
CREATE OR REPLACE FUNCTION highwater.stamp_api_key() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
  LOCK TABLE highwater.key_turn IN EXCLUSIVE MODE;
  NEW.changed_at := greatest(clock_timestamp(),
    (SELECT max(k.changed_at) + interval '1 microsecond' FROM highwater.api_key k));
  RETURN NEW;
END
$$;

-- Who gave the command, for those who read it later.
ALTER TABLE highwater.authority_command ADD COLUMN issued_by text NOT NULL DEFAULT session_user;

-- Neither by a grant nor by a database's default privileges: with any right to change a table comes
-- the right to lock it.
REVOKE ALL ON highwater.key_turn, highwater.job_turn, highwater.migration, highwater.epoch, highwater.retention,
  highwater.witness, highwater.authority_command FROM PUBLIC, highwater_app;
