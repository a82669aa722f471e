// The statements by which a lost transaction is brought back, inside the transaction that does it
// and with the rights of its role. All names are safe from the session's search_path.
// (docs/decisions/0234-lost-transactions-are-brought-back.md)
import { type Statement } from "@highwater/protocol";
import { type AsSent } from "../port.ts";
import { SESSION_FACTS } from "./wire-statements.ts";

/** $1 the lost transaction, $2 the tag of its receipt, $3 the transaction that brings it back. */
export const INSERT_REDO = "INSERT INTO highwater.redo (root, tag, id) VALUES ($1, $2, $3)";

/** So that each write by a primary key is planned as a search for its constants. */
export const EXPLAIN_SETTINGS: readonly Statement[] = [
  { sql: "SET LOCAL enable_seqscan = off" },
  { sql: "SET LOCAL enable_bitmapscan = off" },
  { sql: "SET LOCAL enable_tidscan = off" },
  { sql: "SET LOCAL jit = off" },
];

export function explain(statement: AsSent): AsSent {
  return { ...statement, sql: `EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) ${statement.sql}` };
}

/** The facts of this session, for comparison with those of a session of the wire. */
export const SESSION: Statement = { sql: `SELECT ${SESSION_FACTS}` };

/** $1 the table, as SQL names it. One text of JSON; see TableFacts of the gateway. */
export const TABLE_FACTS = `SELECT pg_catalog.json_build_object(
  'plain', c.relkind = 'r' AND NOT c.relispartition
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhparent = c.oid OR i.inhrelid = c.oid),
  'key', coalesce((SELECT pg_catalog.json_agg(pg_catalog.json_build_object('name', pg_catalog.quote_ident(a.attname),
      'type', pg_catalog.format_type(a.atttypid, a.atttypmod), 'number', a.attnum) ORDER BY a.attnum)
    FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
    WHERE i.indrelid = c.oid AND i.indisprimary), '[]'),
  'chosen', coalesce((SELECT pg_catalog.json_agg(DISTINCT pg_catalog.quote_ident(a.attname))
    FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
    WHERE i.indrelid = c.oid AND (i.indisunique OR i.indisexclusion) AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute u
      WHERE u.attrelid = c.oid AND u.attnum = ANY (i.indkey) AND u.atttypid = 'pg_catalog.uuid'::pg_catalog.regtype)), '[]'),
  'chosenExpression', EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indexprs IS NOT NULL
    AND (i.indisunique OR i.indisexclusion) AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute u
      WHERE u.attrelid = c.oid AND u.attnum = ANY (i.indkey) AND u.atttypid = 'pg_catalog.uuid'::pg_catalog.regtype)),
  'trigger', EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgenabled <> 'D'),
  'cascades', EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.confrelid = c.oid AND k.contype = 'f'
    AND (k.confdeltype NOT IN ('a', 'r') OR k.confupdtype NOT IN ('a', 'r'))),
  'references', coalesce((SELECT pg_catalog.json_agg(pg_catalog.json_build_object(
      'table', (SELECT pg_catalog.format('%I.%I', n.nspname, f.relname) FROM pg_catalog.pg_class f
        JOIN pg_catalog.pg_namespace n ON n.oid = f.relnamespace WHERE f.oid = k.confrelid),
      'on', (SELECT pg_catalog.string_agg(pg_catalog.format('r.%I = t.%I', ra.attname, ta.attname), ' AND ')
        FROM ROWS FROM (pg_catalog.unnest(k.conkey), pg_catalog.unnest(k.confkey)) x (tn, rn)
        JOIN pg_catalog.pg_attribute ta ON ta.attrelid = k.conrelid AND ta.attnum = x.tn
        JOIN pg_catalog.pg_attribute ra ON ra.attrelid = k.confrelid AND ra.attnum = x.rn)))
    FROM pg_catalog.pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'f'), '[]'))::text
FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass($1)`;

/**
 * The functions, operators and types that the parts of a table use: its columns, defaults, checks,
 * policies and indexes. A domain is used with its checks.
 */
const USED = `WITH RECURSIVE used (class, object) AS (
  SELECT 'pg_catalog.pg_class'::pg_catalog.regclass::oid, pg_catalog.to_regclass($1::text)::oid
  UNION SELECT 'pg_catalog.pg_class'::pg_catalog.regclass, i.indexrelid FROM pg_catalog.pg_index i
    WHERE i.indrelid = pg_catalog.to_regclass($1::text)
  UNION SELECT 'pg_catalog.pg_attrdef'::pg_catalog.regclass, d.oid FROM pg_catalog.pg_attrdef d
    WHERE d.adrelid = pg_catalog.to_regclass($1::text)
  UNION SELECT 'pg_catalog.pg_constraint'::pg_catalog.regclass, k.oid FROM pg_catalog.pg_constraint k
    WHERE k.conrelid = pg_catalog.to_regclass($1::text)
  UNION SELECT 'pg_catalog.pg_policy'::pg_catalog.regclass, p.oid FROM pg_catalog.pg_policy p
    WHERE p.polrelid = pg_catalog.to_regclass($1::text)
  UNION SELECT x.class, x.object FROM used u CROSS JOIN LATERAL (
    SELECT d.refclassid, d.refobjid FROM pg_catalog.pg_depend d
      WHERE d.classid = u.class AND d.objid = u.object AND d.refclassid IN ('pg_catalog.pg_proc'::pg_catalog.regclass,
        'pg_catalog.pg_operator'::pg_catalog.regclass, 'pg_catalog.pg_type'::pg_catalog.regclass)
    UNION ALL SELECT 'pg_catalog.pg_constraint'::pg_catalog.regclass, k.oid FROM pg_catalog.pg_constraint k
      WHERE u.class = 'pg_catalog.pg_type'::pg_catalog.regclass AND k.contypid = u.object) x (class, object))`;

/**
 * $1 the table, $2 the epoch. \`f\`: the table, what belongs to it, or what that uses, was altered
 * in the epoch. The body of a function is not looked into.
 */
export const SCHEMA_IS_UNTOUCHED = `${USED} SELECT pg_catalog.bool_and(highwater.is_untouched($2::pg_catalog.uuid, x.writer)) FROM (
  SELECT c.xmin AS writer FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass($1::text)
  UNION ALL SELECT a.xmin FROM pg_catalog.pg_attribute a WHERE a.attrelid = pg_catalog.to_regclass($1::text)
  UNION ALL SELECT d.xmin FROM pg_catalog.pg_attrdef d WHERE d.adrelid = pg_catalog.to_regclass($1::text)
  UNION ALL SELECT t.xmin FROM pg_catalog.pg_trigger t WHERE t.tgrelid = pg_catalog.to_regclass($1::text)
  UNION ALL SELECT p.xmin FROM pg_catalog.pg_policy p WHERE p.polrelid = pg_catalog.to_regclass($1::text)
  UNION ALL SELECT k.xmin FROM pg_catalog.pg_constraint k WHERE k.conrelid = pg_catalog.to_regclass($1::text)
  UNION ALL SELECT i.xmin FROM pg_catalog.pg_index i WHERE i.indrelid = pg_catalog.to_regclass($1::text)
  UNION ALL SELECT p.xmin FROM pg_catalog.pg_proc p JOIN used u ON u.object = p.oid
    WHERE u.class = 'pg_catalog.pg_proc'::pg_catalog.regclass
  UNION ALL SELECT o.xmin FROM pg_catalog.pg_operator o JOIN used u ON u.object = o.oid
    WHERE u.class = 'pg_catalog.pg_operator'::pg_catalog.regclass
  UNION ALL SELECT t.xmin FROM pg_catalog.pg_type t JOIN used u ON u.object = t.oid
    WHERE u.class = 'pg_catalog.pg_type'::pg_catalog.regclass
  UNION ALL SELECT k.xmin FROM pg_catalog.pg_constraint k JOIN used u ON u.object = k.oid
    WHERE u.class = 'pg_catalog.pg_constraint'::pg_catalog.regclass) x`;

/**
 * $1 names, as a text of JSON. Functions and operators among them that may give something else each
 * time. Extensions are trusted with operators: types such as citext have their own.
 */
export const UNSTEADY = `SELECT DISTINCT p.proname::text, (p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace AND p.provolatile = 's')::text
FROM pg_catalog.pg_proc p JOIN pg_catalog.json_array_elements_text($1::json) wanted (name) ON wanted.name = p.proname
WHERE p.provolatile <> 'i' OR p.pronamespace <> 'pg_catalog'::pg_catalog.regnamespace
UNION SELECT o.oprname::text, 'false' FROM pg_catalog.pg_operator o JOIN pg_catalog.pg_proc p ON p.oid = o.oprcode
JOIN pg_catalog.json_array_elements_text($1::json) wanted (name) ON wanted.name = o.oprname
WHERE o.oprnamespace <> 'pg_catalog'::pg_catalog.regnamespace AND (p.provolatile <> 'i' OR NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
  WHERE d.classid = 'pg_catalog.pg_operator'::pg_catalog.regclass AND d.objid = o.oid AND d.deptype = 'e'))`;

export interface RowOfTable {
  readonly table: string;
  /** The primary key: quoted names, types and constants, all as SQL. */
  readonly key: readonly { readonly name: string; readonly type: string; readonly value: string }[];
  /** Columns whose values are compared. */
  readonly chosen: readonly string[];
}

const whereKey = ({ key }: RowOfTable): string =>
  key.map(({ name, type, value }) => `t.${name} = (${value})::${type}`).join(" AND ");

const chosenText = ({ chosen }: RowOfTable): string =>
  chosen.length === 0 ? "''" : `ROW(${chosen.map((name) => `t.${name}`).join(", ")})::text`;

/** The key's values in one form, whatever the statement wrote. */
export function keyText({ key }: RowOfTable): Statement {
  const values = key.map(({ value, type }) => `(${value})::${type}::text`).join(", ");
  return { sql: `SELECT ${values}` };
}

/**
 * The row before the write: whether it was written in the epoch, what is compared, and its writer.
 */
export function rowBefore(row: RowOfTable, since: string): Statement {
  return {
    sql: `SELECT highwater.is_untouched('${since}'::pg_catalog.uuid, t.xmin), ${chosenText(row)}, t.xmin::text FROM ONLY ${row.table} t WHERE ${whereKey(row)}`,
  };
}

/**
 * The row behind the write: whether what it refers to was written in the epoch, and what is
 * compared.
 */
export function rowAfter(
  row: RowOfTable,
  references: readonly { readonly table: string; readonly on: string }[],
  since: string,
): Statement {
  const untouched = references.map(
    ({ table, on }) =>
      `NOT EXISTS (SELECT FROM ${table} r WHERE ${on} AND NOT highwater.is_untouched('${since}'::pg_catalog.uuid, r.xmin))`,
  );
  return {
    sql: `SELECT ${["true", ...untouched].join(" AND ")}, ${chosenText(row)} FROM ONLY ${row.table} t WHERE ${whereKey(row)}`,
  };
}
