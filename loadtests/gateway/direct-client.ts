// The transaction by node-postgres alone, as an application would write it: each statement awaited
// before the next.
import pg from "pg";
import { type Client, ISOLATION, SELECT, UPDATE } from "./workload.ts";

const CONFLICTS: ReadonlySet<unknown> = new Set(["40001", "40P01"]);

export class DirectClient implements Client {
  readonly #connection: pg.Client;

  private constructor(connection: pg.Client) {
    this.#connection = connection;
  }

  static async open(url: string, synchronousCommit: "off" | "on"): Promise<DirectClient> {
    const options = `-c synchronous_commit=${synchronousCommit}`;
    const connection = new pg.Client({ connectionString: url, application_name: "bench", options });
    await connection.connect();
    return new DirectClient(connection);
  }

  async transact(row: string): Promise<boolean> {
    const connection = this.#connection;
    try {
      await connection.query(`BEGIN ISOLATION LEVEL ${ISOLATION}`);
      await connection.query(UPDATE, [row]);
      const { rows } = await connection.query<{ n: number }>(SELECT, [row]);
      await connection.query("COMMIT");
      if ((rows[0]?.n ?? 0) < 1) throw new Error("the row was not updated");
      return true;
    } catch (cause) {
      if (!CONFLICTS.has((cause as { code?: unknown }).code)) throw cause;
      await connection.query("ROLLBACK");
      return false;
    }
  }

  close(): Promise<void> {
    return this.#connection.end();
  }
}
