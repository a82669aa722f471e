-- Who changed keys, webhooks and authority, and why: an entry for each change, written in its own
-- transaction. (docs/decisions/0106-an-audit-log.md) In a schema of its own, which the set-up of
-- roles makes by this very file before the services start. Then an administrator owns it, and the
-- services' role may add to it and read it, and can neither change nor drop what is there. Where
-- the set-up was not run, the services' role makes it here, and owns it.
DO $audit$
BEGIN
  IF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'highwater_audit') THEN
    RETURN;
  END IF;
  CREATE SCHEMA highwater_audit;

  CREATE TABLE highwater_audit.entry (
    n       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- As the command or the request says it; the login role where nothing does.
    actor   text NOT NULL,
    -- What the server itself knows of the session: the services' role may not name these columns.
    login   text NOT NULL DEFAULT session_user,
    address inet DEFAULT inet_client_addr(),
    program text DEFAULT current_setting('application_name'),
    action  text NOT NULL,
    target  text NOT NULL,
    reason  text,
    detail  jsonb NOT NULL
  );

  CREATE FUNCTION highwater_audit.refuse() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
  BEGIN
    RAISE EXCEPTION 'the audit log is only added to' USING ERRCODE = 'insufficient_privilege',
      HINT = 'Its owner can take entries out that are old enough: ALTER TABLE highwater_audit.entry DISABLE TRIGGER append_only, in the transaction that deletes.';
  END
  $$;
  CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON highwater_audit.entry
  FOR EACH STATEMENT EXECUTE FUNCTION highwater_audit.refuse();

  -- Neither by a grant nor by a database's default privileges.
  REVOKE ALL ON SCHEMA highwater_audit FROM PUBLIC, highwater_app, highwater_read;
  REVOKE ALL ON highwater_audit.entry FROM PUBLIC, highwater_app, highwater_read;
END
$audit$;
