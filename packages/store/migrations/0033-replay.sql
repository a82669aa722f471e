-- What replay needs: who may do it, which lost transactions were brought back, and whether a row
-- was written since the loss. (docs/decisions/0234-lost-transactions-are-brought-back.md)
ALTER TABLE highwater.api_key DROP CONSTRAINT api_key_scopes_check;
ALTER TABLE highwater.api_key ADD CONSTRAINT api_key_scopes_check
  CHECK (scopes <@ '{read,write,webhooks,admin,contents:read,contents:replay}' AND array_position(scopes, NULL) IS NULL);

-- Transactions with lower ids began before the epoch did. NULL: not known, as for older epochs.
ALTER TABLE highwater.epoch ADD COLUMN began xid8;
ALTER TABLE highwater.epoch ALTER COLUMN began SET DEFAULT pg_current_xact_id();

-- One row for each lost transaction that was brought back, written by the transaction that does it.
-- `tag`: that of the lost transaction's receipt, so SQL cannot take the place of another's row.
CREATE TABLE highwater.redo (
  root   uuid NOT NULL,
  tag    uuid NOT NULL,
  id     uuid NOT NULL,
  writer xid8 NOT NULL DEFAULT pg_current_xact_id(),
  PRIMARY KEY (root, tag)
);
-- By hash: it finds the rows of a writer, and xids have no order.
CREATE INDEX redo_writer ON highwater.redo USING hash (xid(writer));
REVOKE ALL ON highwater.redo FROM PUBLIC, highwater_app, highwater_read;
GRANT INSERT (root, tag, id) ON highwater.redo TO highwater_app;

-- True if a row with this xmin was written before the epoch began, or by a transaction that brings
-- a lost one back. Ages, because xids wrap around.
CREATE FUNCTION highwater.is_untouched(since uuid, writer xid) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
  SELECT EXISTS (SELECT FROM highwater.epoch e WHERE e.id = since AND age(writer) > age(xid(e.began)))
    OR EXISTS (SELECT FROM highwater.redo r WHERE xid(r.writer) = is_untouched.writer)
$$;
REVOKE EXECUTE ON FUNCTION highwater.is_untouched(uuid, xid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION highwater.is_untouched(uuid, xid) TO highwater_app;
