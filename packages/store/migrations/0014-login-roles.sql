-- Who a login role of API keys belongs to: one owner, and one access. A role of keys that only read
-- is a member of highwater_read and not of highwater_app, so PostgreSQL itself refuses what it
-- would write. (docs/decisions/0098-read-keys-have-roles-that-cannot-write.md)
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'highwater_read') THEN
    CREATE ROLE highwater_read NOLOGIN;
  END IF;
END
$$;

-- What a transaction that only reads runs besides its own SQL: where the log is, in which epoch,
-- and the reset behind it.
GRANT USAGE ON SCHEMA highwater TO highwater_read;
GRANT SELECT ON highwater.current_epoch TO highwater_read;
GRANT EXECUTE ON FUNCTION highwater.sentinel_epoch(), highwater.leave_session(), highwater.replay_waits(),
  highwater.replica_snapshot(uuid, pg_lsn) TO highwater_read;

CREATE TABLE highwater.login_role (
  role   text PRIMARY KEY,
  owner  text NOT NULL,
  access text NOT NULL CHECK (access IN ('read', 'write'))
);
REVOKE ALL ON highwater.login_role FROM PUBLIC, highwater_app, highwater_read;

-- Roles of keys that are there already. A role that two owners, or keys of both kinds, share cannot
-- be recorded.
DO $$
DECLARE
  live CONSTANT text := $live$SELECT DISTINCT role, owner, CASE WHEN 'write' = ANY (scopes) THEN 'write' ELSE 'read' END
    FROM highwater.api_key WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())$live$;
  shared text;
BEGIN
  EXECUTE format('SELECT string_agg(role, '', '' ORDER BY role) FROM (
    SELECT role FROM (%s) live GROUP BY role HAVING count(*) > 1) several', live) INTO shared;
  IF shared IS NOT NULL THEN
    RAISE EXCEPTION 'keys of several owners, or keys that may write and keys that may not, share the login roles %', shared
      USING HINT = 'Since migration 0014 a role belongs to one owner and one access. Revoke keys until each role has keys of one owner and one kind (keys list, keys revoke ID), start again, and create those keys anew with roles of their own.';
  END IF;
  EXECUTE 'INSERT INTO highwater.login_role (role, owner, access) ' || live;
END
$$;
