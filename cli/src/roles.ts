// Prints the SQL that makes the database roles of a deployment: the services', and one of
// applications if that is wanted.
import { createRole, LOGIN_WITHOUT_POWERS, serviceRoleStatements } from "@highwater/store";
import pg from "pg";
import { type Call } from "./command.ts";
import { badInput } from "./refusal.ts";

export const SERVICE_ROLE = "highwater_service";
const ROLE = /^[a-z_][a-z0-9_]{0,62}$/;

export function run({ given, print }: Call): Promise<number> {
  given.none();
  const service = given.text("role") ?? SERVICE_ROLE;
  const application = given.text("app-role");
  for (const role of [service, application])
    if (role !== null && !ROLE.test(role))
      throw badInput(`${role} cannot be a role's name here: use small letters, digits and underscores`);
  print(roleSql(service, application, given.text("database") ?? "postgres"));
  return Promise.resolve(0);
}

/** Whole or not at all. */
export function roleSql(service: string, application: string | null, database: string): string {
  const statements = [
    "BEGIN",
    ...serviceRoleStatements(service, database),
    ...(application === null
      ? []
      : [
          createRole(application, LOGIN_WITHOUT_POWERS),
          `GRANT highwater_app TO ${pg.escapeIdentifier(application)}`,
        ]),
    "COMMIT",
  ];
  return statements.map((statement) => `${statement.trim().replace(/;$/, "")};`).join("\n");
}
