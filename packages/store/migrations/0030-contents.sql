-- Who may read the contents of lost transactions, and which contents no tracker may keep any more.
-- (docs/decisions/0226-contents-of-lost-transactions-are-kept.md)
ALTER TABLE highwater.api_key DROP CONSTRAINT api_key_scopes_check;
ALTER TABLE highwater.api_key ADD CONSTRAINT api_key_scopes_check
  CHECK (scopes <@ '{read,write,webhooks,admin,contents:read}' AND array_position(scopes, NULL) IS NULL);

-- The mark of an erasure: contents of the owner's transactions whose ids carry a time up to
-- through_ms are refused, also from a tracker or a gateway that comes back later.
CREATE TABLE highwater.contents_erasure (
  owner      numeric(39) PRIMARY KEY,
  through_ms bigint NOT NULL,
  erased_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
REVOKE ALL ON highwater.contents_erasure FROM PUBLIC, highwater_app, highwater_read;

CREATE FUNCTION highwater.audit_contents_erasure() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
  e highwater.contents_erasure := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
BEGIN
  PERFORM highwater.audit(NULL, CASE TG_OP WHEN 'DELETE' THEN 'contents.unerase' ELSE 'contents.erase' END, e.owner::text, NULL,
    jsonb_build_object('owner', e.owner::text, 'throughMs', e.through_ms));
  RETURN NULL;
END
$$;
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON highwater.contents_erasure
FOR EACH ROW EXECUTE FUNCTION highwater.audit_contents_erasure();
REVOKE EXECUTE ON FUNCTION highwater.audit_contents_erasure() FROM PUBLIC;
