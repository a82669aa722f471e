// Copies the application's database on the primary and swaps the two: a restore without a restart.
import { Client } from "pg";
import { type World } from "./world.ts";

const DATABASE = "app";
const COPY = "app_copy";
const DISCONNECT = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${DATABASE}' AND pid <> pg_backend_pid()`;

export interface DatabaseCopy {
  /** Replaces the database by the copy. `note`: called while no session can see either. */
  swapIn(note: () => void): Promise<void>;
}

/** Ends the database's sessions, because PostgreSQL copies only a database that is not in use. */
export async function copyDatabase(world: World): Promise<DatabaseCopy> {
  await alone(world, async (client) => {
    await client.query(`CREATE DATABASE ${COPY} TEMPLATE ${DATABASE} `);
  });
  return {
    swapIn: (note) =>
      alone(world, async (client) => {
        note();
        await client.query(`DROP DATABASE ${DATABASE} WITH (FORCE)`);
        await client.query(`ALTER DATABASE ${COPY} RENAME TO ${DATABASE}`);
      }),
  };
}

/**
 * Runs `work` from a session in another database, while no other session is connected to this one.
 */
async function alone(world: World, work: (client: Client) => Promise<void>): Promise<void> {
  const client = new Client({
    connectionString: await world.cluster.connectionString(world.primary, { database: "postgres" }),
  });
  client.on("error", () => undefined);
  await client.connect();
  try {
    await client.query(`ALTER DATABASE ${DATABASE} ALLOW_CONNECTIONS false`);
    await client.query(DISCONNECT);
    await work(client);
  } finally {
    await client.query(`ALTER DATABASE ${DATABASE} ALLOW_CONNECTIONS true`).catch(() => undefined);
    await client.end();
  }
}
