-- Rows and claims of one login role cost the consumers of another role nothing, also under the same
-- topic. (docs/decisions/0255-cheap-calls-of-one-owner.md)

DROP INDEX highwater.outbox_age;
CREATE INDEX outbox_age ON highwater.outbox (topic, writer, written_at);
-- Made again: of indexes that cost the same by its statistics, the planner takes the newest.
DROP INDEX highwater.outbox_order;
CREATE UNIQUE INDEX outbox_order ON highwater.outbox (topic, key, writer, place);

-- In two, so that a look for some of either walks over none of the other.
DROP INDEX highwater.outbox_hold_until;
CREATE INDEX outbox_hold_until ON highwater.outbox_hold (held_until) WHERE held_until < 'infinity';
CREATE INDEX outbox_hold_parked ON highwater.outbox_hold (topic, writer) WHERE held_until = 'infinity';

-- As in 0031, but looks for rows by their writer.
CREATE OR REPLACE FUNCTION highwater.outbox_take(topic text, claim uuid, lease_ms integer, row_limit integer, max_attempts integer)
RETURNS TABLE (id uuid, key text, writer text, payload jsonb, written_at timestamptz, attempt integer)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  room integer := outbox_take.row_limit;
  writers text[] := ARRAY(SELECT r.rolname FROM pg_roles r WHERE pg_has_role(session_user, r.oid, 'MEMBER'));
  -- Not in the statement: no index serves a comparison with a volatile function.
  stale timestamptz := clock_timestamp() - interval '1 day';
  found_key record;
  head record;
  returned integer;
BEGIN
  -- Behind a key's lock, each statement here must see what has committed since.
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'highwater.outbox_take runs in READ COMMITTED transactions only, not in %', upper(current_setting('transaction_isolation'))
      USING ERRCODE = 'feature_not_supported';
  END IF;
  DELETE FROM highwater.outbox_hold h WHERE (h.topic, h.key, h.writer) IN (
    SELECT old.topic, old.key, old.writer FROM highwater.outbox_hold old
    WHERE old.held_until < stale AND old.held_until < 'infinity' LIMIT 100 FOR UPDATE SKIP LOCKED);
  -- Two that take at once lock keys in the same order.
  FOR found_key IN
    SELECT DISTINCT o.key, o.writer FROM (
      SELECT o.key, o.writer FROM unnest(writers) w (writer) CROSS JOIN LATERAL (
        SELECT o.key, o.writer, o.written_at FROM highwater.outbox o
        WHERE o.topic = outbox_take.topic AND o.writer = w.writer
          -- OFFSET: a look at one hold for each row, never a join with the holds of all writers.
          AND NOT EXISTS (SELECT FROM highwater.outbox_hold h
            WHERE h.topic = o.topic AND h.key = o.key AND h.writer = o.writer AND h.held_until > clock_timestamp() OFFSET 0)
        ORDER BY o.written_at LIMIT outbox_take.row_limit
      ) o ORDER BY o.written_at LIMIT outbox_take.row_limit
    ) o ORDER BY o.key, o.writer
  LOOP
    EXIT WHEN room <= 0;
    INSERT INTO highwater.outbox_hold AS h (topic, key, writer, claim, held_until)
    VALUES (outbox_take.topic, found_key.key, found_key.writer, outbox_take.claim,
      clock_timestamp() + outbox_take.lease_ms * interval '1 ms')
    ON CONFLICT (topic, key, writer) DO UPDATE SET claim = excluded.claim, held_until = excluded.held_until
    WHERE h.held_until <= clock_timestamp();
    CONTINUE WHEN NOT FOUND;
    SELECT o.id, o.attempts INTO head FROM highwater.outbox o
    WHERE o.topic = outbox_take.topic AND o.key = found_key.key AND o.writer = found_key.writer ORDER BY o.place LIMIT 1;
    IF NOT FOUND THEN
      DELETE FROM highwater.outbox_hold h
      WHERE h.topic = outbox_take.topic AND h.key = found_key.key AND h.writer = found_key.writer;
      CONTINUE;
    END IF;
    IF head.attempts >= outbox_take.max_attempts THEN
      UPDATE highwater.outbox_hold h SET claim = NULL, held_until = 'infinity'
      WHERE h.topic = outbox_take.topic AND h.key = found_key.key AND h.writer = found_key.writer;
      CONTINUE;
    END IF;
    UPDATE highwater.outbox o SET attempts = o.attempts + 1 WHERE o.id = head.id;
    RETURN QUERY SELECT o.id, o.key, o.writer, o.payload, o.written_at, greatest(o.attempts, 1) FROM highwater.outbox o
    WHERE o.topic = outbox_take.topic AND o.key = found_key.key AND o.writer = found_key.writer
    ORDER BY o.place LIMIT CASE WHEN head.attempts > 0 THEN 1 ELSE room END;
    GET DIAGNOSTICS returned = ROW_COUNT;
    room := room - returned;
  END LOOP;
END
$$;

-- As in 0031, but looks for keys by their writer.
CREATE OR REPLACE FUNCTION highwater.outbox_parked(topic text)
RETURNS TABLE (id uuid, key text, writer text, payload jsonb, written_at timestamptz, attempts integer, last_error text, behind bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
  SELECT o.id, o.key, o.writer, o.payload, o.written_at, o.attempts, o.last_error,
    (SELECT count(*) FROM highwater.outbox b WHERE b.topic = o.topic AND b.key = o.key AND b.writer = o.writer AND b.place > o.place)
  -- COLLATE: that of names is another one, with which no index serves.
  FROM unnest(ARRAY(SELECT r.rolname::text COLLATE "default" FROM pg_roles r WHERE pg_has_role(session_user, r.oid, 'MEMBER'))) w (writer)
  CROSS JOIN LATERAL (
    SELECT h.* FROM highwater.outbox_hold h
    WHERE h.held_until = 'infinity' AND h.topic = outbox_parked.topic AND h.writer = w.writer OFFSET 0
  ) h CROSS JOIN LATERAL (
    SELECT f.* FROM highwater.outbox f WHERE f.topic = h.topic AND f.key = h.key AND f.writer = h.writer ORDER BY f.place LIMIT 1
  ) o
$$;

-- A plan that was made while a table was small is kept when it has grown.
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['highwater.outbox_take(text, uuid, integer, integer, integer)', 'highwater.outbox_ack(uuid, uuid[])',
    'highwater.outbox_fail(uuid, uuid, text, integer, integer)', 'highwater.outbox_release(uuid, uuid[])',
    'highwater.outbox_parked(text)', 'highwater.outbox_unpark(uuid, boolean)']::regprocedure[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET enable_seqscan = off', f);
  END LOOP;
END
$$;
