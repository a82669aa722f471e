-- The entries of the audit log, for changes by the services, by the commands, or by SQL by hand.
-- Secrets and their hashes are not.

-- Empty: it is there to be locked, so that entries become visible in the order of their numbers.
-- A reader that has read up to one misses none before it.
CREATE TABLE highwater.audit_turn ();
REVOKE ALL ON highwater.audit_turn FROM PUBLIC, highwater_app, highwater_read;

-- As the owner: the role that makes the change need not have the right to write the log.
CREATE FUNCTION highwater.audit(by_whom text, action text, target text, why text, detail jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
  LOCK TABLE highwater.audit_turn IN EXCLUSIVE MODE;
  INSERT INTO highwater_audit.entry (actor, action, target, reason, detail)
  VALUES (coalesce(nullif(by_whom, ''), nullif(current_setting('highwater.actor', true), ''), session_user), action, target,
    coalesce(nullif(why, ''), nullif(current_setting('highwater.reason', true), '')), jsonb_strip_nulls(detail));
END
$$;

CREATE FUNCTION highwater.audit_api_key() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
  k highwater.api_key := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
  detail jsonb := jsonb_build_object('name', k.name, 'owner', k.owner, 'role', k.role, 'scopes', k.scopes, 'limits', k.limits,
    'expiresAt', k.expires_at, 'revokedAt', k.revoked_at);
BEGIN
  IF TG_OP <> 'UPDATE' THEN
    PERFORM highwater.audit(NULL, CASE TG_OP WHEN 'INSERT' THEN 'key.create' ELSE 'key.delete' END, k.id, NULL, detail);
    RETURN NULL;
  END IF;
  IF (OLD.id, OLD.secret_hash, OLD.name, OLD.owner, OLD.role, OLD.scopes, OLD.limits)
    IS DISTINCT FROM (NEW.id, NEW.secret_hash, NEW.name, NEW.owner, NEW.role, NEW.scopes, NEW.limits) THEN
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
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON highwater.api_key
FOR EACH ROW EXECUTE FUNCTION highwater.audit_api_key();

CREATE FUNCTION highwater.audit_login_role() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
  l highwater.login_role := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
BEGIN
  IF TG_OP <> 'UPDATE' OR OLD IS DISTINCT FROM NEW THEN
    PERFORM highwater.audit(NULL, CASE TG_OP WHEN 'INSERT' THEN 'role.record' WHEN 'UPDATE' THEN 'role.change' ELSE 'role.delete' END,
      l.role, NULL, jsonb_build_object('owner', l.owner, 'access', l.access));
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON highwater.login_role
FOR EACH ROW EXECUTE FUNCTION highwater.audit_login_role();

-- What the trackers note of deliveries is no change of the endpoint: when it began to fail, whether
-- its owner was informed, and that a secret's time is over. That they disable one is.
CREATE FUNCTION highwater.audit_webhook() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
  w highwater.webhook_endpoint := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
  detail jsonb := jsonb_build_object('owner', w.owner::text, 'url', w.url, 'description', w.description, 'events', w.events,
    'filter', w.filter, 'disabled', w.disabled_why);
BEGIN
  IF TG_OP <> 'UPDATE' THEN
    PERFORM highwater.audit(NULL, CASE TG_OP WHEN 'INSERT' THEN 'webhook.create' ELSE 'webhook.delete' END, w.id, NULL, detail);
    RETURN NULL;
  END IF;
  IF OLD.secret <> NEW.secret THEN
    PERFORM highwater.audit(NULL, 'webhook.rotate', w.id, NULL,
      jsonb_build_object('owner', w.owner::text, 'previousUntil', NEW.previous_until));
  END IF;
  IF (OLD.id, OLD.owner, OLD.url, OLD.description, OLD.events, OLD.filter, OLD.disabled_why)
    IS DISTINCT FROM (NEW.id, NEW.owner, NEW.url, NEW.description, NEW.events, NEW.filter, NEW.disabled_why) THEN
    PERFORM highwater.audit(NULL, 'webhook.change', OLD.id, NULL, detail);
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON highwater.webhook_endpoint
FOR EACH ROW EXECUTE FUNCTION highwater.audit_webhook();

-- An operator's command that a node is the primary settles a split brain, and gives epochs up. That
-- it was carried out is in the epoch's record.
CREATE FUNCTION highwater.audit_authority() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
  c highwater.authority_command := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
  detail jsonb := jsonb_build_object('command', c.id, 'overrules', c.overrules, 'idsFrom', c.ids_from);
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM highwater.audit(c.issued_by, CASE WHEN c.ids_from IS NULL THEN 'authority.authorize' ELSE 'authority.adopt' END,
      c.node, c.reason, detail);
  ELSIF TG_OP = 'DELETE' THEN
    PERFORM highwater.audit(NULL, 'authority.delete', c.node, NULL, detail);
  ELSIF (OLD.id, OLD.node, OLD.reason, OLD.issued_by, OLD.overrules, OLD.ids_from, OLD.after_seq, OLD.issued_at)
    IS DISTINCT FROM (NEW.id, NEW.node, NEW.reason, NEW.issued_by, NEW.overrules, NEW.ids_from, NEW.after_seq, NEW.issued_at) THEN
    PERFORM highwater.audit(NULL, 'authority.change', c.node, NULL, detail);
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON highwater.authority_command
FOR EACH ROW EXECUTE FUNCTION highwater.audit_authority();

CREATE FUNCTION highwater.audit_deployment_key() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
  d highwater.deployment_key := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
BEGIN
  PERFORM highwater.audit(NULL, CASE TG_OP WHEN 'INSERT' THEN 'deployment-key.record' WHEN 'UPDATE' THEN 'deployment-key.change'
    ELSE 'deployment-key.delete' END, d.kid::text, NULL, jsonb_build_object('validFrom', d.valid_from));
  RETURN NULL;
END
$$;
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON highwater.deployment_key
FOR EACH ROW EXECUTE FUNCTION highwater.audit_deployment_key();

-- TRUNCATE leaves no rows to list.
CREATE FUNCTION highwater.audit_truncate() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
  PERFORM highwater.audit(NULL, 'table.truncate', TG_TABLE_SCHEMA || '.' || TG_TABLE_NAME, NULL, '{}');
  RETURN NULL;
END
$$;
CREATE TRIGGER audit_truncate AFTER TRUNCATE ON highwater.api_key FOR EACH STATEMENT EXECUTE FUNCTION highwater.audit_truncate();
CREATE TRIGGER audit_truncate AFTER TRUNCATE ON highwater.login_role FOR EACH STATEMENT EXECUTE FUNCTION highwater.audit_truncate();
CREATE TRIGGER audit_truncate AFTER TRUNCATE ON highwater.webhook_endpoint FOR EACH STATEMENT EXECUTE FUNCTION highwater.audit_truncate();
CREATE TRIGGER audit_truncate AFTER TRUNCATE ON highwater.authority_command FOR EACH STATEMENT EXECUTE FUNCTION highwater.audit_truncate();
CREATE TRIGGER audit_truncate AFTER TRUNCATE ON highwater.deployment_key FOR EACH STATEMENT EXECUTE FUNCTION highwater.audit_truncate();

-- Only the triggers call them: anybody else would write what did not happen.
REVOKE EXECUTE ON FUNCTION highwater.audit(text, text, text, text, jsonb), highwater.audit_api_key(), highwater.audit_login_role(),
  highwater.audit_webhook(), highwater.audit_authority(), highwater.audit_deployment_key(), highwater.audit_truncate() FROM PUBLIC;
