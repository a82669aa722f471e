// What tests see and hold still in the database: conditions to wait for, sessions to count, and gates that stop a statement, or a
// COMMIT, at a known step until the test lets it go on.
import { type Cluster, type Row } from "@highwater/lab-cluster";
import pg from "pg";
import { eventually } from "@highwater/lab-tools/process";

export class Database {
  readonly cluster: Cluster;
  node: string;
  #gates = 7_000;

  constructor(cluster: Cluster, node: string) {
    this.cluster = cluster;
    this.node = node;
  }

  query(sql: string, params: readonly unknown[] = []): Promise<Row[]> {
    return this.cluster.query(this.node, sql, params);
  }

  async count(from: string, params: readonly unknown[] = []): Promise<number> {
    const [row] = await this.query(`SELECT count(*)::int AS n FROM ${from}`, params);
    return Number(row?.["n"]);
  }

  untilRows(from: string, params: readonly unknown[] = []): Promise<true> {
    return eventually(from, async () => (await this.count(from, params)) > 0);
  }

  untilNone(from: string, params: readonly unknown[] = []): Promise<true> {
    return eventually(`none of ${from}`, async () => (await this.count(from, params)) === 0);
  }

  /** Closed until it is opened: a session that asks for it in a statement, or at COMMIT, waits. */
  async gate(): Promise<Gate> {
    const key = ++this.#gates;
    const holder = new pg.Client({ connectionString: await this.cluster.connectionString(this.node) });
    holder.on("error", () => undefined);
    await holder.connect();
    await holder.query("SELECT pg_advisory_lock($1)", [key]);
    return new Gate(this, key, holder);
  }
}

/** A statement that creates what `Gate.atCommit` needs. */
export const GATE_SQL: readonly string[] = [
  "CREATE TABLE gate_at_commit (key bigint)",
  `CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS
   'BEGIN PERFORM pg_advisory_xact_lock_shared(NEW.key); RETURN NULL; END'`,
  `CREATE CONSTRAINT TRIGGER wait_at_commit AFTER INSERT ON gate_at_commit DEFERRABLE INITIALLY DEFERRED
   FOR EACH ROW EXECUTE FUNCTION wait_at_gate()`,
];

export class Gate {
  readonly #database: Database;
  readonly #key: number;
  readonly #holder: pg.Client;

  constructor(database: Database, key: number, holder: pg.Client) {
    this.#database = database;
    this.#key = key;
    this.#holder = holder;
  }

  /** A statement that waits here. */
  get inStatement(): { sql: string } {
    return { sql: `SELECT pg_advisory_xact_lock_shared(${String(this.#key)})` };
  }

  /** A statement that makes the transaction's COMMIT wait here. */
  get atCommit(): { sql: string } {
    return { sql: `INSERT INTO gate_at_commit VALUES (${String(this.#key)})` };
  }

  /** What `Database.count` and its like take: the sessions that wait here. */
  get waiting(): string {
    return `pg_stat_activity WHERE pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
      AND classid = 0 AND objid = ${String(this.#key)})`;
  }

  reached(): Promise<true> {
    return this.#database.untilRows(this.waiting);
  }

  /** Ends the sessions that wait here. */
  async terminate(): Promise<void> {
    await this.#database.query(`SELECT pg_terminate_backend(pid) FROM ${this.waiting}`);
  }

  async open(): Promise<void> {
    await this.#holder.end();
  }
}
