-- In an epoch with a row here gateways admit no write before `until`, unless `ended_at` is set:
-- lost transactions are brought back first. One gateway at a time does it, and another one takes
-- over when `turn` has passed.
-- (docs/decisions/0243-lost-transactions-come-back-before-writes.md)
CREATE TABLE highwater.replay_hold (
  epoch    uuid PRIMARY KEY,
  began    timestamptz NOT NULL DEFAULT clock_timestamp(),
  until    timestamptz NOT NULL,
  gateway  text,
  turn     timestamptz,
  ended_at timestamptz
);
REVOKE ALL ON highwater.replay_hold FROM PUBLIC, highwater_app, highwater_read;
