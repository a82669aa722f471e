// The vocabulary of scripts: their tables, and statements that cover every rule of the wire.

/** Functions that FunctionCall may name. */
export const FUNCTIONS = ["int4pl", "fz_insert", "fz_fail", "version"] as const;

export const SETUP = [
  "CREATE TABLE fz (a int PRIMARY KEY, b text)",
  "CREATE TABLE fz_child (a int REFERENCES fz, c serial)",
  "CREATE UNLOGGED TABLE fz_unlogged (a int PRIMARY KEY)",
  "CREATE SEQUENCE fz_seq",
  `CREATE FUNCTION fz_insert(k int) RETURNS int LANGUAGE sql AS
    $$ INSERT INTO fz VALUES (k, 'by a function') RETURNING a $$`,
  "CREATE FUNCTION fz_fail(k int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'fails %', k; END $$",
  `CREATE PROCEDURE fz_commits(k int) LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO fz VALUES (k, 'first'); COMMIT; RAISE NOTICE 'committed %', k; INSERT INTO fz VALUES (k + 1, 'second'); END $$`,
];

/** Removes everything that a run may leave. */
export const RESET = [
  "TRUNCATE fz, fz_child, fz_unlogged RESTART IDENTITY",
  "ALTER SEQUENCE fz_seq RESTART",
  // A script that the fuzzer has changed may make them under any name.
  `DO $$ DECLARE made record; BEGIN
    FOR made IN SELECT oid::regclass AS name, CASE relkind WHEN 'i' THEN 'INDEX' ELSE 'TABLE' END AS kind
      FROM pg_class WHERE relowner = 'fuzz'::regrole AND relnamespace = 'public'::regnamespace
      AND relkind IN ('i', 'r') AND relname !~ '^fz(_pkey|_child|_unlogged|_unlogged_pkey)?$'
    LOOP EXECUTE format('DROP %s IF EXISTS %s CASCADE', made.kind, made.name); END LOOP; END $$`,
  "DROP FUNCTION IF EXISTS fz_atomic(int)",
  "INSERT INTO fz SELECT g, 'row ' || g FROM generate_series(1, 5) g",
];

const READS = [
  ...["SELECT 1", "SELECT a, b FROM fz ORDER BY a", "TABLE fz_child", "VALUES (1, 'x'), (2, NULL)"],
  ...[
    "SELECT count(*) FROM fz",
    "SELECT * FROM fz WHERE a = 99",
    "SELECT $1::int + 1",
    "SELECT $1::text, $2::int",
  ],
  ...[
    "WITH x AS (SELECT 1 AS one) SELECT * FROM x",
    "EXPLAIN (COSTS OFF) SELECT * FROM fz",
    "SHOW datestyle",
  ],
  ...["SELECT g, repeat('x', 40) FROM generate_series(1, 200) g", "SELECT repeat('long ', 60000)"],
  ...[
    "SELECT 10 / (3 - g) FROM generate_series(1, 5) g",
    "/* a comment */ SELECT 2 -- and another",
    "SELECT;",
  ],
  ...[
    "SELECT current_setting('transaction_read_only')",
    "SELECT nextval('fz_seq')",
    "SELECT 'a;b', $$;COMMIT;$$",
  ],
  ...[
    "SELECT a FROM fz WHERE a = 1 FOR UPDATE",
    "SELECT a FROM fz FOR SHARE",
    "SELECT a FROM fz FOR UPDATE SKIP LOCKED",
  ],
];
const WRITES = [
  ...["INSERT INTO fz VALUES (10, 'ten')", "INSERT INTO fz VALUES (11, 'eleven') RETURNING *"],
  ...["INSERT INTO fz VALUES (1, 'twice')", "INSERT INTO fz VALUES (1) ON CONFLICT DO NOTHING"],
  ...["INSERT INTO fz SELECT g FROM generate_series(100, 120) g", "INSERT INTO fz_child VALUES (1)"],
  ...["INSERT INTO fz_child VALUES (77)", "INSERT INTO fz VALUES (NULL)", "INSERT INTO fz VALUES ($1, $2)"],
  ...[
    "UPDATE fz SET b = 'changed' WHERE a = 2",
    "UPDATE fz SET b = 'none' WHERE a = 99",
    "UPDATE fz SET b = b || '!'",
  ],
  ...["DELETE FROM fz WHERE a = 3", "DELETE FROM fz WHERE a = 99", "TRUNCATE fz_child"],
  "MERGE INTO fz USING (VALUES (4), (40)) AS s(k) ON a = k WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (k)",
  ...["WITH w AS (INSERT INTO fz VALUES (20) RETURNING a) SELECT * FROM w", "SELECT fz_insert(21)"],
  ...[
    "SELECT fz_insert(1)",
    "SELECT fz_fail(3)",
    "INSERT INTO fz_unlogged VALUES (1)",
    "CALL fz_commits(30)",
  ],
  "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) INSERT INTO fz VALUES (22)",
  ...["SELECT pg_notify('fz', 'note')", "NOTIFY fz", "NOTIFY fz, 'again'", "SELECT lo_create(4711)"],
  ...["SELECT lo_unlink(4711)", "SELECT set_config('work_mem', '5MB', false)", "SELECT setval('fz_seq', 50)"],
  "DO $$ BEGIN INSERT INTO fz VALUES (31); COMMIT; INSERT INTO fz VALUES (32); ROLLBACK; END $$",
  ...["DO $$ BEGIN RAISE NOTICE 'a notice'; RAISE WARNING 'a warning'; END $$", "SELECT fz_insert($1)"],
];
const BLOCKS = [
  ...[
    "BEGIN",
    "BEGIN",
    "BEGIN",
    "START TRANSACTION",
    "BEGIN ISOLATION LEVEL SERIALIZABLE",
    "BEGIN READ ONLY",
  ],
  ...[
    "COMMIT",
    "COMMIT",
    "COMMIT",
    "END",
    "COMMIT AND CHAIN",
    "COMMIT AND NO CHAIN",
    "commit work",
    "/* */ COMMIT",
  ],
  ...["ROLLBACK", "ROLLBACK", "ABORT", "ROLLBACK AND CHAIN", "SAVEPOINT s", "RELEASE s", "ROLLBACK TO s"],
  ...[
    "PREPARE TRANSACTION 'fz'",
    "COMMIT PREPARED 'fz'",
    "ROLLBACK PREPARED 'fz'",
    "SET TRANSACTION READ ONLY",
  ],
];
const SESSION = [
  ...[
    "PREPARE p AS INSERT INTO fz VALUES ($1)",
    "EXECUTE p(50)",
    "EXECUTE p(1)",
    "DEALLOCATE p",
    "DEALLOCATE ALL",
  ],
  ...[
    // Sets another id each time.
    "DO $$ BEGIN PERFORM set_config('highwater.id', uuidv7()::text, true); END $$",
    "PREPARE c AS SELECT 3",
    "EXECUTE c",
    "DISCARD ALL",
    "DISCARD PLANS",
    "DISCARD TEMP",
    "DISCARD SEQUENCES",
  ],
  ...[
    "DECLARE c CURSOR FOR SELECT a FROM fz ORDER BY a",
    "DECLARE c CURSOR WITH HOLD FOR SELECT a FROM fz ORDER BY a",
  ],
  ...[
    "FETCH 2 FROM c",
    "FETCH ALL FROM c",
    "MOVE 1 FROM c",
    "CLOSE c",
    "CLOSE ALL",
    "DELETE FROM fz WHERE CURRENT OF c",
  ],
  "DECLARE h CURSOR WITH HOLD FOR SELECT fz_insert(60)",
  ...[
    "LISTEN fz",
    "LISTEN other",
    "UNLISTEN fz",
    "UNLISTEN *",
    "SET datestyle = 'German'",
    "SET LOCAL datestyle = 'SQL'",
  ],
  ...[
    "RESET datestyle",
    "SET timezone = 'Europe/Berlin'",
    "RESET ALL",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
  ],
  ...[
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "SET application_name = 'fuzz'",
    "SET client_encoding = 'LATIN1'",
  ],
  ...[
    "CREATE TEMP TABLE t (a int)",
    "INSERT INTO t VALUES (1)",
    "SELECT * FROM t",
    "DROP TABLE t",
    "DROP TABLE IF EXISTS nothing",
  ],
  ...[
    "CREATE TABLE fz_new (a int)",
    "CREATE TEMP TABLE d (a int) ON COMMIT DROP",
    "INSERT INTO d VALUES (1)",
    "LOCK TABLE fz",
  ],
  ...[
    "SELECT pg_advisory_lock(7)",
    "SELECT pg_advisory_unlock(7)",
    "SELECT pg_try_advisory_xact_lock(8)",
    "SET synchronous_commit = off",
  ],
];
const APART = [
  ...[
    "VACUUM fz_child",
    "ANALYZE fz",
    "CREATE INDEX CONCURRENTLY fz_index ON fz (b)",
    "REINDEX TABLE CONCURRENTLY fz_child",
  ],
  "CREATE FUNCTION fz_atomic(k int) RETURNS int BEGIN ATOMIC INSERT INTO fz VALUES (k); SELECT 1; END",
];
const FAULTS = [
  ...[
    "",
    ";",
    " ",
    ";;",
    "-- nothing",
    "SELEC 1",
    "SELECT 1 FROM nowhere",
    "SELECT 'unended",
    "COMMIT nonsense",
  ],
  ...["INSERT INTO fz VALUES (1); SELECT 1", "SELECT 1; SELECT 2; SELECT 1/0; SELECT 3", "EXECUTE unknown"],
];
const TEXTS = [
  "INSERT INTO fz VALUES (70); COMMIT; BEGIN",
  "BEGIN; INSERT INTO fz VALUES (71); COMMIT; SELECT 1/0",
  "BEGIN; INSERT INTO fz VALUES (72); COMMIT AND CHAIN; SELECT 1",
  "INSERT INTO fz VALUES (73); ROLLBACK; INSERT INTO fz VALUES (74)",
  "BEGIN; INSERT INTO fz VALUES (75); PREPARE TRANSACTION 'fz'; COMMIT PREPARED 'fz'",
  "INSERT INTO fz VALUES (76); VACUUM fz",
  "SELECT 1; COPY fz FROM STDIN; SELECT 2",
];
const COPIES = [
  ...[
    "COPY fz FROM STDIN",
    "COPY fz (a) FROM STDIN WITH (FORMAT csv)",
    "COPY nowhere FROM STDIN",
    "COPY fz TO STDOUT",
  ],
  ...[
    "COPY (SELECT g FROM generate_series(1, 300) g) TO STDOUT",
    "COPY (SELECT 1/(3-g) FROM generate_series(1,5) g) TO STDOUT",
  ],
];

export const VOCABULARY = {
  reads: READS,
  writes: WRITES,
  blocks: BLOCKS,
  session: SESSION,
  apart: APART,
  faults: FAULTS,
  texts: TEXTS,
  copies: COPIES,
} as const;

export const COPY_LINES = [
  "200\tcopied\n",
  "201\t\\N\n",
  "1\ttwice\n",
  "x\ty\n",
  "202",
  "\tz\n203\tw\n",
  "\\.\n",
  "",
];
