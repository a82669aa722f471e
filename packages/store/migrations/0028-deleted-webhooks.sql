-- An endpoint that its owner has deleted gets nothing more, and its owner does not see it. Trackers
-- remove its deliveries a few at a time, and then its row. One statement for all of them would lock
-- the row for seconds, and every tracker that records events waits for that lock.
ALTER TABLE highwater.webhook_endpoint ADD COLUMN deleted_at timestamptz;
CREATE INDEX webhook_endpoint_deleted ON highwater.webhook_endpoint (deleted_at) WHERE deleted_at IS NOT NULL;

-- What the trackers note of deliveries is no change of the endpoint: when it began to fail, whether
-- its owner was informed, and that a secret's time is over. That they disable one is. A deletion is
-- entered when the owner asks for it, and not when the row goes.
CREATE OR REPLACE FUNCTION highwater.audit_webhook() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
  w highwater.webhook_endpoint := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
  detail jsonb := jsonb_build_object('owner', w.owner::text, 'url', w.url, 'description', w.description, 'events', w.events,
    'filter', w.filter, 'disabled', w.disabled_why);
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM highwater.audit(NULL, 'webhook.create', w.id, NULL, detail);
    RETURN NULL;
  END IF;
  IF OLD.deleted_at IS NULL AND (TG_OP = 'DELETE' OR w.deleted_at IS NOT NULL) THEN
    PERFORM highwater.audit(NULL, 'webhook.delete', OLD.id, NULL, detail);
  END IF;
  IF TG_OP = 'DELETE' THEN
    RETURN NULL;
  END IF;
  IF OLD.secret <> NEW.secret THEN
    PERFORM highwater.audit(NULL, 'webhook.rotate', w.id, NULL,
      jsonb_build_object('owner', w.owner::text, 'previousUntil', NEW.previous_until));
  END IF;
  IF (OLD.id, OLD.owner, OLD.url, OLD.description, OLD.events, OLD.filter, OLD.disabled_why)
    IS DISTINCT FROM (NEW.id, NEW.owner, NEW.url, NEW.description, NEW.events, NEW.filter, NEW.disabled_why)
    OR (OLD.deleted_at IS NOT NULL AND NEW.deleted_at IS NULL) THEN
    PERFORM highwater.audit(NULL, 'webhook.change', OLD.id, NULL, detail);
  END IF;
  RETURN NULL;
END
$$;
