-- A receipt belongs to an owner: its key is the transaction's id with a tag, an HMAC under a key of
-- the deployment over the owner and the id. SQL cannot compute a tag. So a row that SQL writes
-- under somebody else's id has another key: no look-up finds it, and no insert of the service
-- collides with it or waits for it. (docs/decisions/0083-a-receipt-belongs-to-an-owner.md)

-- Receipts without tags cannot get one: they do not say who their owner was.
DO $$
BEGIN
  IF EXISTS (SELECT FROM highwater.receipt)
    OR EXISTS (SELECT FROM highwater.event WHERE owner <> 0)
    OR EXISTS (SELECT FROM highwater.webhook_endpoint WHERE owner <> 0) THEN
    RAISE EXCEPTION 'this store holds receipts, events or webhooks of a Highwater from before migration 0011, which name their owners in a way that this version cannot read'
      USING HINT = 'Let every transaction become durable, note the webhook endpoints, stop all gateways and trackers, run DROP SCHEMA highwater, highwater_jobs CASCADE on the primary, delete the ledgers of all trackers, start again and create keys and webhooks anew.';
  END IF;
END
$$;

DROP TABLE highwater.receipt;

-- `digest`: of what the transaction ran, so that a replay with another body is refused. 0: of a
-- tombstone.
CREATE TABLE highwater.receipt (
  id     uuid NOT NULL,
  tag    uuid NOT NULL,
  epoch  uuid NOT NULL,
  digest bigint NOT NULL,
  kind   highwater.receipt_kind NOT NULL DEFAULT 'commit',
  PRIMARY KEY (id, tag)
) PARTITION BY RANGE (id);

REVOKE ALL ON highwater.receipt FROM PUBLIC, highwater_app;
GRANT INSERT (id, tag, epoch, digest) ON highwater.receipt TO highwater_app;

-- The service's INSERT reads the epoch from the sentinel. The policy holds every other INSERT to
-- the same: nothing commits a receipt of an epoch that this server process is not in. Commands
-- without a policy see no row. The service's own role owns the table, and policies do not apply to
-- it.
ALTER TABLE highwater.receipt ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_epoch ON highwater.receipt FOR INSERT TO highwater_app
  WITH CHECK (epoch = (SELECT s.id FROM highwater.current_epoch s));

-- An owner's tag has 128 bits, unsigned.
ALTER TABLE highwater.event ALTER COLUMN owner TYPE numeric(39);
ALTER TABLE highwater.webhook_endpoint ALTER COLUMN owner TYPE numeric(39);
