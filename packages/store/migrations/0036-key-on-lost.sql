-- What becomes of a key's transactions that are lost; NULL: their client decides.
-- (docs/decisions/0243-lost-transactions-come-back-before-writes.md)
ALTER TABLE highwater.api_key ADD COLUMN on_lost text CHECK (on_lost = 'replay');

CREATE OR REPLACE FUNCTION highwater.audit_api_key() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
  k highwater.api_key := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
  detail jsonb := jsonb_build_object('name', k.name, 'owner', k.owner, 'role', k.role, 'scopes', k.scopes, 'limits', k.limits,
    'minLevel', k.min_level, 'onLost', k.on_lost, 'expiresAt', k.expires_at, 'revokedAt', k.revoked_at);
BEGIN
  IF TG_OP <> 'UPDATE' THEN
    PERFORM highwater.audit(NULL, CASE TG_OP WHEN 'INSERT' THEN 'key.create' ELSE 'key.delete' END, k.id, NULL, detail);
    RETURN NULL;
  END IF;
  IF (OLD.id, OLD.secret_hash, OLD.name, OLD.owner, OLD.role, OLD.scopes, OLD.limits, OLD.min_level, OLD.on_lost)
    IS DISTINCT FROM (NEW.id, NEW.secret_hash, NEW.name, NEW.owner, NEW.role, NEW.scopes, NEW.limits, NEW.min_level, NEW.on_lost) THEN
    PERFORM highwater.audit(NULL, 'key.change', OLD.id, NULL,
      detail || jsonb_build_object('id', NEW.id, 'secretReplaced', OLD.secret_hash <> NEW.secret_hash));
  END IF;
  IF OLD.revoked_at IS DISTINCT FROM NEW.revoked_at THEN
    PERFORM highwater.audit(NULL, CASE WHEN NEW.revoked_at IS NULL THEN 'key.restore' ELSE 'key.revoke' END, k.id, NULL, detail);
  END IF;
  IF OLD.expires_at IS DISTINCT FROM NEW.expires_at THEN
    PERFORM highwater.audit(NULL, 'key.expire', k.id, NULL, detail || jsonb_build_object('expiredAt', OLD.expires_at));
  END IF;
  RETURN NULL;
END
$$;
