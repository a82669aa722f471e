// The database roles of a system, as which services and applications log in. Only a superuser may
// make them.
import { serviceRoleStatements } from "@highwater/store";
import { type KeyOptions, ownRole } from "./api-keys.ts";

/** The role of gateways and trackers, with the rights of a deployment. Not a superuser. */
export const SERVICE_ROLE = "highwater_service";
/** The role of applications, with the usual rights on the service's tables. */
export const APP_ROLE = "app";
/** The database's name in every cluster. */
export const DATABASE = "app";

/**
 * `trackers`: roles of single trackers. Their sessions become the services' role, which owns what
 * they make.
 */
export function systemRoles(trackers: readonly string[]): string[] {
  return [
    ...serviceRoleStatements(SERVICE_ROLE, DATABASE),
    `CREATE ROLE ${APP_ROLE} LOGIN IN ROLE highwater_app`,
    `GRANT ALL ON SCHEMA public TO ${APP_ROLE}`,
    `GRANT ALL ON DATABASE ${DATABASE} TO ${APP_ROLE}`,
    ...trackers.flatMap((role) => [
      `CREATE ROLE ${role} LOGIN IN ROLE ${SERVICE_ROLE}`,
      `ALTER ROLE ${role} SET role TO ${SERVICE_ROLE}`,
    ]),
  ];
}

/**
 * All owners may use each other's tables: the roles of a system differ only in identity, and in
 * whether they may write.
 */
export function ownRoleStatement(options: KeyOptions): string {
  const { name, writes } = ownRole(options);
  const create = writes
    ? `CREATE ROLE "${name}" LOGIN IN ROLE ${APP_ROLE};
       ALTER DEFAULT PRIVILEGES FOR ROLE "${name}" GRANT ALL ON TABLES TO ${APP_ROLE};
       ALTER DEFAULT PRIVILEGES FOR ROLE "${name}" GRANT SELECT ON TABLES TO highwater_read;`
    : `CREATE ROLE "${name}" LOGIN IN ROLE highwater_read;`;
  return `DO $$ BEGIN ${create} EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$`;
}
