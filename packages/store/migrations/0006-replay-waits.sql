-- Whether a replica's recovery waits for log to arrive: then nothing is half replayed, and all that
-- anybody can see there is at or below what counts as replayed. NULL where that is not known. (What
-- it waits for, only monitors may read.)
CREATE FUNCTION highwater.replay_waits() RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
  SELECT wait_event = 'RecoveryWalStream' FROM pg_stat_activity WHERE backend_type = 'startup'
$$;
REVOKE EXECUTE ON FUNCTION highwater.replay_waits() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION highwater.replay_waits() TO highwater_app;
