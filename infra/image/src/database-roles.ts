// Makes the roles of the database that the services use, with the rights that they need and no others, and gives the services'
// role its password. Run once by the set-up task, as the master user on the first primary; again it changes nothing but the
// password, so that it is also how that is replaced. Exit codes: 0 done, 1 not done, 2 wrong environment.
import pg from "pg";
import { scramVerifier } from "../../../packages/store/src/postgres/scram.ts";

const SERVICE = /^[a-z_][a-z0-9_]{0,62}$/;

export interface Roles {
  readonly service: string;
  /** Null leaves it as it is. */
  readonly password: string | null;
  readonly database: string;
}

/** Every statement, in its order. No statement holds the password: servers log what changes roles. */
export function statementsFor({ service, password, database }: Roles): string[] {
  const [role, name] = [pg.escapeIdentifier(service), pg.escapeIdentifier(database)];
  const create = (what: string, options: string): string =>
    `DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = ${pg.escapeLiteral(what)}) THEN
       CREATE ROLE ${pg.escapeIdentifier(what)} ${options}; END IF; END $$`;
  return [
    // What the roles of API keys are members of; the schema's own migration grants it what it may do.
    create("highwater_app", "NOLOGIN"),
    create(service, "LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE"),
    ...(password === null
      ? []
      : [`ALTER ROLE ${role} PASSWORD ${pg.escapeLiteral(scramVerifier(password))}`]),
    // Where the streams of replicas stand, and when their processes and the receivers began: hidden from others.
    `GRANT pg_monitor TO ${role}`,
    // A backend whose gateway is gone holds the row of its receipt; settling the outcome ends it.
    `GRANT pg_signal_backend TO ${role}`,
    // It makes the schema highwater, and owns nothing else.
    `GRANT CONNECT, CREATE ON DATABASE ${name} TO ${role}`,
    `REVOKE CREATE ON SCHEMA public FROM PUBLIC`,
  ];
}

async function main(env: Readonly<Record<string, string | undefined>>): Promise<number> {
  const { DATABASE_ROLES_URL: url = "", DATABASE_ROLES_SERVICE: service = "highwater_service" } = env;
  const password = env["DATABASE_ROLES_PASSWORD"] ?? "";
  if (!URL.canParse(url) || !SERVICE.test(service)) {
    console.error(
      "DATABASE_ROLES_URL must be the master user's connection string (its password comes by PGPASSWORD)",
    );
    return 2;
  }
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  try {
    await client.connect();
    const database = decodeURIComponent(new URL(url).pathname.slice(1));
    // Whole or not at all.
    await client.query("BEGIN");
    for (const statement of statementsFor({ service, password: password === "" ? null : password, database }))
      await client.query(statement);
    await client.query("COMMIT");
    console.log(`${service} and highwater_app are there`);
    return 0;
  } catch (cause) {
    console.error(`not done: ${cause instanceof Error ? cause.message : String(cause)}`);
    return 1;
  } finally {
    await client.end().catch(() => undefined);
  }
}

if (import.meta.main) process.exitCode = await main(process.env);
