// The database role of gateways and trackers, with the rights that they need and no others. The
// set-up of a deployment, the dev system and the tests all make it from this list.
// (docs/guide/durability-levels.md, docs/decisions/0105-…)
import { readFileSync } from "node:fs";
import pg from "pg";
import { OTHERS, PROTECT } from "./reader-roles.ts";

/** Groups of the login roles of API keys. The migrations grant them what such roles may do. */
export const KEY_GROUPS = ["highwater_app", "highwater_read"] as const;

/** Does nothing to a role that is there. */
export function createRole(role: string, options: string): string {
  return `DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = ${pg.escapeLiteral(role)}) THEN
       CREATE ROLE ${pg.escapeIdentifier(role)} ${options}; END IF; END $$`;
}

export const LOGIN_WITHOUT_POWERS = "LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE";

/** Makes the schema and the table of the audit log where they are missing. */
const AUDIT_LOG = new URL("../../migrations/0020-audit-log.sql", import.meta.url);

/**
 * The services made it themselves, before the set-up was first run: from now on they cannot change
 * what is there.
 */
const takeAuditLog = (service: string): string => `DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'highwater_audit' AND pg_get_userbyid(nspowner) = ${pg.escapeLiteral(service)}) THEN
    ALTER SCHEMA highwater_audit OWNER TO CURRENT_USER;
    ALTER TABLE highwater_audit.entry OWNER TO CURRENT_USER;
    ALTER FUNCTION highwater_audit.refuse() OWNER TO CURRENT_USER;
  END IF; END $$`;

const SEQUENCES = new URL("../../migrations/0034-sequences.sql", import.meta.url);
/** Replaces the function of the file above. */
const SEQUENCES_BY_OID = new URL("../../migrations/0037-sequences-by-oid.sql", import.meta.url);

/**
 * Drops the function if the services made it, since they could have changed it. For that, a role
 * that may make roles becomes a member of the services' role.
 */
const dropSequences = (
  service: string,
): string => `DO $$ DECLARE isMember bool := pg_catalog.pg_has_role(${pg.escapeLiteral(service)}, 'USAGE'); BEGIN
  IF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'highwater_sequences' AND pg_get_userbyid(nspowner) = ${pg.escapeLiteral(service)}) THEN
    IF NOT isMember THEN GRANT ${pg.escapeIdentifier(service)} TO CURRENT_USER; END IF;
    DROP SCHEMA highwater_sequences CASCADE;
    IF NOT isMember THEN REVOKE ${pg.escapeIdentifier(service)} FROM CURRENT_USER; END IF;
  END IF; END $$`;

/**
 * Makes the groups and the role, and grants the role its rights. To be run once on the primary, by
 * a superuser, or by a role that may make roles, grant the two predefined ones, and owns the
 * database. Again without harm.
 */
export function serviceRoleStatements(service: string, database: string): string[] {
  const role = pg.escapeIdentifier(service);
  return [
    ...KEY_GROUPS.map((group) => createRole(group, "NOLOGIN")),
    createRole(service, LOGIN_WITHOUT_POWERS),
    // Where the streams of replicas stand, when their processes and the receivers began, and how
    // old a timeline's history file is: hidden from others.
    `GRANT pg_monitor TO ${role}`,
    // A session whose gateway is gone holds the row of its receipt, and one with a lock on a
    // private table stops the next epoch.
    `GRANT pg_signal_backend TO ${role}`,
    // It makes the schemas highwater and highwater_jobs, and owns nothing else.
    `GRANT CONNECT, CREATE ON DATABASE ${pg.escapeIdentifier(database)} TO ${role}`,
    readFileSync(AUDIT_LOG, "utf8"),
    takeAuditLog(service),
    // It adds to the audit log and reads it. It may not name columns that the server fills in
    // itself.
    `GRANT USAGE ON SCHEMA highwater_audit TO ${role}`,
    `GRANT SELECT, INSERT (actor, action, target, reason, detail) ON highwater_audit.entry TO ${role}`,
    dropSequences(service),
    readFileSync(SEQUENCES, "utf8"),
    readFileSync(SEQUENCES_BY_OID, "utf8"),
    `GRANT USAGE ON SCHEMA highwater_sequences TO ${role}`,
    `GRANT EXECUTE ON FUNCTION highwater_sequences.reserve(bigint, oid, timestamptz) TO ${role}`,
  ];
}

/**
 * What only a superuser can do, once a role of keys that only read is there, and again for every
 * further one: it takes from PUBLIC what such a role must not have, and leaves it to the service.
 * Run by another role it changes nothing.
 */
export function protectStatements(service: string): string[] {
  return [
    PROTECT,
    `DO $$ BEGIN IF to_regrole('${OTHERS}') IS NOT NULL THEN GRANT ${OTHERS} TO ${pg.escapeIdentifier(service)}; END IF; END $$`,
  ];
}
