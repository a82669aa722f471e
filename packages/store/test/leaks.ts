// Ways in which SQL can leave something behind in its session, as data: what is run, and the query that would see it later.

export interface Leak {
  readonly name: string;
  readonly sql: readonly string[];
  /** One row with one text. In an unused session it answers the same as in one that was reset. */
  readonly probe: string;
  /** PostgreSQL itself takes it away with the transaction: no one sees it, even without a reset. */
  readonly endsWithTransaction?: true;
  /** Only a superuser may do it. */
  readonly isSuperuser?: true;
}

/** What the attempts need, made by a superuser; the login role is `tenant`. */
export const LEAK_SETUP = `
CREATE TABLE orders (id int);
CREATE SEQUENCE counter;
CREATE TABLE seeded (value float8);
CREATE FUNCTION put(name text, value text) RETURNS text LANGUAGE plpgsql
  AS $$ BEGIN RETURN set_config(name, value, false); END $$;
CREATE FUNCTION scoped() RETURNS text LANGUAGE plpgsql SET work_mem = '1MB'
  AS $$ BEGIN RETURN set_config('DateStyle', 'German', false); END $$;
CREATE PROCEDURE put_all() LANGUAGE plpgsql
  AS $$ BEGIN PERFORM set_config('IntervalStyle', 'iso_8601', false); END $$;
CREATE FUNCTION on_insert() RETURNS trigger LANGUAGE plpgsql
  AS $$ BEGIN PERFORM set_config('TimeZone', 'Asia/Tokyo', false); RETURN NULL; END $$;
CREATE TABLE watched (id int);
CREATE TRIGGER watch AFTER INSERT ON watched FOR EACH ROW EXECUTE FUNCTION on_insert();
CREATE TABLE watched_late (id int);
CREATE CONSTRAINT TRIGGER watch AFTER INSERT ON watched_late DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION on_insert();
CREATE FUNCTION replace_statements() RETURNS int LANGUAGE plpgsql AS $$
DECLARE known text; n int := 0;
BEGIN
  FOR known IN SELECT name FROM pg_prepared_statements LOOP
    EXECUTE format('DEALLOCATE %I', known);
    EXECUTE format('PREPARE %I AS SELECT ''replaced''', known);
    n := n + 1;
  END LOOP;
  RETURN n;
END $$;
CREATE FUNCTION last_value() RETURNS text LANGUAGE plpgsql
  AS $$ BEGIN RETURN lastval(); EXCEPTION WHEN OTHERS THEN RETURN 'none'; END $$;
CREATE FUNCTION current_value() RETURNS text LANGUAGE plpgsql
  AS $$ BEGIN RETURN currval('counter'); EXCEPTION WHEN OTHERS THEN RETURN 'none'; END $$;
CREATE ROLE tenant LOGIN IN ROLE highwater_app;
GRANT CREATE ON SCHEMA public TO tenant;
GRANT ALL ON ALL TABLES IN SCHEMA public TO tenant;
GRANT ALL ON SEQUENCE counter TO tenant;
INSERT INTO seeded SELECT value FROM (SELECT setseed(0.5)) s, LATERAL (SELECT random() AS value) r`;

const show = (name: string): string => `SELECT coalesce(current_setting('${name}', true), '')`;

/** A setting that any role may change, by a plain SET. */
const setting = (name: string, value: string): Leak => ({
  name: `SET ${name}`,
  sql: [`SET ${name} TO ${value}`],
  probe: show(name),
});

const LOCKS =
  "SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND classid <> 1";
const ORDERS =
  "SELECT (n.nspname LIKE 'pg_temp%')::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass('orders')";
const TEMPORARY = `SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema() AND relkind <> 'c')
  + (SELECT count(*) FROM pg_proc WHERE pronamespace = pg_my_temp_schema())
  + (SELECT count(*) FROM pg_type WHERE typnamespace = pg_my_temp_schema() AND typtype IN ('d', 'e')) || ''`;
const PREPARED = "SELECT count(*)::text FROM pg_prepared_statements WHERE from_sql";
const CURSORS = "SELECT count(*)::text FROM pg_cursors WHERE name <> ''";
const CHANNELS = "SELECT count(*)::text FROM pg_listening_channels()";
const SEED = "SELECT (random() = (SELECT value FROM seeded))::text";
const USER = "SELECT session_user || '/' || current_user";

export const LEAKS: readonly Leak[] = [
  setting("client_encoding", "'LATIN1'"),
  setting("search_path", "pg_temp, public"),
  setting("DateStyle", "'German'"),
  setting("IntervalStyle", "'iso_8601'"),
  setting("TimeZone", "'Asia/Tokyo'"),
  setting("standard_conforming_strings", "off"),
  setting("backslash_quote", "on"),
  setting("escape_string_warning", "off"),
  setting("bytea_output", "'escape'"),
  setting("extra_float_digits", "-5"),
  setting("array_nulls", "off"),
  setting("transform_null_equals", "on"),
  setting("xmloption", "document"),
  setting("xmlbinary", "hex"),
  setting("lc_numeric", "'POSIX'"),
  setting("lc_monetary", "'POSIX'"),
  setting("default_transaction_isolation", "'serializable'"),
  setting("default_transaction_read_only", "on"),
  setting("default_transaction_deferrable", "on"),
  setting("synchronous_commit", "local"),
  setting("statement_timeout", "'7min'"),
  setting("lock_timeout", "'7min'"),
  setting("idle_in_transaction_session_timeout", "'7min'"),
  setting("application_name", "'highwater:other:settle'"),
  setting("row_security", "off"),
  setting("check_function_bodies", "off"),
  setting("constraint_exclusion", "on"),
  setting("plan_cache_mode", "'force_generic_plan'"),
  setting("enable_seqscan", "off"),
  setting("work_mem", "'64kB'"),
  setting("jit", "off"),
  setting("client_min_messages", "debug5"),
  setting("debug_print_plan", "on"),
  setting("gin_fuzzy_search_limit", "1"),
  setting("vacuum_cost_delay", "1"),
  setting("shop.secret", "'4711'"),
  { ...setting("session_replication_role", "replica"), isSuperuser: true },
  { ...setting("log_min_error_statement", "panic"), isSuperuser: true },
  { ...setting("log_statement", "'all'"), isSuperuser: true },
  { ...setting("log_min_messages", "panic"), isSuperuser: true },
  { ...setting("zero_damaged_pages", "on"), isSuperuser: true },

  { name: "SET NAMES", sql: ["SET NAMES 'LATIN1'"], probe: show("client_encoding") },
  { name: "SET TIME ZONE", sql: ["SET TIME ZONE 7"], probe: show("TimeZone") },
  {
    name: "SESSION CHARACTERISTICS",
    sql: ["SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"],
    probe: show("default_transaction_read_only"),
  },
  {
    name: "set_config",
    sql: ["SELECT set_config('search_path', 'pg_temp', false)"],
    probe: show("search_path"),
  },
  {
    name: "set_config through a quoted name",
    sql: [String.raw`SELECT U&"set\005fconfig"('client_encoding', 'LATIN1', false)`],
    probe: show("client_encoding"),
  },
  {
    name: "an update of pg_settings",
    sql: ["UPDATE pg_settings SET setting = 'off' WHERE name = 'standard_conforming_strings'"],
    probe: show("standard_conforming_strings"),
  },
  {
    name: "set_config in query_to_xml",
    sql: [`SELECT query_to_xml($$SELECT set_config('DateStyle', 'German', false)$$, true, true, '')::text`],
    probe: "SELECT '2026-05-01'::date::text",
  },
  {
    name: "set_config in DO",
    sql: ["DO $$ BEGIN PERFORM set_config('IntervalStyle', 'iso_8601', false); END $$"],
    probe: "SELECT interval '1 day'::text",
  },
  {
    name: "EXECUTE format in DO",
    sql: ["DO $$ BEGIN EXECUTE format('SET %I TO %L', 'bytea_output', 'escape'); END $$"],
    probe: show("bytea_output"),
  },
  { name: "a function", sql: ["SELECT put('array_nulls', 'off')"], probe: "SELECT '{NULL}'::text[]::text" },
  {
    name: "a function with a SET clause",
    sql: ["SELECT scoped()"],
    probe: "SELECT '2026-05-01'::date::text",
  },
  { name: "CALL", sql: ["CALL put_all()"], probe: show("IntervalStyle") },
  { name: "a trigger", sql: ["INSERT INTO watched VALUES (1)"], probe: show("TimeZone") },
  { name: "a trigger at COMMIT", sql: ["INSERT INTO watched_late VALUES (1)"], probe: show("TimeZone") },
  {
    name: "a function of the request's own",
    sql: [
      "CREATE OR REPLACE FUNCTION mine() RETURNS text LANGUAGE sql AS $$ SELECT set_config('xmlbinary', 'hex', false) $$",
      "SELECT mine()",
    ],
    probe: show("xmlbinary"),
  },
  {
    name: "a prepared statement that sets",
    sql: ["PREPARE setter AS SELECT set_config('lc_numeric', 'POSIX', false)", "EXECUTE setter"],
    probe: show("lc_numeric"),
  },
  {
    name: "a cursor that sets",
    sql: ["DECLARE c CURSOR FOR SELECT put('row_security', 'off')", "FETCH c"],
    probe: show("row_security"),
  },
  {
    name: "SET LOCAL",
    sql: ["SET LOCAL work_mem TO '64kB'"],
    probe: show("work_mem"),
    endsWithTransaction: true,
  },
  {
    name: "SET, and an error behind it",
    sql: ["SELECT put('work_mem', '64kB')", "SELECT 1 / 0"],
    probe: show("work_mem"),
    endsWithTransaction: true,
  },

  { name: "SET ROLE", sql: ["SET ROLE highwater_app"], probe: USER },
  { name: "the setting role", sql: ["SELECT put('role', 'highwater_app')"], probe: USER },
  {
    name: "SET SESSION AUTHORIZATION",
    sql: ["SET SESSION AUTHORIZATION tenant"],
    probe: USER,
    isSuperuser: true,
  },
  {
    name: "SET SESSION AUTHORIZATION and SET ROLE",
    sql: ["SET SESSION AUTHORIZATION tenant", "SET ROLE highwater_app"],
    probe: USER,
    isSuperuser: true,
  },

  { name: "a temporary table", sql: ["CREATE TEMP TABLE orders (id int)"], probe: ORDERS },
  { name: "a table in pg_temp", sql: ["CREATE TABLE pg_temp.orders (id int)"], probe: ORDERS },
  { name: "SELECT INTO TEMP", sql: ["SELECT 1 AS id INTO TEMP orders"], probe: ORDERS },
  { name: "CREATE TEMP TABLE AS", sql: ["CREATE TEMP TABLE orders AS SELECT 1 AS id"], probe: ORDERS },
  {
    name: "a temporary table in DO",
    sql: ["DO $$ BEGIN EXECUTE 'CREATE ' || 'TEMP TABLE orders (id int)'; END $$"],
    probe: ORDERS,
  },
  {
    name: "a temporary table with a trigger",
    sql: [
      "CREATE TEMP TABLE orders (id int)",
      "CREATE TRIGGER t AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION on_insert()",
    ],
    probe: ORDERS,
  },
  { name: "a temporary view", sql: ["CREATE TEMP VIEW orders AS SELECT 1 AS id"], probe: ORDERS },
  { name: "a temporary sequence", sql: ["CREATE TEMP SEQUENCE counter"], probe: TEMPORARY },
  {
    name: "a temporary function",
    sql: ["CREATE FUNCTION pg_temp.lower(text) RETURNS text LANGUAGE sql AS $$ SELECT 'mine' $$"],
    probe: TEMPORARY,
  },
  { name: "a temporary domain", sql: ["CREATE DOMAIN pg_temp.int4 AS text"], probe: TEMPORARY },
  { name: "a temporary type", sql: ["CREATE TYPE pg_temp.mood AS ENUM ('sad')"], probe: TEMPORARY },

  { name: "PREPARE", sql: ["PREPARE mine AS SELECT 1"], probe: PREPARED },
  {
    name: "PREPARE in DO",
    sql: ["DO $$ BEGIN EXECUTE 'PREPARE mine2 AS SELECT 1'; END $$"],
    probe: PREPARED,
  },
  {
    name: "statements that are replaced",
    sql: ["PREPARE one AS SELECT 1", "SELECT replace_statements()"],
    probe: PREPARED,
  },
  { name: "DEALLOCATE ALL", sql: ["DEALLOCATE ALL"], probe: PREPARED, endsWithTransaction: true },
  { name: "a held cursor", sql: ["DECLARE held CURSOR WITH HOLD FOR SELECT 1"], probe: CURSORS },
  {
    name: "a held cursor over a table",
    sql: ["DECLARE held CURSOR WITH HOLD FOR SELECT * FROM orders", "FETCH held"],
    probe: CURSORS,
  },
  { name: "a cursor", sql: ["DECLARE brief CURSOR FOR SELECT 1"], probe: CURSORS, endsWithTransaction: true },
  { name: "LISTEN", sql: ["LISTEN channel"], probe: CHANNELS },
  { name: "LISTEN in DO", sql: ["DO $$ BEGIN EXECUTE 'LISTEN channel'; END $$"], probe: CHANNELS },

  { name: "an advisory lock", sql: ["SELECT pg_advisory_lock(4711)"], probe: LOCKS },
  { name: "a shared advisory lock", sql: ["SELECT pg_advisory_lock_shared(4711)"], probe: LOCKS },
  { name: "an advisory lock of two keys", sql: ["SELECT pg_try_advisory_lock(47, 11)"], probe: LOCKS },
  {
    name: "an advisory lock through a quoted name",
    sql: [String.raw`SELECT U&"pg_advisory\005flock"(4711)`],
    probe: LOCKS,
  },
  {
    name: "an advisory lock in query_to_xml",
    sql: ["SELECT query_to_xml('SELECT pg_advisory_lock(4711)', true, true, '')::text"],
    probe: LOCKS,
  },
  {
    name: "an advisory lock taken twice",
    sql: ["SELECT pg_advisory_lock(4711)", "SELECT pg_advisory_lock(4711)"],
    probe: LOCKS,
  },
  {
    name: "an advisory lock, and an error behind it",
    sql: ["SELECT pg_advisory_lock(4711)", "SELECT 1 / 0"],
    probe: LOCKS,
  },
  {
    name: "an advisory lock of the transaction",
    sql: ["SELECT pg_advisory_xact_lock(4711)"],
    probe: LOCKS,
    endsWithTransaction: true,
  },

  { name: "lastval", sql: ["SELECT nextval('counter')"], probe: "SELECT last_value()" },
  { name: "currval", sql: ["SELECT setval('counter', 4711)"], probe: "SELECT current_value()" },
  { name: "setseed", sql: ["SELECT setseed(0.5)"], probe: SEED },
  { name: "SET seed", sql: ["SET seed TO 0.5"], probe: SEED },
  {
    name: "a descriptor of a large object",
    sql: ["SELECT lo_open(lo_create(0), 131072)"],
    probe: "SELECT count(*)::text FROM pg_locks WHERE locktype = 'object' AND pid = pg_backend_pid()",
    endsWithTransaction: true,
  },
  {
    name: "an exported snapshot",
    sql: ["SELECT pg_export_snapshot()"],
    probe: "SELECT count(*)::text FROM pg_locks WHERE locktype = 'virtualxid' AND pid = pg_backend_pid()",
    endsWithTransaction: true,
  },
];
