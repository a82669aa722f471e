-- Advances sequences before an epoch begins, so that no value that a lost transaction got is handed
-- out again. (docs/decisions/0239-sequences-are-advanced-at-a-new-epoch.md) The set-up of roles
-- runs this very file before the services start. Then an administrator owns the function, and it
-- reaches the sequences of every owner. Where the set-up was not run, the services' role makes it
-- here, and it reaches the sequences that this role may update.
DO $sequences$
BEGIN
  IF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'highwater_sequences') THEN
    RETURN;
  END IF;
  CREATE SCHEMA highwater_sequences;

  -- One of `parts` equal parts, so that no transaction holds the locks of all. A sequence moves by
  -- `n` values for each one that a session caches, but by a hundredth of the values it has left at
  -- most. Ends at `until`. Returns how many were advanced, and why others were not, or by less.
  CREATE FUNCTION highwater_sequences.reserve(n bigint, part int, parts int, until timestamptz) RETURNS jsonb
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '50ms' AS $$
  DECLARE
    s record;
    upcoming numeric;
    taken numeric;
    why text;
    advanced int := 0;
    problems jsonb := '{}';
  BEGIN
    FOR s IN
      SELECT q.seqrelid::regclass AS name, q.seqincrement::numeric AS step, q.seqcache::numeric * n AS wanted,
        CASE WHEN q.seqincrement > 0 THEN q.seqmax ELSE q.seqmin END AS bound
      FROM pg_sequence q JOIN pg_class c ON c.oid = q.seqrelid JOIN pg_namespace m ON m.oid = c.relnamespace
      WHERE c.relpersistence <> 't' AND q.seqrelid::bigint % parts = part
        AND m.nspname NOT IN ('highwater', 'highwater_audit', 'highwater_jobs')
    LOOP
      why := NULL;
      IF clock_timestamp() > until THEN
        why := 'late';
      ELSE
        BEGIN
          EXECUTE format('SELECT CASE WHEN is_called THEN last_value + %s ELSE last_value END FROM %s', s.step, s.name) INTO upcoming;
          taken := least(s.wanted, floor((floor((s.bound - upcoming) / s.step) + 1) / 100));
          IF taken > 0 THEN
            PERFORM setval(s.name, (upcoming + (taken - 1) * s.step)::bigint);
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
      IF why IS NOT NULL THEN
        problems := problems || jsonb_build_object(s.name::text, why);
      END IF;
    END LOOP;
    RETURN jsonb_build_object('advanced', advanced, 'problems', problems);
  END
  $$;

  -- Neither by a grant nor by a database's default privileges.
  REVOKE ALL ON SCHEMA highwater_sequences FROM PUBLIC, highwater_app, highwater_read;
  REVOKE ALL ON FUNCTION highwater_sequences.reserve(bigint, int, int, timestamptz) FROM PUBLIC, highwater_app, highwater_read;
END
$sequences$;
