-- The outbox: rows that applications insert in their own transactions, and that consumers get once
-- they are durable, in order per key. (docs/guide/outbox.md,
-- docs/decisions/0227-an-outbox-that-takes-nothing-back.md)

-- `writer`: the login role that inserted the row. Only its members get the row. `place`: the order
-- within the key. `attempts`: how often a consumer got the row as the first of its key.
CREATE TABLE highwater.outbox (
  id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  topic      text NOT NULL CHECK (octet_length(topic) BETWEEN 1 AND 200),
  key        text NOT NULL CHECK (octet_length(key) <= 1000),
  payload    jsonb NOT NULL,
  writer     text NOT NULL,
  place      bigint NOT NULL,
  written_at timestamptz NOT NULL,
  attempts   integer NOT NULL DEFAULT 0,
  last_error text
);
CREATE UNIQUE INDEX outbox_order ON highwater.outbox (topic, key, writer, place);
CREATE INDEX outbox_age ON highwater.outbox (topic, written_at);

-- The last place of a key. Its row is the lock of the key: a transaction that inserts into the
-- outbox holds it until its end, so places are in the order of commits. A stale snapshot fails with
-- 40001.
CREATE TABLE highwater.outbox_key (
  topic      text NOT NULL,
  key        text NOT NULL,
  writer     text NOT NULL,
  last_place bigint NOT NULL,
  PRIMARY KEY (topic, key, writer)
);

-- Keys whose rows no other consumer gets until then: of a claim, or between two attempts.
-- `infinity`: the key's first row is parked.
CREATE TABLE highwater.outbox_hold (
  topic      text NOT NULL,
  key        text NOT NULL,
  writer     text NOT NULL,
  claim      uuid,
  held_until timestamptz NOT NULL,
  PRIMARY KEY (topic, key, writer)
);
CREATE INDEX outbox_hold_claim ON highwater.outbox_hold (claim);
CREATE INDEX outbox_hold_until ON highwater.outbox_hold (held_until);

REVOKE ALL ON highwater.outbox, highwater.outbox_key, highwater.outbox_hold FROM PUBLIC, highwater_app, highwater_read;
GRANT INSERT (id, topic, key, payload) ON highwater.outbox TO highwater_app;

-- As the owner: an application may take a key's lock by inserting a row, and in no other way.
CREATE FUNCTION highwater.outbox_place() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  NEW.writer := session_user;
  INSERT INTO highwater.outbox_key AS k (topic, key, writer, last_place) VALUES (NEW.topic, NEW.key, NEW.writer, 1)
  ON CONFLICT (topic, key, writer) DO UPDATE SET last_place = k.last_place + 1
  RETURNING k.last_place INTO NEW.place;
  NEW.written_at := clock_timestamp();
  NEW.attempts := 0;
  NEW.last_error := NULL;
  RETURN NEW;
END
$$;
CREATE TRIGGER place BEFORE INSERT ON highwater.outbox FOR EACH ROW EXECUTE FUNCTION highwater.outbox_place();

-- Claims keys of the topic that no one holds, for `lease_ms`, and returns their first rows. The
-- caller may act on the rows when this transaction is durable: it committed after all of them, and
-- then no failover ends its claim either. After a failed attempt the first row of a key comes
-- alone, so that only the row that fails uses up its attempts.
CREATE FUNCTION highwater.outbox_take(topic text, claim uuid, lease_ms integer, row_limit integer, max_attempts integer)
RETURNS TABLE (id uuid, key text, writer text, payload jsonb, written_at timestamptz, attempt integer)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  room integer := outbox_take.row_limit;
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
    WHERE old.held_until < clock_timestamp() - interval '1 day' LIMIT 100 FOR UPDATE SKIP LOCKED);
  -- Two that take at once lock keys in the same order.
  FOR found_key IN
    SELECT DISTINCT o.key, o.writer FROM (
      SELECT o.key, o.writer FROM highwater.outbox o
      WHERE o.topic = outbox_take.topic
        AND EXISTS (SELECT FROM pg_roles r WHERE r.rolname = o.writer AND pg_has_role(session_user, r.oid, 'MEMBER'))
        AND NOT EXISTS (SELECT FROM highwater.outbox_hold h
          WHERE h.topic = o.topic AND h.key = o.key AND h.writer = o.writer AND h.held_until > clock_timestamp())
      ORDER BY o.written_at LIMIT outbox_take.row_limit
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

-- Deletes rows that were delivered. Returns how many: of a key that another claim has taken over,
-- none.
CREATE FUNCTION highwater.outbox_ack(claim uuid, ids uuid[]) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  deleted integer;
BEGIN
  PERFORM FROM highwater.outbox_hold h WHERE h.claim = outbox_ack.claim ORDER BY h.topic, h.key, h.writer FOR UPDATE;
  DELETE FROM highwater.outbox o USING highwater.outbox_hold h
  WHERE o.id = ANY (outbox_ack.ids) AND h.claim = outbox_ack.claim
    AND h.topic = o.topic AND h.key = o.key AND h.writer = o.writer;
  GET DIAGNOSTICS deleted = ROW_COUNT;
  RETURN deleted;
END
$$;

-- Notes that a row failed. Its key waits for `retry_ms`, or is parked after `max_attempts`. False:
-- another claim has the key.
CREATE FUNCTION highwater.outbox_fail(claim uuid, id uuid, error text, retry_ms integer, max_attempts integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  failed record;
BEGIN
  SELECT o.topic, o.key, o.writer, o.attempts INTO failed FROM highwater.outbox o WHERE o.id = outbox_fail.id;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  UPDATE highwater.outbox_hold h SET claim = NULL, held_until = CASE
    WHEN failed.attempts >= outbox_fail.max_attempts THEN 'infinity'
    ELSE clock_timestamp() + outbox_fail.retry_ms * interval '1 ms' END
  WHERE h.claim = outbox_fail.claim AND h.topic = failed.topic AND h.key = failed.key AND h.writer = failed.writer;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  -- One that was not the first of its key when it was taken has no attempt yet.
  UPDATE highwater.outbox o SET last_error = left(outbox_fail.error, 1000), attempts = greatest(o.attempts, 1)
  WHERE o.id = outbox_fail.id;
  RETURN true;
END
$$;

-- Ends a claim. `unstarted`: rows that the consumer got and never began to handle, which is no
-- attempt. Forgets keys that have no rows, unless a transaction is about to insert one.
CREATE FUNCTION highwater.outbox_release(claim uuid, unstarted uuid[] DEFAULT '{}') RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  held record;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'highwater.outbox_release runs in READ COMMITTED transactions only, not in %', upper(current_setting('transaction_isolation'))
      USING ERRCODE = 'feature_not_supported';
  END IF;
  FOR held IN
    SELECT h.topic, h.key, h.writer FROM highwater.outbox_hold h WHERE h.claim = outbox_release.claim
    ORDER BY h.topic, h.key, h.writer FOR UPDATE
  LOOP
    UPDATE highwater.outbox o SET attempts = greatest(o.attempts - 1, 0)
    WHERE o.id = ANY (outbox_release.unstarted) AND o.topic = held.topic AND o.key = held.key AND o.writer = held.writer;
    PERFORM FROM highwater.outbox_key k
    WHERE k.topic = held.topic AND k.key = held.key AND k.writer = held.writer FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      DELETE FROM highwater.outbox_key k WHERE k.topic = held.topic AND k.key = held.key AND k.writer = held.writer
        AND NOT EXISTS (SELECT FROM highwater.outbox o
          WHERE o.topic = held.topic AND o.key = held.key AND o.writer = held.writer);
    END IF;
    DELETE FROM highwater.outbox_hold h WHERE h.topic = held.topic AND h.key = held.key AND h.writer = held.writer;
  END LOOP;
END
$$;

-- Rows that failed too often. Each stops its key until `outbox_unpark`.
CREATE FUNCTION highwater.outbox_parked(topic text)
RETURNS TABLE (id uuid, key text, writer text, payload jsonb, written_at timestamptz, attempts integer, last_error text, behind bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
  SELECT o.id, o.key, o.writer, o.payload, o.written_at, o.attempts, o.last_error,
    (SELECT count(*) FROM highwater.outbox b WHERE b.topic = o.topic AND b.key = o.key AND b.writer = o.writer AND b.place > o.place)
  FROM highwater.outbox_hold h CROSS JOIN LATERAL (
    SELECT f.* FROM highwater.outbox f WHERE f.topic = h.topic AND f.key = h.key AND f.writer = h.writer ORDER BY f.place LIMIT 1
  ) o
  WHERE h.held_until = 'infinity' AND h.topic = outbox_parked.topic
    AND EXISTS (SELECT FROM pg_roles r WHERE r.rolname = o.writer AND pg_has_role(session_user, r.oid, 'MEMBER'))
$$;

-- Lets a parked key go on: with the row once more, or, with `skip`, without it. False: the row is
-- not parked.
CREATE FUNCTION highwater.outbox_unpark(id uuid, skip boolean DEFAULT false) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  parked record;
BEGIN
  SELECT o.topic, o.key, o.writer INTO parked FROM highwater.outbox o
  WHERE o.id = outbox_unpark.id
    AND EXISTS (SELECT FROM pg_roles r WHERE r.rolname = o.writer AND pg_has_role(session_user, r.oid, 'MEMBER'))
    AND NOT EXISTS (SELECT FROM highwater.outbox b
      WHERE b.topic = o.topic AND b.key = o.key AND b.writer = o.writer AND b.place < o.place);
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  DELETE FROM highwater.outbox_hold h
  WHERE h.topic = parked.topic AND h.key = parked.key AND h.writer = parked.writer AND h.held_until = 'infinity';
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  IF outbox_unpark.skip THEN
    DELETE FROM highwater.outbox o WHERE o.id = outbox_unpark.id;
  ELSE
    UPDATE highwater.outbox o SET attempts = 0 WHERE o.id = outbox_unpark.id;
  END IF;
  RETURN true;
END
$$;

REVOKE EXECUTE ON FUNCTION highwater.outbox_place(), highwater.outbox_take(text, uuid, integer, integer, integer),
  highwater.outbox_ack(uuid, uuid[]), highwater.outbox_fail(uuid, uuid, text, integer, integer),
  highwater.outbox_release(uuid, uuid[]), highwater.outbox_parked(text), highwater.outbox_unpark(uuid, boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION highwater.outbox_take(text, uuid, integer, integer, integer),
  highwater.outbox_ack(uuid, uuid[]), highwater.outbox_fail(uuid, uuid, text, integer, integer),
  highwater.outbox_release(uuid, uuid[]), highwater.outbox_parked(text), highwater.outbox_unpark(uuid, boolean) TO highwater_app;
