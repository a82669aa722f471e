// An adversary that knows the rules: every message sequence that ends, makes or hides a commit, and
// every answer that shows another session's commit. When an answer arrives, it looks at the replica
// behind a slow link, which must have what the answer shows.
import pg from "pg";
import * as f from "./frames.ts";
import { type Arrived, type Place, RawSession } from "./session.ts";

/** Named after the part of the contract that it tests. */
export interface Case {
  readonly name: string;
  /** Settings at the start of the session. */
  readonly options?: string;
  /** Statements that another session commits directly on the primary, without waiting. */
  readonly others?: readonly string[];
  /** Each is sent after the previous one's ReadyForQuery. */
  readonly before?: readonly Buffer[];
  readonly send: Buffer;
  /** Statements that the other session runs afterwards, for a session that only listens. */
  readonly then?: readonly string[];
  /** Accepts the first frame that shows the commit. */
  readonly reveals: (frame: Arrived) => boolean;
  /** What the replica must have at the answer: the row, no row, or the log of a prepared one. */
  readonly shows?: "row" | "no row" | "log";
}

/** In every text, `V` stands for the value of a case's row. */
export const SETUP = [
  "CREATE TABLE held (v int PRIMARY KEY, b text)",
  "CREATE TABLE held_child (v int REFERENCES held)",
  "CREATE FUNCTION held_insert(k int) RETURNS int LANGUAGE sql AS $$ INSERT INTO held VALUES (k) RETURNING v $$",
  `CREATE PROCEDURE held_commits(k int) LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO held VALUES (k); COMMIT; RAISE NOTICE 'committed'; PERFORM 1; END $$`,
  "GRANT ALL ON held, held_child TO PUBLIC",
];

const INSERT = "INSERT INTO held VALUES (V)";
const tag =
  (text: string) =>
  ({ type, body }: Arrived): boolean =>
    type === "C" && body.toString("latin1").startsWith(text);
const type =
  (wanted: string) =>
  (frame: Arrived): boolean =>
    frame.type === wanted;
const join = (...parts: readonly Buffer[]): Buffer => Buffer.concat(parts);
/** Without Describe, because a COMMIT returns no rows. */
const run = (sql: string): Buffer => join(f.parse("", sql), f.bind("", ""), f.execute(""));
/** The portal stops after one row. */
const runOne = (sql: string): Buffer => join(f.parse("", sql), f.bind("", ""), f.execute("", 1));
const query = (sql: string): Buffer => f.query(sql);
const named = (name: string): Buffer => join(f.bind("", name), f.execute(""), f.flush());
const READ_DURABLE = "-c highwater.read_ack=durable";
const FAST = "-c highwater.ack=commit";
const EXPLAIN = `EXPLAIN (ANALYZE) ${INSERT}`;
const TWO_ROWS = "INSERT INTO held VALUES (V), (-V) RETURNING v";
/** Sets an id inside its own block: a UUIDv7 of this run. */
const NAME = `DO $$ BEGIN PERFORM set_config('highwater.id', '${timeOfUuid()}-7000-8000-' || lpad('V', 12, '0'), true); END $$`;
const WITH = `WITH w AS (${INSERT} RETURNING v) SELECT * FROM w`;

const COMMITS: readonly Case[] = [
  { name: "INSERT that commits by itself", send: query(INSERT), reveals: tag("INSERT") },
  {
    name: "COMMIT of a block",
    before: [query("BEGIN"), query(INSERT)],
    send: query("COMMIT"),
    reveals: tag("COMMIT"),
  },
  {
    name: "END, in lower case, behind a comment",
    before: [query("BEGIN"), query(INSERT)],
    send: query("/* ROLLBACK */ end"),
    reveals: tag("COMMIT"),
  },
  {
    name: "COMMIT AND CHAIN",
    before: [query("BEGIN"), query(INSERT)],
    send: query("COMMIT AND CHAIN"),
    reveals: tag("COMMIT"),
  },
  {
    name: "INSERT; COMMIT; BEGIN in one text",
    send: query(`${INSERT}; COMMIT; BEGIN`),
    reveals: tag("COMMIT"),
  },
  {
    name: "a text that fails after its COMMIT",
    send: query(`BEGIN; ${INSERT}; COMMIT; SELECT 1/0`),
    reveals: tag("COMMIT"),
  },
  {
    name: "Execute COMMIT with Flush and no Sync",
    before: [query("BEGIN"), query(INSERT)],
    send: join(run("COMMIT"), f.flush()),
    reveals: tag("COMMIT"),
  },
  {
    name: "a whole block with Flush and no Sync",
    send: join(run("BEGIN"), run(INSERT), run("COMMIT"), f.flush()),
    reveals: tag("COMMIT"),
  },
  {
    name: "a prepared COMMIT by name",
    before: [join(f.parse("end", "COMMIT"), f.sync()), query("BEGIN"), query(INSERT)],
    send: named("end"),
    reveals: tag("COMMIT"),
  },
  {
    name: "a prepared COMMIT AND CHAIN by name",
    before: [join(f.parse("chain", "COMMIT AND CHAIN"), f.sync()), query("BEGIN"), query(INSERT)],
    send: named("chain"),
    reveals: tag("COMMIT"),
  },
  {
    name: "COMMIT in a pipeline without BEGIN",
    send: join(run(INSERT), run("COMMIT"), f.flush()),
    reveals: tag("COMMIT"),
  },
  { name: "Execute INSERT and Sync", send: join(run(INSERT), f.sync()), reveals: type("Z") },
  {
    name: "the first of two Syncs in a pipeline",
    send: join(run(INSERT), f.sync(), run("SELECT 1"), f.sync()),
    reveals: type("Z"),
  },
  {
    name: "a portal that stops, and Sync",
    send: join(runOne(TWO_ROWS), f.sync()),
    reveals: type("Z"),
  },
  {
    name: "a portal that stops and goes on",
    send: join(runOne(TWO_ROWS), f.execute(""), f.sync()),
    reveals: type("Z"),
  },
  {
    name: "COMMIT while a portal that writes has stopped",
    before: [query("BEGIN")],
    send: join(f.parse("", TWO_ROWS), f.bind("p", ""), f.execute("p", 1), run("COMMIT"), f.sync()),
    reveals: tag("COMMIT"),
  },
  {
    name: "COMMIT behind ROLLBACK TO",
    before: [query("BEGIN"), query(INSERT), query("SAVEPOINT s"), query("SELECT held_insert(-V)")],
    send: join(query("ROLLBACK TO s"), query("COMMIT")),
    reveals: tag("COMMIT"),
  },
  {
    name: "COMMIT of a savepoint's write",
    before: [query("BEGIN"), query("SAVEPOINT s"), query(INSERT), query("RELEASE s")],
    send: join(run("COMMIT"), f.sync()),
    reveals: tag("COMMIT"),
  },
  {
    name: "COMMIT of a block that has failed and gone on",
    before: [query("BEGIN"), query(INSERT), query("SAVEPOINT s"), query("SELECT 1 / 0")],
    send: query("ROLLBACK TO s; COMMIT"),
    reveals: tag("COMMIT"),
  },
  {
    name: "COMMIT with an id",
    before: [query("BEGIN"), query(NAME), query(INSERT)],
    send: query("COMMIT"),
    reveals: tag("COMMIT"),
  },
  {
    name: "a whole block with an id, Flush and no Sync",
    send: join(run("BEGIN"), run(NAME), run(INSERT), run("COMMIT"), f.flush()),
    reveals: tag("COMMIT"),
  },
  { name: "a SELECT that writes", send: query("SELECT held_insert(V)"), reveals: type("Z") },
  {
    name: "an extended SELECT that writes",
    send: join(run("SELECT held_insert(V)"), f.sync()),
    reveals: type("Z"),
  },
  { name: "WITH … INSERT", send: query(WITH), reveals: type("Z") },
  { name: "an extended WITH … INSERT", send: join(run(WITH), f.sync()), reveals: type("Z") },
  { name: "EXPLAIN ANALYZE INSERT", send: query(EXPLAIN), reveals: type("Z") },
  {
    name: "EXECUTE of a prepared INSERT",
    before: [query(`PREPARE p AS ${INSERT}`)],
    send: query("EXECUTE p"),
    reveals: type("Z"),
  },
  {
    name: "a SELECT that writes, after DISCARD ALL has dropped all statements",
    before: [join(run("SELECT 1"), f.sync()), query("DISCARD ALL")],
    send: join(run("SELECT held_insert(V)"), f.sync()),
    reveals: type("Z"),
  },
  {
    name: "a SELECT that writes, after DEALLOCATE ALL",
    before: [query("SELECT 1"), query("DEALLOCATE ALL")],
    send: query("SELECT held_insert(V)"),
    reveals: type("Z"),
  },
  {
    name: "two SELECTs of which the second writes",
    send: query("SELECT 1; SELECT held_insert(V)"),
    reveals: type("Z"),
  },
  {
    name: "a WITH HOLD cursor that writes during COMMIT",
    before: [query("BEGIN"), query("DECLARE h CURSOR WITH HOLD FOR SELECT held_insert(V)")],
    send: query("COMMIT"),
    reveals: tag("COMMIT"),
  },
  {
    name: "an extended COMMIT, during which a WITH HOLD cursor writes",
    before: [query("BEGIN"), query("DECLARE h CURSOR WITH HOLD FOR SELECT held_insert(V)")],
    send: join(run("COMMIT"), f.sync()),
    reveals: tag("COMMIT"),
  },
  { name: "a procedure that commits", send: query("CALL held_commits(V)"), reveals: type("Z") },
  { name: "an extended CALL", send: join(run("CALL held_commits(V)"), f.sync()), reveals: type("Z") },
  {
    name: "a procedure that commits, and fails then",
    send: query("DO $$ BEGIN INSERT INTO held VALUES (V); COMMIT; PERFORM 1/0; END $$"),
    reveals: type("Z"),
  },
  {
    name: "COPY",
    send: join(query("COPY held FROM STDIN"), f.copyData("V\tcopied\n"), f.copyDone()),
    reveals: type("Z"),
  },
  {
    name: "an extended COPY",
    send: join(run("COPY held FROM STDIN"), f.copyData("V\tcopied\n"), f.copyDone(), f.sync()),
    reveals: type("Z"),
  },
  {
    name: "PREPARE TRANSACTION",
    before: [query("BEGIN"), query(INSERT)],
    send: query("PREPARE TRANSACTION 'held_V'"),
    reveals: tag("PREPARE"),
    shows: "log",
  },
  {
    name: "COMMIT PREPARED",
    before: [query("BEGIN"), query(INSERT), query("PREPARE TRANSACTION 'held_V'")],
    send: query("COMMIT PREPARED 'held_V'"),
    reveals: tag("COMMIT"),
  },
  {
    name: "an extended COMMIT PREPARED with Flush",
    before: [query("BEGIN"), query(INSERT), query("PREPARE TRANSACTION 'held_V'")],
    send: join(run("COMMIT PREPARED 'held_V'"), f.flush()),
    reveals: tag("COMMIT"),
  },
];

/** In commit mode these have no confirmed receipt, so they are held as in safe mode. */
const UNRECEIPTED = new Set([
  "INSERT; COMMIT; BEGIN in one text",
  "a text that fails after its COMMIT",
  "EXECUTE of a prepared INSERT",
  "a WITH HOLD cursor that writes during COMMIT",
  "an extended COMMIT, during which a WITH HOLD cursor writes",
  "a procedure that commits",
  "an extended CALL",
  "COPY",
  "COMMIT PREPARED",
]);

const REVEALS: readonly Case[] = [
  { name: "a duplicate key", others: [INSERT], send: query(INSERT), reveals: type("E") },
  {
    name: "a duplicate key in a block",
    others: [INSERT],
    before: [query("BEGIN")],
    send: query(INSERT),
    reveals: type("E"),
  },
  {
    name: "a duplicate key in a pipeline with Flush",
    others: [INSERT],
    before: [query("BEGIN")],
    send: join(run(INSERT), f.flush()),
    reveals: type("E"),
  },
  {
    name: "a missing parent",
    others: [INSERT, "DELETE FROM held WHERE v = V"],
    send: query("INSERT INTO held_child VALUES (V)"),
    reveals: type("E"),
    shows: "log",
  },
  {
    name: "UPDATE 0 in a block",
    others: [INSERT],
    before: [query("BEGIN")],
    send: query("UPDATE held SET b = 'x' WHERE v = V AND b IS NOT NULL"),
    reveals: tag("UPDATE 0"),
  },
  {
    name: "DELETE 0 in a block, extended",
    others: [INSERT],
    before: [query("BEGIN")],
    send: join(run("DELETE FROM held WHERE v = V AND b IS NOT NULL"), f.flush()),
    reveals: tag("DELETE 0"),
  },
  {
    name: "INSERT 0 0 by ON CONFLICT DO NOTHING",
    others: [INSERT],
    before: [query("BEGIN")],
    send: query(`${INSERT} ON CONFLICT DO NOTHING`),
    reveals: tag("INSERT 0 0"),
  },
  {
    name: "MERGE 0 in a block",
    others: [INSERT],
    before: [query("BEGIN")],
    send: query(
      "MERGE INTO held USING (VALUES (V)) s(k) ON v = k WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN INSERT VALUES (k)",
    ),
    reveals: tag("MERGE 0"),
  },
  {
    name: "a locking SELECT in a block",
    others: [INSERT],
    before: [query("BEGIN")],
    send: query("SELECT v FROM held WHERE v = V FOR UPDATE"),
    reveals: type("D"),
  },
  {
    name: "an extended locking SELECT",
    others: [INSERT],
    before: [query("BEGIN")],
    send: join(run("SELECT v FROM held WHERE v = V FOR SHARE"), f.flush()),
    reveals: type("D"),
  },
  {
    name: "a locking SELECT whose portal stops",
    others: [INSERT],
    before: [query("BEGIN")],
    send: join(runOne("SELECT v FROM held WHERE v IN (V, 1) FOR UPDATE"), f.flush()),
    reveals: type("D"),
  },
  {
    name: "a row of a portal that stops, under read_ack durable",
    options: READ_DURABLE,
    others: [INSERT],
    before: [query("BEGIN")],
    send: join(runOne("SELECT v FROM held WHERE v IN (V, 1)"), f.flush()),
    reveals: type("D"),
  },
  {
    name: "a row under read_ack durable",
    options: READ_DURABLE,
    others: [INSERT],
    send: query("SELECT v FROM held WHERE v = V"),
    reveals: type("D"),
  },
  {
    name: "a row under read_ack durable in a block",
    options: READ_DURABLE,
    others: [INSERT],
    before: [query("BEGIN")],
    send: join(run("SELECT v FROM held WHERE v = V"), f.flush()),
    reveals: type("D"),
  },
  {
    name: "no row under read_ack durable",
    options: READ_DURABLE,
    others: [INSERT],
    send: query("SELECT v FROM held WHERE v = V AND b IS NOT NULL"),
    reveals: type("C"),
  },
  {
    name: "an error under read_ack durable",
    options: READ_DURABLE,
    others: [INSERT],
    send: query("SELECT 1 / (1 - count(*)) FROM held WHERE v = V"),
    reveals: type("E"),
  },
  {
    name: "COPY TO under read_ack durable",
    options: READ_DURABLE,
    others: [INSERT],
    send: query("COPY (SELECT v FROM held WHERE v = V) TO STDOUT"),
    reveals: type("d"),
  },
  {
    name: "a notification under read_ack durable",
    options: READ_DURABLE,
    before: [query("LISTEN held_V")],
    send: Buffer.alloc(0),
    then: [`BEGIN; ${INSERT}; NOTIFY held_V; COMMIT`],
    reveals: type("A"),
  },
  {
    name: "a notice after an inner COMMIT under read_ack durable",
    options: READ_DURABLE,
    send: query("CALL held_commits(V)"),
    reveals: type("N"),
  },
];

export const CASES: readonly Case[] = [
  ...COMMITS,
  ...REVEALS,
  ...COMMITS.filter(({ name }) => UNRECEIPTED.has(name)).map((each) => ({
    ...each,
    name: `${each.name}, in commit mode without a receipt`,
    options: FAST,
  })),
];

export class Adversary {
  readonly #primary: pg.Client;
  readonly #replica: pg.Client;
  #values = 1_000;

  private constructor(primary: pg.Client, replica: pg.Client) {
    this.#primary = primary;
    this.#replica = replica;
  }

  /** Superusers' URLs of both nodes, without links. */
  static async open(urls: { readonly primary: string; readonly replica: string }): Promise<Adversary> {
    const clients = [urls.primary, urls.replica].map(
      (connectionString) => new pg.Client({ connectionString }),
    );
    await Promise.all(clients.map((client) => client.connect()));
    const [primary, replica] = clients;
    if (primary === undefined || replica === undefined) throw new Error("two nodes are needed");
    await primary.query("SET synchronous_commit = off");
    return new Adversary(primary, replica);
  }

  /** True when the replica had what the answer shows. */
  async isHeld(place: Place, each: Case): Promise<boolean> {
    const value = String(this.#values++);
    const said = (bytes: Buffer): Buffer => replaceValue(bytes, value);
    const session = await RawSession.open(place, each.options === undefined ? {} : { options: each.options });
    try {
      for (const bytes of each.before ?? []) await session.ask(said(bytes));
      for (const sql of each.others ?? []) await this.#primary.query(valued(sql, value));
      const from = await this.#position();
      const at = session.frames.length;
      session.send(said(each.send));
      for (const sql of each.then ?? []) await this.#primary.query(valued(sql, value));
      await session.until((frames) => frames.slice(at).find(each.reveals) ?? null);
      return await this.#hasReplica(each.shows ?? "row", Number(value), from);
    } finally {
      session.destroy();
      await this.#primary
        .query(`SELECT FROM pg_prepared_xacts WHERE gid = 'held_${value}'`)
        .then(
          async ({ rowCount }) => rowCount === 1 && this.#primary.query(`ROLLBACK PREPARED 'held_${value}'`),
        );
    }
  }

  async #position(): Promise<string> {
    const { rows } = await this.#primary.query<{ at: string }>("SELECT pg_current_wal_insert_lsn() AS at");
    return rows[0]?.at ?? "";
  }

  /** Checks the log that the replica has now; for a row, waits until that log is replayed. */
  async #hasReplica(shows: NonNullable<Case["shows"]>, value: number, from: string): Promise<boolean> {
    const { rows } = await this.#replica.query<{ at: string; is_later: boolean }>(
      "SELECT at, at > $1::pg_lsn AS is_later FROM pg_last_wal_receive_lsn() AS at",
      [from],
    );
    const [had] = rows;
    if (had === undefined) throw new Error("the replica receives nothing");
    if (shows === "log") return had.is_later;
    for (;;) {
      const replayed = await this.#replica.query("SELECT WHERE pg_last_wal_replay_lsn() >= $1::pg_lsn", [
        had.at,
      ]);
      if (replayed.rowCount === 1) break;
    }
    const row = await this.#replica.query("SELECT FROM held WHERE v = $1", [value]);
    return (row.rowCount === 1) === (shows === "row");
  }

  async close(): Promise<void> {
    await Promise.all([this.#primary.end(), this.#replica.end()]);
  }
}

/** The first two groups of a UUIDv7 of this moment. */
function timeOfUuid(): string {
  const hex = Date.now().toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}`;
}

const valued = (text: string, value: string): string => text.replaceAll(/\bV\b|(?<=held_)V/g, value);

/** Replaces it in a client's frames, and corrects their lengths. */
function replaceValue(bytes: Buffer, value: string): Buffer {
  const frames: Buffer[] = [];
  for (let at = 0; at < bytes.length;) {
    const end = at + 1 + bytes.readInt32BE(at + 1);
    const kind = bytes.toString("latin1", at, at + 1);
    const body = bytes.toString("latin1", at + 5, end);
    frames.push(f.message(kind, Buffer.from(/[QPd]/.test(kind) ? valued(body, value) : body, "latin1")));
    at = end;
  }
  return Buffer.concat(frames);
}
