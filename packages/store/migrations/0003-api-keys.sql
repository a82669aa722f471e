-- API keys live where the data lives: every gateway sees them, and a failover takes them along. A
-- secret has 256 random bits. No one can guess one from its SHA-256, so a slow hash would only slow
-- every request down.
CREATE TABLE highwater.api_key (
  id          text PRIMARY KEY,
  secret_hash bytea NOT NULL CHECK (octet_length(secret_hash) = 32),
  name        text NOT NULL,
  owner       text NOT NULL CHECK (owner <> ''),
  role        text NOT NULL CHECK (role <> ''),
  scopes      text[] NOT NULL CHECK (scopes <@ '{read,write,admin}' AND array_position(scopes, NULL) IS NULL),
  -- Numbers above zero by the limit's name; a limit that is not named is the service's default.
  limits      jsonb NOT NULL DEFAULT '{}'
    CHECK (jsonb_typeof(limits) = 'object'
      AND NOT jsonb_path_exists(limits, 'strict $.* ? (@.type() <> "number" || @ <= 0)')),
  created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at  timestamptz,
  revoked_at  timestamptz,
  changed_at  timestamptz NOT NULL
);

-- A reader of all changes up to one moment must not miss an earlier one that commits later: changes
-- take turns, and each is stamped later than all before it, whatever the clock says.
CREATE FUNCTION highwater.stamp_api_key() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(7240519003);
  NEW.changed_at := greatest(clock_timestamp(),
    (SELECT max(k.changed_at) + interval '1 microsecond' FROM highwater.api_key k));
  RETURN NEW;
END
$$;

CREATE TRIGGER stamp BEFORE INSERT OR UPDATE ON highwater.api_key
FOR EACH ROW EXECUTE FUNCTION highwater.stamp_api_key();

-- Neither by a grant nor by a database's default privileges.
REVOKE ALL ON highwater.api_key FROM PUBLIC, highwater_app;
