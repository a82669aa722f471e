-- A key that only manages its owner's webhooks is no operator's key.
ALTER TABLE highwater.api_key DROP CONSTRAINT api_key_scopes_check;
ALTER TABLE highwater.api_key ADD CONSTRAINT api_key_scopes_check
  CHECK (scopes <@ '{read,write,webhooks,admin}' AND array_position(scopes, NULL) IS NULL);
