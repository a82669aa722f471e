// The database of scripts: tables of their own role, which are reset before each run, and a wait
// for sessions that have not ended.
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { type Functions } from "./script.ts";
import { FUNCTIONS, RESET, SETUP } from "./vocabulary.ts";

/** Only scripts have sessions of this role. */
export const ROLE = "fuzz";

const SESSIONS_LIMIT_MS = 20_000;
const LOOK_MS = 2;

const PREPARED = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()";
const LARGE_OBJECTS = "SELECT lo_unlink(oid) FROM pg_largeobject_metadata";

export class Stage {
  readonly #admin: pg.Client;
  readonly functions: Functions;

  private constructor(admin: pg.Client, functions: Functions) {
    this.#admin = admin;
    this.functions = functions;
  }

  /** `url`: a superuser's. */
  static async open(url: string): Promise<Stage> {
    const admin = new pg.Client({ connectionString: url });
    await admin.connect();
    const { rowCount } = await admin.query("SELECT FROM pg_roles WHERE rolname = $1", [ROLE]);
    if (rowCount === 0) {
      const { database } = admin;
      await admin.query(
        [
          `CREATE ROLE ${ROLE} LOGIN`,
          // A prepared transaction's locks block even the script that prepared it.
          `ALTER ROLE ${ROLE} SET lock_timeout = '200ms'`,
          `GRANT ALL ON DATABASE "${database ?? ""}" TO ${ROLE}`,
          `GRANT ALL ON SCHEMA public TO ${ROLE}`,
          `SET ROLE ${ROLE}`,
          ...SETUP,
          "RESET ROLE",
        ].join("; "),
      );
    }
    const functions: Record<string, number> = {};
    for (const name of FUNCTIONS) {
      const { rows } = await admin.query<{ oid: number }>("SELECT $1::regproc::oid::int AS oid", [name]);
      functions[name] = rows[0]?.oid ?? 0;
    }
    return new Stage(admin, functions);
  }

  /** Restores the initial state. */
  async reset(): Promise<void> {
    await this.#untilAlone();
    await this.#endPrepared("ROLLBACK");
    await this.#admin.query([LARGE_OBJECTS, ...RESET].join("; "));
  }

  /**
   * Ends the transactions that a run left prepared, and returns how many. Nothing else ends them,
   * and they keep their locks.
   */
  async #endPrepared(how: "COMMIT" | "ROLLBACK"): Promise<number> {
    const { rows } = await this.#admin.query<{ gid: string }>(PREPARED);
    for (const { gid } of rows) await this.#admin.query(`${how} PREPARED '${gid}'`);
    return rows.length;
  }

  /** Errors: if a session of the role does not end after its client has disconnected. */
  async #untilAlone(): Promise<void> {
    const untilMs = performance.now() + SESSIONS_LIMIT_MS;
    for (;;) {
      const { rows } = await this.#admin.query<{ query: string }>(
        "SELECT state || ': ' || query AS query FROM pg_stat_activity WHERE usename = $1",
        [ROLE],
      );
      if (rows.length === 0) return;
      if (performance.now() > untilMs)
        throw new Error(`a session outlives its client: ${rows.map(({ query }) => query).join(", ")}`);
      await pause(LOOK_MS);
    }
  }

  /**
   * The content of the tables, as text, after all sessions. Commits prepared transactions first: a
   * TRUNCATE in one would keep its table locked.
   */
  async content(): Promise<string> {
    await this.#untilAlone();
    const prepared = await this.#endPrepared("COMMIT");
    const { rows } = await this.#admin.query<{ content: string }>(
      `SELECT json_build_object('fz', (SELECT json_agg(fz ORDER BY a) FROM fz), 'child', (SELECT json_agg(c ORDER BY a, c) FROM fz_child c),
         'unlogged', (SELECT count(*) FROM fz_unlogged))::text AS content`,
    );
    return `${rows[0]?.content ?? ""}, ${String(prepared)} prepared`;
  }

  async close(): Promise<void> {
    await this.#admin.end();
  }
}
