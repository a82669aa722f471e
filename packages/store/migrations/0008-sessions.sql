-- What the service runs in sessions that it shares with the SQL of requests. In PL/pgSQL: its plans
-- are kept in the session, and no SQL can list, run or replace them, as it can with prepared
-- statements. All names are qualified, because the search path of the session is the request's; a
-- SET clause instead would cost more than the functions do.

-- The epoch that the view `current_epoch` of a later migration shows, or NULL.
CREATE FUNCTION highwater.sentinel_epoch() RETURNS uuid LANGUAGE plpgsql STABLE
AS $$
BEGIN
  RETURN (SELECT s.id FROM highwater.current_epoch s);
END
$$;

-- The part of a session's reset that only functions can do, and whether SQL has prepared statements
-- in it. One of those may stand under the name of another one. The seed of random() survives even
-- DISCARD ALL. As the owner: roles need not be allowed to see prepared statements.
CREATE FUNCTION highwater.leave_session() RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
BEGIN
  PERFORM pg_catalog.pg_advisory_unlock_all();
  PERFORM pg_catalog.setseed(pg_catalog.hashtextextended(pg_catalog.gen_random_uuid()::pg_catalog.text, 0)::pg_catalog.float8
    OPERATOR(pg_catalog./) '9223372036854775808'::pg_catalog.float8);
  RETURN EXISTS (SELECT FROM pg_catalog.pg_prepared_statement() p WHERE p.from_sql);
END
$$;

REVOKE EXECUTE ON FUNCTION highwater.sentinel_epoch(), highwater.leave_session() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION highwater.sentinel_epoch(), highwater.leave_session() TO highwater_app;
