-- The stand-in for CockroachDB, on a PostgreSQL server. For tests only.
CREATE SCHEMA standin;
CREATE SCHEMA crdb_internal;
-- The clock: microseconds of the last commit. A sequence, because it does not conflict.
CREATE SEQUENCE standin.hlc;
-- All commits at or below this are in the log before it: a beat takes the lock that commits take.
CREATE TABLE standin.beat (us bigint NOT NULL);
INSERT INTO standin.beat VALUES (0);
-- How standbys name this cluster, and what they were before.
CREATE TABLE standin.origin (uri text NOT NULL, source text NOT NULL);
CREATE TABLE standin.setting AS SELECT false AS is_unsafe;
CREATE TABLE standin.activation (source text NOT NULL, at numeric NOT NULL);

CREATE FUNCTION standin.hlc_of(us bigint) RETURNS numeric LANGUAGE sql IMMUTABLE
AS $$ SELECT (us::numeric * 1000)::numeric(39, 10) $$;

CREATE FUNCTION standin.next() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE us bigint; DECLARE mine text := current_setting('standin.commit', true);
BEGIN
  -- A transaction commits at one time, whatever it has written.
  IF mine LIKE txid_current()::text || ':%' THEN RETURN split_part(mine, ':', 2)::bigint; END IF;
  PERFORM pg_advisory_xact_lock(26257);
  SELECT setval('standin.hlc', greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint, last_value + 1))
    INTO us FROM standin.hlc;
  PERFORM set_config('standin.commit', txid_current()::text || ':' || us::text, true);
  RETURN us;
END $$;

-- What commits have changed, so that a cut-over can take it back.
CREATE TABLE standin.change (n bigserial PRIMARY KEY, us bigint NOT NULL, rel regclass NOT NULL, old jsonb, new jsonb);

CREATE FUNCTION standin.stamp() RETURNS trigger LANGUAGE plpgsql SET timezone = 'UTC' AS $$
DECLARE us bigint := standin.next();
BEGIN
  IF TG_OP = 'INSERT' AND TG_TABLE_SCHEMA = 'highwater' AND TG_TABLE_NAME = 'epoch' THEN
    UPDATE highwater.epoch SET crdb_internal_mvcc_timestamp = standin.hlc_of(us) WHERE seq = NEW.seq;
  ELSIF TG_OP = 'INSERT' AND TG_TABLE_SCHEMA = 'highwater' AND TG_TABLE_NAME = 'receipt' THEN
    UPDATE highwater.receipt SET crdb_internal_mvcc_timestamp = standin.hlc_of(us) WHERE id = NEW.id AND tag = NEW.tag;
  END IF;
  INSERT INTO standin.change (us, rel, old, new) VALUES (us, TG_RELID, CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END,
    CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) - 'crdb_internal_mvcc_timestamp' END);
  RETURN NULL;
END $$;

-- Every table has the hidden column with its rows' timestamps, here those that are read. Their rows
-- are never updated, except by the stamp.
CREATE FUNCTION standin.watch() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE made text; DECLARE acts text;
BEGIN
  FOR made IN SELECT object_identity FROM pg_event_trigger_ddl_commands()
    WHERE object_type = 'table' AND schema_name NOT IN ('standin', 'pg_temp')
  LOOP
    CONTINUE WHEN EXISTS (SELECT FROM pg_trigger WHERE tgname = 'stamp' AND tgrelid = made::regclass);
    acts := 'INSERT OR UPDATE OR DELETE';
    IF made IN ('highwater.epoch', 'highwater.receipt') THEN
      EXECUTE format('ALTER TABLE %s ADD COLUMN crdb_internal_mvcc_timestamp numeric', made);
      acts := 'INSERT OR DELETE';
    END IF;
    EXECUTE format('CREATE CONSTRAINT TRIGGER stamp AFTER %s ON %s DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION standin.stamp()', acts, made);
  END LOOP;
END $$;
CREATE EVENT TRIGGER standin_columns ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION standin.watch();

CREATE FUNCTION pg_catalog.cluster_logical_timestamp() RETURNS numeric LANGUAGE sql VOLATILE AS $$
  SELECT standin.hlc_of(greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint, last_value)) FROM standin.hlc
$$;

-- A server's folder tells it apart. The system virtual cluster has another id than the one with the
-- data.
CREATE FUNCTION crdb_internal.cluster_id() RETURNS uuid LANGUAGE sql STABLE AS $$
  SELECT md5(current_setting('data_directory') || coalesce(current_setting('standin.system', true), ''))::uuid
$$;

CREATE PROCEDURE standin.beat() LANGUAGE sql AS $$ UPDATE standin.beat SET us = standin.next() $$;

CREATE FUNCTION standin.virtual_cluster() RETURNS TABLE (id bigint, name text, ingestion_job_id bigint,
  source_tenant_name text, source_cluster_uri text, retained_time timestamptz, replicated_time timestamptz,
  replication_lag interval, failover_time numeric, status text, source_id text, activation_time numeric)
LANGUAGE sql AS $$
  SELECT 3, 'main',
    CASE WHEN pg_is_in_recovery() THEN (extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint END,
    CASE WHEN pg_is_in_recovery() THEN 'main' END,
    CASE WHEN pg_is_in_recovery() THEN (SELECT uri FROM standin.origin) END, NULL::timestamptz,
    CASE WHEN pg_is_in_recovery() THEN 'epoch'::timestamptz + (SELECT us FROM standin.beat) * interval '1 microsecond' END,
    NULL::interval, NULL::numeric, CASE WHEN pg_is_in_recovery() THEN 'replicating' ELSE 'ready' END,
    (SELECT a.source FROM standin.activation AS a), (SELECT a.at FROM standin.activation AS a)
$$;

-- Takes back what was committed after that time, and says how many rows' changes that were.
CREATE FUNCTION standin.revert(after bigint) RETURNS bigint LANGUAGE plpgsql SET timezone = 'UTC'
SET session_replication_role = 'replica' AS $$
DECLARE one standin.change; DECLARE found bigint; DECLARE reverted bigint := 0;
BEGIN
  FOR one IN SELECT * FROM standin.change WHERE us > after ORDER BY us DESC, n DESC LOOP
    IF one.new IS NOT NULL THEN
      EXECUTE format('DELETE FROM %s WHERE ctid = (SELECT ctid FROM %1$s AS t
        WHERE to_jsonb(t) - ''crdb_internal_mvcc_timestamp'' = $1 LIMIT 1)', one.rel) USING one.new;
      GET DIAGNOSTICS found = ROW_COUNT;
      IF found <> 1 THEN RAISE EXCEPTION '% has no row %', one.rel, one.new; END IF;
    END IF;
    IF one.old IS NOT NULL THEN
      EXECUTE format('INSERT INTO %s SELECT * FROM jsonb_populate_record(NULL::%1$s, $1)', one.rel) USING one.old;
    END IF;
    reverted := reverted + 1;
  END LOOP;
  DELETE FROM standin.change WHERE us > after;
  RETURN reverted;
END $$;

-- COMPLETE REPLICATION TO LATEST, or to a time in the past, once the server is writable. It has
-- replayed all that it had received, which is more than the time that it showed last.
CREATE FUNCTION standin.cut_over(past bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE failover_time bigint := coalesce(past, (SELECT us FROM standin.beat));
DECLARE reverted bigint := standin.revert(failover_time);
BEGIN
  DELETE FROM standin.activation;
  INSERT INTO standin.activation SELECT source, standin.hlc_of(failover_time) FROM standin.origin;
  RETURN reverted;
END $$;

-- The epoch as of a time, and where the history left the one that had ended. From here on the
-- transaction only reads, and sees tables as they were: copies in front of those that have changed.
CREATE FUNCTION standin.snapshot_at(t bigint, ended uuid) RETURNS TABLE (epoch uuid, fork text) LANGUAGE plpgsql SET timezone = 'UTC' AS $$
DECLARE one record;
BEGIN
  IF t > (SELECT greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint, last_value) FROM standin.hlc) THEN
    RAISE EXCEPTION 'AS OF SYSTEM TIME: cannot specify timestamp in the future';
  END IF;
  FOR one IN SELECT c.us, c.n, c.old, c.new, c.rel, p.relname AS name FROM standin.change AS c JOIN pg_class AS p ON p.oid = c.rel
    WHERE c.us > t AND p.relnamespace = 'public'::regnamespace ORDER BY c.us DESC, c.n DESC
  LOOP
    IF to_regclass(format('pg_temp.%I', one.name)) IS NULL THEN
      EXECUTE format('CREATE TEMP TABLE %I ON COMMIT DROP AS SELECT * FROM public.%1$I', one.name);
    END IF;
    EXECUTE format('DELETE FROM pg_temp.%I WHERE ctid = (SELECT ctid FROM pg_temp.%1$I AS t WHERE to_jsonb(t) = $1 LIMIT 1)', one.name) USING one.new;
    IF one.old IS NOT NULL THEN
      EXECUTE format('INSERT INTO pg_temp.%I SELECT * FROM jsonb_populate_record(NULL::pg_temp.%1$I, $1)', one.name) USING one.old;
    END IF;
  END LOOP;
  PERFORM set_config('transaction_read_only', 'on', true);
  RETURN QUERY WITH past AS (SELECT * FROM highwater.epoch WHERE crdb_internal_mvcc_timestamp <= standin.hlc_of(t))
    SELECT (SELECT e.id FROM past AS e WHERE e.seq = (SELECT max(seq) FROM past) AND e.cluster_id = crdb_internal.cluster_id()),
      (SELECT e.fork_offset FROM past AS e WHERE e.previous = ended);
END $$;
