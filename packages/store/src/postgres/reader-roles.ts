// The limits of keys that only read: what their login role must not be able to do, and what PUBLIC
// must not have.
import type pg from "pg";
import { isAboutSettings, roleFaults, withMaintain } from "./role-faults.ts";

/** Keeps for all other roles that are there what PUBLIC loses. */
export const OTHERS = "highwater_others";

/**
 * What PUBLIC may run and a role that only reads must not, READ ONLY or not: writes of large
 * objects and log records, transaction ids, locks without number, and ends of sessions. No lock is
 * let go of by a function that is not here.
 */
const WRITING_FUNCTIONS = `p.pronamespace = 'pg_catalog'::regnamespace AND (p.proname ~ '^pg_(try_)?advisory_(xact_)?lock(_shared)?$'
  OR p.proname IN ('lo_creat', 'lo_create', 'lo_from_bytea', 'lo_put', 'lowrite', 'lo_truncate', 'lo_truncate64', 'lo_unlink',
    'pg_logical_emit_message', 'pg_current_xact_id', 'txid_current', 'pg_terminate_backend', 'pg_cancel_backend'))`;

/** What the role `r` can become counts. */
const CAN_BECOME = "pg_roles s ON pg_has_role(r.oid, s.oid, 'MEMBER')";

/** Of the role `r`: the owner of the keys that it is recorded for. NULL: it is not recorded. */
const OWNER_OF_KEYS = "(SELECT l.owner FROM highwater.login_role l WHERE l.role = r.rolname)";

/**
 * `owner` is a login role of another owner of keys than the role `r`, or a group to which that one
 * can give its objects. Rights on such an object stop no key of `r`: any tenant could grant them.
 */
const foreign = (owner: string): string =>
  `EXISTS (SELECT FROM highwater.login_role o JOIN pg_roles x ON x.rolname = o.role
    WHERE o.owner <> r.owner AND NOT x.rolsuper AND pg_has_role(x.oid, ${owner}, 'MEMBER'))`;

/** The role `s` may write the table or sequence `c` in the schema `n`. */
const WRITES = `c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    AND (c.relowner = s.oid OR CASE
      WHEN c.relkind = 'S' THEN c.relacl IS NOT NULL AND has_sequence_privilege(s.oid, c.oid, 'USAGE, UPDATE')
      ELSE c.relacl IS NOT NULL AND has_table_privilege(s.oid, c.oid, ${withMaintain("INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER")})
        OR EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attacl IS NOT NULL
          AND has_column_privilege(s.oid, c.oid, a.attnum, 'INSERT, UPDATE')) END)`;

/**
 * Why a role cannot be that of keys with an access. `role`: an expression for its name; `access`:
 * one for the access. No qualified names of PostgreSQL's own: run it with the search path
 * `pg_catalog`.
 */
export const accessFaults = (role: string, access: string): string => `SELECT fault FROM (
  SELECT r.oid, r.rolname, quote_ident(r.rolname) AS name, ${access} = 'read' AS reads, ${access} = 'write' AS writes,
    ${OWNER_OF_KEYS} AS owner
  FROM pg_roles r WHERE r.rolname = ${role}
) r, LATERAL (
  SELECT 'lacks the rights of highwater_app (GRANT highwater_app TO ' || r.name || ')' AS fault
  WHERE r.writes AND NOT coalesce(pg_has_role(r.oid, to_regrole('highwater_app'), 'USAGE'), false)
  UNION ALL
  SELECT 'lacks the rights of highwater_read (GRANT highwater_read TO ' || r.name || ')'
  WHERE r.reads AND NOT coalesce(pg_has_role(r.oid, to_regrole('highwater_read'), 'USAGE'), false)
  UNION ALL
  SELECT concat('is for keys that only read, and a member of ', g.rolname, ' (REVOKE ', g.rolname, ' FROM ', r.name, ')')
  FROM pg_roles g WHERE r.reads AND g.rolname IN ('highwater_app', '${OTHERS}') AND pg_has_role(r.oid, g.oid, 'MEMBER')
  UNION ALL
  SELECT 'is for keys that only read, and may write ' || min(format('%I.%I', n.nspname, c.relname))
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN ${CAN_BECOME}
  WHERE r.reads AND ${WRITES} AND NOT ${foreign("c.relowner")}
  HAVING count(*) > 0
  UNION ALL
  SELECT 'is for keys that only read, and may create in the schema ' || min(quote_ident(n.nspname))
  FROM pg_namespace n JOIN ${CAN_BECOME}
  WHERE r.reads AND n.nspname !~ '^pg_' AND has_schema_privilege(s.oid, n.oid, 'CREATE') AND NOT ${foreign("n.nspowner")}
  HAVING count(*) > 0
  UNION ALL
  SELECT 'is for keys that only read, and may create schemas (CREATE on the database)'
  WHERE r.reads AND EXISTS (SELECT FROM pg_roles s
    WHERE pg_has_role(r.oid, s.oid, 'MEMBER') AND has_database_privilege(s.oid, current_database(), 'CREATE'))
) faults`;

/** Of `role` as keys were made for it. None for one that no key was made for. */
const RECORDED_FAULTS = accessFaults(
  "$1",
  "(SELECT l.access FROM highwater.login_role l WHERE l.role = r.rolname)",
);

/**
 * $1 role. Rights of PUBLIC, or of another role by a function, that it should not have if keys only
 * read as it.
 */
const UNPROTECTED = `SELECT what FROM (SELECT r.oid, r.rolname, l.owner FROM pg_roles r
  JOIN highwater.login_role l ON l.role = r.rolname AND l.access = 'read') r, LATERAL (
  SELECT DISTINCT p.proname::text AS what FROM pg_proc p WHERE ${WRITING_FUNCTIONS} AND has_function_privilege(r.oid, p.oid, 'EXECUTE')
  UNION ALL
  SELECT 'TEMPORARY on the database' WHERE has_database_privilege(r.oid, current_database(), 'TEMPORARY')
  UNION ALL
  SELECT 'SECURITY DEFINER ' || p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
  WHERE p.prosecdef AND n.nspname <> 'highwater' AND has_function_privilege(r.oid, p.oid, 'EXECUTE')
    AND has_schema_privilege(r.oid, n.oid, 'USAGE')
  UNION ALL
  SELECT 'writing ' || min(format('%I.%I', n.nspname, c.relname)) || ' of another owner'
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN ${CAN_BECOME} WHERE ${WRITES} AND ${foreign("c.relowner")}
  HAVING count(*) > 0
  UNION ALL
  SELECT 'CREATE in the schema ' || min(quote_ident(n.nspname)) || ' of another owner'
  FROM pg_namespace n JOIN ${CAN_BECOME} WHERE has_schema_privilege(s.oid, n.oid, 'CREATE') AND ${foreign("n.nspowner")}
  HAVING count(*) > 0
) have WHERE r.rolname = $1 ORDER BY what`;

/** $1 role, $2 access, or NULL. */
const VET_ROLE = `SELECT ARRAY(${roleFaults("$1")}) || ARRAY(${accessFaults("$1", "$2::text")}) AS faults`;
const VET_LOGIN = `SELECT ARRAY(${RECORDED_FAULTS}) AS faults, ARRAY(${UNPROTECTED}) AS unprotected`;

/**
 * Takes from PUBLIC, in this database, what a role that only reads must not have. Applications get
 * it, and every login role that is there and does not read for keys keeps it: nothing that works
 * stops. A role that is made later gets it by a grant. Only a superuser can; for any other nothing
 * changes. Nor does it the second time, or where no role reads for keys.
 */
export const PROTECT = `DO $protect$
DECLARE
  mine regprocedure[];
  f regprocedure;
  other name;
BEGIN
  PERFORM set_config('search_path', 'pg_catalog', true);
  mine := ARRAY(SELECT DISTINCT p.oid::regprocedure
    FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
    WHERE ${WRITING_FUNCTIONS} AND a.grantee = 0);
  IF NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user)
    OR NOT EXISTS (SELECT FROM pg_auth_members m WHERE m.roleid = 'highwater_read'::regrole)
    OR cardinality(mine) = 0 AND NOT EXISTS (
      SELECT FROM pg_database d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
      WHERE d.datname = current_database() AND a.grantee = 0 AND a.privilege_type = 'TEMPORARY') THEN
    RETURN;
  END IF;
  IF to_regrole('${OTHERS}') IS NULL THEN
    CREATE ROLE ${OTHERS} NOLOGIN;
  END IF;
  FOR other IN SELECT r.rolname FROM pg_roles r WHERE r.rolcanlogin AND NOT r.rolsuper AND NOT pg_has_role(r.oid, 'highwater_read', 'MEMBER')
  LOOP
    EXECUTE format('GRANT ${OTHERS} TO %I', other);
  END LOOP;
  FOREACH f IN ARRAY mine LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO highwater_app, ${OTHERS}', f);
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
  END LOOP;
  EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO highwater_app, ${OTHERS}', current_database());
  EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
END
$protect$`;

/**
 * SQLSTATEs of a node whose schema, or a replica whose log, has not come to the table of login
 * roles.
 */
const UNPREPARED: ReadonlySet<string> = new Set(["3F000", "42P01"]);

export interface Vetted {
  readonly faults: readonly string[];
  readonly unprotected: readonly string[];
}

/**
 * What speaks against sessions of clients as the role. On a connection of the service's own.
 */
export async function vetRole(client: pg.Client, role: string, reads: boolean): Promise<readonly string[]> {
  const { rows } = await client.query<{ faults: string[] }>(VET_ROLE, [role, reads ? "read" : null]);
  return rows[0]?.faults.filter((fault) => !isAboutSettings(fault)) ?? [];
}

/** The same of its access, as the keys say it that were made for the role. */
export async function vetLogin(client: pg.Client, role: string): Promise<Vetted> {
  try {
    const { rows } = await client.query<Vetted>(VET_LOGIN, [role]);
    return rows[0] ?? { faults: [], unprotected: [] };
  } catch (cause) {
    if (UNPREPARED.has(String((cause as { code?: unknown }).code))) return { faults: [], unprotected: [] };
    throw cause;
  }
}
