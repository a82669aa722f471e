// The transaction by node-postgres alone, as an application would write it: each statement awaited
// before the next, and a single one without BEGIN and COMMIT. `synchronous_commit` is off.
import pg from "pg";
import { type Client, ISOLATION } from "./workload.ts";
import type { DirectTarget } from "./generator.ts";

const CONFLICTS: ReadonlySet<unknown> = new Set(["40001", "40P01"]);

export class DirectClient implements Client {
  readonly #connection: pg.Client;
  readonly #target: DirectTarget;

  private constructor(connection: pg.Client, target: DirectTarget) {
    this.#connection = connection;
    this.#target = target;
  }

  static async open(target: DirectTarget): Promise<DirectClient> {
    const options = `-c synchronous_commit=off -c default_transaction_isolation=${ISOLATION}`;
    const connection = new pg.Client({ connectionString: target.url, application_name: "bench", options });
    await connection.connect();
    return new DirectClient(connection, target);
  }

  async transact(row: string): Promise<boolean> {
    const connection = this.#connection;
    const { statements, isPrepared } = this.#target;
    const isBlock = statements.length > 1;
    let found: number | null = null;
    try {
      if (isBlock) await connection.query("BEGIN");
      for (const text of statements) {
        const query = { text, values: [row], ...(isPrepared && { name: text }) };
        found = (await connection.query(query)).rowCount;
      }
      if (isBlock) await connection.query("COMMIT");
    } catch (cause) {
      if (!CONFLICTS.has((cause as { code?: unknown }).code)) throw cause;
      if (isBlock) await connection.query("ROLLBACK");
      return false;
    }
    if (found !== 1) throw new Error(`there is no row ${row}`);
    return true;
  }

  close(): Promise<void> {
    return this.#connection.end();
  }
}
