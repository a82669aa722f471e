-- How long a write transaction of each gateway process may take at most. A gateway that settles an
-- id ends the session that holds it only when its transaction is older than the largest of these.
-- (docs/decisions/0087-who-may-end-a-transaction.md) No role but the service's may read or write
-- it, so no SQL of a tenant can shorten another's time. UNLOGGED: a crash or a promotion ends every
-- session whose limit is here; gateways write theirs again before their next session.
CREATE UNLOGGED TABLE highwater.transaction_limit (
  process  uuid PRIMARY KEY,
  name     text NOT NULL,
  limit_ms bigint NOT NULL CHECK (limit_ms > 0),
  seen_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
