// The database roles of a system: what the services and applications log in as. Only a superuser
// may make them.
import { serviceRoleStatements } from "@highwater/store";
import { type KeyOptions, ownRole } from "./api-keys.ts";

/** Of gateways and trackers, with the rights that a deployment gives it. No superuser. */
export const SERVICE_ROLE = "highwater_service";
/** Of applications; its rights on the service's own tables are those of any application. */
export const APP_ROLE = "app";
/** A database's name, wherever the cluster makes one. */
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
 * What one owner writes all others may use: the roles of a system differ in who they are, and in
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
