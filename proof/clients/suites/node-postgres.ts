// node-postgres: simple and extended protocol, prepared statements, errors, notices, NOTIFY,
// cancellation, pools.
import { createHash } from "node:crypto";
import pg from "pg";
import { Cases, fieldsOf } from "../src/cases.ts";
import { type Suite } from "../src/rig.ts";

const SCHEMA = `CREATE TABLE account (id int PRIMARY KEY, owner text UNIQUE, balance numeric NOT NULL CHECK (balance >= 0));
  INSERT INTO account VALUES (1, 'ada', 100), (2, 'bob', 50)`;
const LARGE = "SELECT n, repeat(md5(n::text), 20) AS text FROM generate_series(1, 20000) AS n";
/** Excludes parameters that name the session or carry tokens. */
const OWN = /^(?:highwater\.|session_authorization$)/;

interface Message {
  readonly parameterName: string;
  readonly parameterValue: string;
}

export const nodePostgres: Suite = {
  name: "node-postgres",
  run: async ({ url }) => {
    const cases = new Cases();
    const client = new pg.Client({ connectionString: url });
    const parameters = new Map<string, string>();
    const { connection } = client as unknown as {
      connection: { on(event: string, listener: (message: Message) => void): void };
    };
    connection.on("parameterStatus", ({ parameterName, parameterValue }) => {
      if (!OWN.test(parameterName)) parameters.set(parameterName, parameterValue);
    });
    const notices: unknown[] = [];
    client.on("notice", (notice) => notices.push(fieldsOf(notice)));
    await client.connect();
    try {
      await sessions(cases, client, parameters);
      await transactions(cases, client, notices);
      await several(cases, url);
    } finally {
      await client.end();
    }
    return cases.transcript;
  },
};

async function sessions(cases: Cases, client: pg.Client, parameters: Map<string, string>): Promise<void> {
  const run = async (text: string, values?: unknown[]): Promise<unknown> => {
    const { command, rowCount, rows, fields } = await client.query<pg.QueryResultRow>(text, values);
    return { command, rowCount, rows, types: fields.map(({ name, dataTypeID }) => [name, dataTypeID]) };
  };
  await cases.see("several statements in one text", async () => {
    const results = (await client.query(SCHEMA)) as unknown as pg.QueryResult[];
    return results.map(({ command, rowCount }) => [command, rowCount]);
  });
  await cases.see("parameters reported at start-up", async () => [...parameters].sort());
  await cases.see("a simple query", () => run("SELECT * FROM account ORDER BY id"));
  await cases.see("an empty query", () => run(""));
  await cases.see("parameters of many types", () =>
    run("SELECT $1::int, $2::text, $3::bytea, $4::jsonb, $5::timestamptz, $6::int[], $7::numeric, $8::bool", [
      ...[7, "ä'\\", Buffer.from([0, 1, 255]), { a: [1, null] }, "2026-01-02T03:04:05Z", [1, 2]],
      ...["12345678901234567890.123", null],
    ]),
  );
  await cases.see("a named statement, twice", async () => {
    const one = { name: "by id", text: "SELECT owner FROM account WHERE id = $1" };
    const rows = [await client.query({ ...one, values: [1] }), await client.query({ ...one, values: [2] })];
    return rows.map((result) => result.rows as unknown);
  });
  await cases.see("rows as arrays", async () => {
    const found = await client.query({ text: "SELECT id, owner FROM account ORDER BY id", rowMode: "array" });
    return found.rows;
  });
  await cases.see("a large result", async () => {
    const { rows } = await client.query<{ n: number; text: string }>(LARGE);
    const hash = createHash("sha256");
    for (const { n, text } of rows) hash.update(`${n}${text}`);
    return [rows.length, hash.digest("hex")];
  });
  await cases.see("a large parameter", () =>
    run("SELECT length($1), md5($1)", ["0123456789".repeat(200_000)]),
  );
  await cases.see("a syntax error", () => run("SELECT * FROM account WHRE id = 1"));
  await cases.see("a syntax error of the extended protocol", () => run("SELECT $1::int + FROM account", [1]));
  await cases.see("a duplicate key", () => run("INSERT INTO account VALUES (1, 'eve', 1)"));
  await cases.see("a failed check", () => run("UPDATE account SET balance = $1 WHERE id = 1", [-1]));
  await cases.see("a wrong value", () => run("SELECT $1::int", ["x"]));
  await cases.see("an update of nothing", () => run("UPDATE account SET balance = 0 WHERE id = 99"));
  await cases.see("an error in the middle of a text undoes all of it", async () => {
    const failed = await client
      .query(
        "INSERT INTO account VALUES (3, 'cyd', 1); SELECT 1 / 0; INSERT INTO account VALUES (4, 'dan', 1)",
      )
      .catch(fieldsOf);
    return [failed, await run("SELECT count(*) FROM account")];
  });
  await cases.see("commits inside one text", async () => {
    const text =
      "INSERT INTO account VALUES (5, 'e', 1); COMMIT; BEGIN; INSERT INTO account VALUES (6, 'f', 1)";
    const results = (await client.query(text)) as unknown as pg.QueryResult[];
    await client.query("ROLLBACK");
    return [results.map(({ command }) => command), await run("SELECT id FROM account ORDER BY id")];
  });
}

async function transactions(cases: Cases, client: pg.Client, notices: unknown[]): Promise<void> {
  const steps = async (...texts: string[]): Promise<unknown[]> => {
    const seen: unknown[] = [];
    for (const text of texts)
      seen.push(
        await client.query(text).then(
          ({ command, rowCount, rows }) => [command, rowCount, rows as unknown],
          (error: unknown) => fieldsOf(error),
        ),
      );
    return seen;
  };
  const add = (id: number): string => `INSERT INTO account VALUES (${String(id)}, 'n${String(id)}', 1)`;
  const count = "SELECT count(*)::int FROM account";
  await cases.see("commit", () => steps("BEGIN", add(10), "COMMIT", count));
  await cases.see("rollback", () => steps("BEGIN", add(11), "ROLLBACK", count));
  await cases.see("a failed block", () => steps("BEGIN", add(12), "SELECT 1/0", "SELECT 1", "COMMIT", count));
  await cases.see("savepoints", () =>
    steps("BEGIN", add(13), "SAVEPOINT a", "SELECT 1/0", "ROLLBACK TO a", add(14), "COMMIT", count),
  );
  await cases.see("commit and chain", () =>
    steps("BEGIN", add(15), "COMMIT AND CHAIN", add(16), "ROLLBACK", count),
  );
  await cases.see("begin twice, commit without begin", () =>
    steps("BEGIN", "BEGIN", "COMMIT", "COMMIT", "ROLLBACK"),
  );
  await cases.see("read only", () =>
    steps("BEGIN READ ONLY", add(17), "ROLLBACK", "BEGIN READ ONLY", count, "COMMIT"),
  );
  await cases.see("a deferred constraint fails at commit", () =>
    steps(
      "CREATE TABLE child (id int REFERENCES account DEFERRABLE INITIALLY DEFERRED)",
      ...["BEGIN", "INSERT INTO child VALUES (77)", "COMMIT", "SELECT count(*)::int FROM child"],
    ),
  );
  await cases.see("a cursor", () =>
    steps(
      ...[
        "BEGIN",
        "DECLARE c CURSOR FOR SELECT id FROM account ORDER BY id",
        "FETCH 1 FROM c",
        "MOVE 1 FROM c",
      ],
      ...["FETCH 1 FROM c", "CLOSE c", "COMMIT"],
    ),
  );
  await cases.see("a cursor with hold", () =>
    steps(
      ...["BEGIN", "DECLARE h CURSOR WITH HOLD FOR SELECT id FROM account ORDER BY id", "COMMIT"],
      ...["FETCH 1 FROM h", "CLOSE h"],
    ),
  );
  await cases.see("two-phase commit", () =>
    steps(
      ...["BEGIN", add(20), "PREPARE TRANSACTION 'node-a'", count, "COMMIT PREPARED 'node-a'", count],
      ...["BEGIN", add(21), "PREPARE TRANSACTION 'node-b'", "ROLLBACK PREPARED 'node-b'", count],
    ),
  );
  await cases.see("a procedure that commits", () =>
    steps(
      `CREATE PROCEDURE twice() LANGUAGE plpgsql AS $$ BEGIN INSERT INTO account VALUES (30, 'p', 1); COMMIT;
        INSERT INTO account VALUES (31, 'q', 1); ROLLBACK; END $$`,
      ...["CALL twice()", "BEGIN", "CALL twice()", "ROLLBACK", count],
    ),
  );
  await cases.see("a function that writes", () =>
    steps(
      "CREATE FUNCTION adds(n int) RETURNS int LANGUAGE sql AS $$ INSERT INTO account VALUES (n, 'f' || n, 1) RETURNING id $$",
      ...[
        "SELECT adds(40)",
        "WITH w AS (INSERT INTO account VALUES (41, 'w', 1) RETURNING id) SELECT * FROM w",
      ],
      ...["SELECT adds(40)", count],
    ),
  );
  await cases.see("statements that refuse a block", () =>
    steps(
      "VACUUM account",
      "CREATE INDEX CONCURRENTLY i ON account (balance)",
      "BEGIN",
      "VACUUM",
      "ROLLBACK",
    ),
  );
  await cases.see("settings, temporary tables, locks, discard all", () =>
    steps(
      ...[
        "SET application_name = 'a'",
        "SHOW application_name",
        "SET LOCAL work_mem = '1MB'",
        "RESET work_mem",
      ],
      ...["CREATE TEMP TABLE t AS SELECT 1 AS n", "SELECT * FROM t", "SELECT pg_advisory_lock(1)"],
      ...[
        "SELECT pg_advisory_unlock(1)",
        "SELECT pg_advisory_unlock(1)",
        "PREPARE p AS SELECT 1",
        "EXECUTE p",
      ],
      ...["DISCARD ALL", "SELECT * FROM t", "EXECUTE p", "SHOW application_name"],
    ),
  );
  await cases.see("notices, in their order", async () => {
    notices.length = 0;
    await steps(
      "DO $$ BEGIN RAISE NOTICE 'one'; RAISE WARNING 'two' USING HINT = 'h', ERRCODE = 'P0009'; END $$",
      "CREATE TABLE IF NOT EXISTS account ()",
    );
    return notices;
  });
}

async function several(cases: Cases, url: string): Promise<void> {
  const [one, other] = [new pg.Client({ connectionString: url }), new pg.Client({ connectionString: url })];
  await Promise.all([one.connect(), other.connect()]);
  try {
    await cases.see("a notification", async () => {
      await one.query("LISTEN news");
      const received = new Promise((resolve) => {
        one.once("notification", ({ channel, payload }) => {
          resolve([channel, payload]);
        });
      });
      await other.query("NOTIFY news, 'text'");
      return received;
    });
    await cases.see("notifications of a rolled back transaction are none", async () => {
      const received: unknown[] = [];
      one.on("notification", ({ payload }) => received.push(payload));
      await other.query("BEGIN; NOTIFY news, 'no'; ROLLBACK");
      await other.query("NOTIFY news, 'yes'");
      await one.query("SELECT 1");
      return received;
    });
    await cases.see("a cancelled query", async () => {
      const { rows } = await one.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
      const slow = one.query("SELECT pg_sleep(600)").catch(fieldsOf);
      const stop = "SELECT pg_cancel_backend($1) FROM pg_stat_activity WHERE pid = $1 AND query LIKE '%600%'";
      while ((await other.query(stop, [rows[0]?.pid])).rowCount === 0);
      return [await slow, (await one.query("SELECT 1 AS one")).rows];
    });
    await cases.see("a serialization failure", () => serializationFailure(one, other));
    await cases.see("a lock and settings take no snapshot", async () => {
      await one.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
      await one.query("SET LOCAL work_mem = '1MB'");
      await one.query("LOCK TABLE child IN SHARE MODE");
      await other.query("INSERT INTO account VALUES (80, 'late', 1)");
      const { rows } = await one.query<{ count: number }>("SELECT count(*)::int FROM account WHERE id = 80");
      await one.query("ROLLBACK");
      return rows;
    });
    await cases.see("a deadlock ends for one of two", async () => {
      await one.query("BEGIN; UPDATE account SET balance = 1 WHERE id = 1");
      await other.query("BEGIN; UPDATE account SET balance = 1 WHERE id = 2");
      const update = (client: pg.Client, id: number): Promise<unknown> =>
        client.query("UPDATE account SET balance = 2 WHERE id = $1", [id]).then(
          () => "updated",
          (error: unknown) => fieldsOf(error)["code"],
        );
      const ended = Promise.all([update(one, 2), update(other, 1)]);
      const seen = (await ended).sort();
      await Promise.all([one.query("ROLLBACK"), other.query("ROLLBACK")]);
      return seen;
    });
    await cases.see("a session that is ended from outside", async () => {
      const { rows } = await one.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
      const slow = one.query("SELECT pg_sleep(600)").catch(fieldsOf);
      one.on("error", () => undefined);
      await other.query("SELECT pg_terminate_backend($1)", [rows[0]?.pid]);
      return slow;
    });
  } finally {
    await Promise.all([one.end().catch(() => undefined), other.end()]);
  }
  await cases.see("a pool, many transactions at once", async () => {
    const pool = new pg.Pool({ connectionString: url, max: 8 });
    try {
      const done = await Promise.all(
        Array.from({ length: 64 }, async (_, at) =>
          pool.query("INSERT INTO account VALUES ($1, $2, 1)", [1000 + at, `pool ${String(at)}`]),
        ),
      );
      const { rows } = await pool.query("SELECT count(*)::int FROM account WHERE id >= 1000");
      return [done.length, rows];
    } finally {
      await pool.end();
    }
  });
  await cases.see("a database that does not exist", async () => {
    const wrong = new URL(url);
    wrong.pathname = "/nowhere";
    const client = new pg.Client({ connectionString: wrong.href });
    await client.connect();
  });
}

async function serializationFailure(one: pg.Client, other: pg.Client): Promise<unknown> {
  for (const client of [one, other]) {
    await client.query("BEGIN ISOLATION LEVEL SERIALIZABLE");
    await client.query("SELECT sum(balance) FROM account");
  }
  const seen: unknown[] = [];
  for (const [at, client] of [one, other].entries())
    seen.push(
      await client
        .query("INSERT INTO account VALUES ($1, $2, 1)", [60 + at, `s${String(at)}`])
        .then(() => client.query("COMMIT"))
        .then(
          ({ command }) => command,
          (error: unknown) => fieldsOf(error)["code"],
        ),
    );
  await other.query("ROLLBACK");
  return seen;
}
