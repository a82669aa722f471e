// What the PostgreSQL wire says in a client's session at a PostgreSQL server.
import { WIRE_SETTINGS, type WireStatements } from "../port.ts";

const TEXT_OID = 25;
const setting = (name: string): string => `pg_catalog.current_setting('highwater.${name}', true)`;

/** The rows of a cursor WITH HOLD are read when the transaction commits. */
const CHECK = `SELECT pg_catalog.pg_current_xact_id_if_assigned() IS NOT NULL
  OR EXISTS (SELECT FROM pg_catalog.pg_cursor() c WHERE c.is_holdable),
  ${WIRE_SETTINGS.map(setting).join(", ")}, current_user`;

/** Row security ties receipts to the current epoch. */
const RECEIPT = `${CHECK}, CASE WHEN pg_catalog.pg_current_xact_id_if_assigned() IS NOT NULL
  AND pg_catalog.current_setting('transaction_read_only') OPERATOR(pg_catalog.=) 'off'
  AND pg_catalog.current_setting('row_security') OPERATOR(pg_catalog.=) 'on'
  AND coalesce(nullif(pg_catalog.lower(${setting("id")}), ''), $1) OPERATOR(pg_catalog.=) $1
  THEN highwater.write_receipt($1::pg_catalog.uuid, $2::pg_catalog.uuid, $3::pg_catalog.uuid, $4::pg_catalog.int8) END`;

/**
 * What of a session decides how a statement is read, and what its answer looks like. One text of
 * JSON with texts.
 */
export const SESSION_FACTS = `pg_catalog.jsonb_build_object('current_user', current_user,
  'has_temporary_schema', (pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0::pg_catalog.oid)::pg_catalog.text,
  ${[
    "search_path",
    "TimeZone",
    "DateStyle",
    "IntervalStyle",
    "client_encoding",
    "standard_conforming_strings",
    "backslash_quote",
    "transform_null_equals",
    "array_nulls",
    "bytea_output",
    "extra_float_digits",
    "lc_monetary",
    "lc_numeric",
    "xmloption",
    "xmlbinary",
    "row_security",
    "session_replication_role",
    "default_text_search_config",
  ]
    .map((name) => `'${name}', pg_catalog.current_setting('${name}')`)
    .join(", ")})::pg_catalog.text`;

const KEPT_RECEIPT = `${RECEIPT}, pg_catalog.pg_current_xact_id_if_assigned(), pg_catalog.pg_current_snapshot(),
  pg_catalog.current_setting('transaction_isolation'), ${SESSION_FACTS}`;

const PROBE = `SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace n
    JOIN pg_catalog.pg_proc p ON p.pronamespace OPERATOR(pg_catalog.=) n.oid
    WHERE n.nspname OPERATOR(pg_catalog.=) 'highwater' AND p.proname OPERATOR(pg_catalog.=) 'write_receipt'
    AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_function_privilege(p.oid, 'EXECUTE')),
  current_user`;

const READ_CHECK = `${CHECK}, ${setting("after")}, pg_catalog.current_setting('transaction_isolation')`;

export const WIRE_STATEMENTS: WireStatements = {
  // A value in the startup message is the session's default, takes precedence over `options`, and
  // survives DISCARD ALL.
  parameters: { synchronous_commit: "off" },
  check: CHECK,
  receipt: { text: RECEIPT, types: [TEXT_OID] },
  keptReceipt: KEPT_RECEIPT,
  probe: PROBE,
  readCheck: READ_CHECK,
  failing: ({ code, message, hint }) => {
    const fields = { ERRCODE: code, MESSAGE: message, ...(hint === undefined ? {} : { HINT: hint }) };
    const said = Object.entries(fields).map(([name, text]) => `${name} = '${text.replaceAll("'", "''")}'`);
    return `DO $highwater$BEGIN RAISE EXCEPTION USING ${said.join(", ")}; END$highwater$`;
  },
};
