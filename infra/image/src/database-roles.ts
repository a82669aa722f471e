// Makes the roles of the database: the services' own, with the rights that they need and no others,
// and the login roles of API keys, which may write receipts and nothing else. Gives them their
// passwords. Run by the set-up task, as the master user on the primary: once at first, and again
// for a new role or another password; nothing else of what is there is changed. It also carries out
// what else the master is to do, since there is no other way to the database. Exit codes: 0 done, 1
// not done, 2 wrong environment.
import pg from "pg";
import {
  createRole,
  isHashablePassword,
  KEY_GROUPS,
  LOGIN_WITHOUT_POWERS,
  OTHERS,
  protectStatements,
  scramVerifier,
  serviceRoleStatements,
} from "@highwater/store";
import { parseRolePasswords } from "@highwater/txn-gateway/role-url";

/**
 * Applications may make functions in `public`, and one of them could fit better than PostgreSQL's
 * own function of the same name.
 */
const OWN_NAMES_ONLY = "SET LOCAL search_path TO pg_catalog, pg_temp";
const SERVICE = /^[a-z_][a-z0-9_]{0,62}$/;

export interface Roles {
  readonly service: string;
  /** Null leaves it as it is. */
  readonly password: string | null;
  readonly database: string;
  /** Passwords of the login roles of API keys, by role. */
  readonly applications: Readonly<Record<string, string>>;
}

/**
 * Every statement, in its order. No statement holds the password: servers log what changes roles.
 */
export function statementsFor({ service, password, database, applications }: Roles): string[] {
  const setPassword = (role: string, text: string): string =>
    `ALTER ROLE ${pg.escapeIdentifier(role)} PASSWORD ${pg.escapeLiteral(scramVerifier(text))}`;
  return [
    ...serviceRoleStatements(service, database),
    ...(password === null ? [] : [setPassword(service, password)]),
    `REVOKE CREATE ON SCHEMA public FROM PUBLIC`,
    ...Object.entries(applications).flatMap(([application, its]) => [
      createRole(application, LOGIN_WITHOUT_POWERS),
      setPassword(application, its),
      // An operator has made it a role of keys that only read, and so it stays.
      `DO $$ BEGIN IF NOT pg_catalog.pg_has_role(${pg.escapeLiteral(application)}, 'highwater_read', 'MEMBER') THEN
         GRANT highwater_app TO ${pg.escapeIdentifier(application)}; END IF; END $$`,
    ]),
  ];
}

/**
 * The secret of the gateways; what is wrong with it otherwise. `taken`: roles that are not an
 * application's.
 */
export function readApplications(json: string, taken: readonly string[]): Record<string, string> | string {
  const read = parseRolePasswords(json);
  if (!read.ok)
    return `DATABASE_ROLES_APPLICATIONS must be passwords by role, as a JSON object: ${read.faults.join("; ")}`;
  for (const [role, password] of read.passwords) {
    // The server would cut a longer name off, and then it is another role's.
    if (role === "" || Buffer.byteLength(role) > 63 || taken.includes(role) || role.startsWith("pg_"))
      return `DATABASE_ROLES_APPLICATIONS names ${role || "nobody"}, which cannot be a role of API keys`;
    if (!isHashablePassword(password))
      return `the password of ${role} must be one line of printable ASCII characters`;
  }
  return Object.fromEntries(read.passwords);
}

interface Order {
  readonly url: string;
  readonly roles: Roles;
  /** Statements of the operator; empty if there are none. */
  readonly sql: string;
}

function readOrder(env: Readonly<Record<string, string | undefined>>): Order | string {
  const { DATABASE_ROLES_URL: url = "", DATABASE_ROLES_SERVICE: service = "highwater_service" } = env;
  const { DATABASE_ROLES_PASSWORD: password = "", DATABASE_ROLES_SQL: sql = "" } = env;
  if (!URL.canParse(url) || !SERVICE.test(service))
    return "DATABASE_ROLES_URL must be the master user's connection string (its password comes by PGPASSWORD)";
  const { username, pathname } = new URL(url);
  const taken = [decodeURIComponent(username), service, ...KEY_GROUPS, OTHERS];
  const applications = readApplications(env["DATABASE_ROLES_APPLICATIONS"] ?? "{}", taken);
  if (typeof applications === "string") return applications;
  const database = decodeURIComponent(pathname.slice(1));
  return {
    url,
    sql,
    roles: { service, password: password === "" ? null : password, database, applications },
  };
}

async function main(env: Readonly<Record<string, string | undefined>>): Promise<number> {
  const order = readOrder(env);
  if (typeof order === "string") {
    console.error(order);
    return 2;
  }
  const { url, roles, sql } = order;
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  try {
    await client.connect();
    // Whole or not at all.
    await client.query("BEGIN");
    await client.query(OWN_NAMES_ONLY);
    for (const statement of statementsFor(roles)) await client.query(statement);
    if (sql !== "") {
      await client.query("SET LOCAL search_path TO DEFAULT");
      await client.query(sql);
      await client.query(OWN_NAMES_ONLY);
    }
    for (const statement of protectStatements(roles.service)) await client.query(statement);
    await client.query("COMMIT");
    const there = [roles.service, ...Object.keys(roles.applications), ...KEY_GROUPS];
    console.log(`there are ${there.join(", ")}${sql === "" ? "" : "; the statements are carried out"}`);
    return 0;
  } catch (cause) {
    console.error(`not done: ${cause instanceof Error ? cause.message : String(cause)}`);
    return 1;
  } finally {
    await client.end().catch(() => undefined);
  }
}

if (import.meta.main) process.exitCode = await main(process.env);
