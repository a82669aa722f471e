-- Replaces the function that advances sequences. The new one passes OIDs and never a name, because
-- the owner of a schema can put a view where a sequence was. It ends in time however many sequences
-- there are. (docs/decisions/0251-sequences-are-reached-by-oid.md) The set-up of roles runs this
-- file, too. Where the set-up made the schema, only the set-up can replace the function.
DO $sequences$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'highwater_sequences' AND pg_has_role(nspowner, 'USAGE')) THEN
    RETURN;
  END IF;
  DROP FUNCTION IF EXISTS highwater_sequences.reserve(bigint, int, int, timestamptz);

  -- One part: at most 500 sequences, in the order of their OIDs, from the first one above `beyond`.
  -- The oldest come first, so sequences that are made to use the time up do not get it before them.
  -- A sequence moves by `n` values for each one that a session caches, but by a hundredth of the
  -- values it has left at most. Ends at `until`. Returns how many were advanced; why others were
  -- not, or by less, for at most 20 of them, and how many more there are; and the OID that it has
  -- reached, null if no sequence is left.
  CREATE OR REPLACE FUNCTION highwater_sequences.reserve(n bigint, beyond oid, until timestamptz) RETURNS jsonb
  LANGUAGE plpgsql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms'
  -- Never a scan of a whole catalog, which can have any size.
  SET enable_seqscan = off SET enable_bitmapscan = off AS $$
  DECLARE
    s record;
    upcoming numeric;
    taken numeric;
    why text;
    advanced int := 0;
    names text[] := '{}';
    reasons text[] := '{}';
    unnamed int := 0;
    reached oid;
  BEGIN
    IF clock_timestamp() > until THEN
      RETURN jsonb_build_object('advanced', 0, 'problems', '{}'::jsonb, 'unnamed', 0, 'reached', beyond::text);
    END IF;
    -- The statements below name no relation of others. If one ever does, a view there is refused by
    -- the minor versions that can.
    PERFORM set_config('restrict_nonsystem_relation_kind', 'view, foreign-table', true)
      WHERE current_setting('restrict_nonsystem_relation_kind', true) IS NOT NULL;
    FOR s IN
      SELECT q.seqrelid::regclass AS id, q.seqincrement::numeric AS step, q.seqcache::numeric * n AS wanted,
        CASE WHEN q.seqincrement > 0 THEN q.seqmax ELSE q.seqmin END AS bound,
        (q.seqmax::numeric - q.seqmin) / abs(q.seqincrement::numeric) < 99 AS is_tiny,
        c.relpersistence = 't' OR m.nspname IN ('highwater', 'highwater_audit', 'highwater_jobs') AS is_left_out
      FROM (SELECT * FROM pg_sequence WHERE seqrelid > beyond ORDER BY seqrelid LIMIT 500) q
        JOIN pg_class c ON c.oid = q.seqrelid JOIN pg_namespace m ON m.oid = c.relnamespace
      ORDER BY q.seqrelid
    LOOP
      reached := s.id;
      CONTINUE WHEN s.is_left_out;
      why := NULL;
      IF clock_timestamp() > until THEN
        why := 'late';
      ELSIF s.is_tiny THEN
        why := 'short';
      ELSE
        BEGIN
          upcoming := pg_sequence_last_value(s.id) + s.step;
          IF upcoming IS NULL THEN
            IF NOT has_sequence_privilege(s.id, 'USAGE, SELECT') THEN
              RAISE insufficient_privilege;
            END IF;
            -- Nothing has taken a value since the sequence was made or restarted, so the next one
            -- is there, whatever the bounds are. No other function shows it on every version.
            upcoming := nextval(s.id);
          END IF;
          taken := least(s.wanted, floor((floor((s.bound - upcoming) / s.step) + 1) / 100));
          IF taken > 0 THEN
            PERFORM setval(s.id, (upcoming + (taken - 1) * s.step)::bigint);
            advanced := advanced + 1;
          END IF;
          IF taken < s.wanted THEN
            why := 'short';
          END IF;
        EXCEPTION
          WHEN insufficient_privilege THEN why := 'denied';
          WHEN lock_not_available THEN why := 'locked';
          WHEN OTHERS THEN why := SQLERRM;
        END;
      END IF;
      IF why IS NOT NULL AND cardinality(names) < 20 THEN
        names := names || s.id::text;
        reasons := reasons || why;
      ELSIF why IS NOT NULL THEN
        unnamed := unnamed + 1;
      END IF;
    END LOOP;
    RETURN jsonb_build_object('advanced', advanced, 'problems', jsonb_object(names, reasons), 'unnamed', unnamed,
      'reached', reached::text);
  END
  $$;

  -- Neither by a grant nor by a database's default privileges.
  REVOKE ALL ON FUNCTION highwater_sequences.reserve(bigint, oid, timestamptz) FROM PUBLIC, highwater_app, highwater_read;
END
$sequences$;
