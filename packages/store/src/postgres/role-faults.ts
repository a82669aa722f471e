// Faults of a login role that must not run requests. Checked when a key is created, when a session
// is admitted, and again from time to time.

/** Requests of several callers share sessions. In a session of its own it is no fault. */
const OWN_SETTINGS = "has settings of its own";

export const isAboutSettings = (fault: string): boolean => fault.startsWith(OWN_SETTINGS);

/**
 * An expression for rights on a table, with MAINTAIN on servers that know it (PostgreSQL 17): it
 * rewrites the table, and locks it against everyone. For SQL with the search path `pg_catalog`.
 */
export const withMaintain = (rights: string): string =>
  `(SELECT '${rights}' || CASE WHEN current_setting('server_version_num')::int >= 170000 THEN ', MAINTAIN' ELSE '' END)`;

/**
 * For dangers MEMBER, not USAGE: SET ROLE is open to a member that does not inherit. `role`: an
 * expression for its name. The query has no qualified names: run it with the search path
 * `pg_catalog`.
 */
export const roleFaults = (role: string): string => `SELECT fault FROM (
  SELECT r.oid, bool_or(s.rolsuper) AS super, bool_or(s.rolreplication) AS replication, bool_or(s.rolbypassrls) AS bypass,
    bool_or(s.rolcreaterole) AS createrole, bool_or(s.rolcreatedb) AS createdb,
    string_agg(s.rolname, ', ' ORDER BY s.rolname) FILTER (WHERE s.rolname ~ '^(pg|rds)_') AS predefined
  FROM pg_roles r JOIN pg_roles s ON pg_has_role(r.oid, s.oid, 'MEMBER') WHERE r.rolname = ${role} GROUP BY r.oid
) r, LATERAL (VALUES
  (1, 'is a superuser, or can become one', super),
  (2, 'may replicate, or can become a role that may (REPLICATION)', NOT super AND replication),
  (2, 'is exempt from row security, or can become a role that is (BYPASSRLS)', NOT super AND bypass),
  (2, 'may create roles, or can become a role that may (CREATEROLE)', NOT super AND createrole),
  (2, 'may create databases, or can become a role that may (CREATEDB)', NOT super AND createdb),
  (2, 'is a member of ' || predefined, NOT super AND predefined IS NOT NULL),
  (2, 'owns a database, or can become its owner',
    NOT super AND EXISTS (SELECT FROM pg_database d WHERE pg_has_role(r.oid, d.datdba, 'MEMBER'))),
  (3, '${OWN_SETTINGS}, which every session of it starts with (ALTER ROLE ... RESET ALL)',
    EXISTS (SELECT FROM pg_db_role_setting s WHERE s.setrole = r.oid)),
  (3, 'can read keys, or change what the service keeps in the database', NOT super AND (EXISTS (
    SELECT FROM pg_class c WHERE c.relnamespace = to_regnamespace('highwater') AND c.relkind IN ('r', 'p')
    AND (pg_has_role(r.oid, c.relowner, 'MEMBER') OR has_table_privilege(r.oid, c.oid, ${withMaintain("UPDATE, DELETE, TRUNCATE")})
      OR (c.relname IN ('api_key', 'webhook_endpoint') AND has_any_column_privilege(r.oid, c.oid, 'SELECT, INSERT, UPDATE'))))
    OR coalesce(has_schema_privilege(r.oid, to_regnamespace('highwater_jobs'), 'USAGE, CREATE'), false)))
) AS f (place, fault, holds) WHERE holds ORDER BY place, fault`;
