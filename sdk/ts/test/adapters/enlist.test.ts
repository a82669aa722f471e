// Goal: transactions on the application's own connections, by pg and by postgres.js, have the promises that others have: through
// the loss of a region, a killed connection and a cancelled COMMIT, and nothing is claimed that PostgreSQL does not hold.
// Method: the real system of three regions; connections to its primary as an application has them, in the role of an application.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { readFile, rm, writeFile } from "node:fs/promises";
import { createConnection, type Socket } from "node:net";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Site } from "@highwater/conformance/site";
import { APP_ROLE } from "@highwater/lab-system";
import { INSERT_RECEIPT } from "@highwater/store/internals";
import { drizzle } from "drizzle-orm/node-postgres";
import { pgTable, text } from "drizzle-orm/pg-core";
import { Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import postgres from "postgres";
import { enlist, type EnlistedTransaction, type EnlistOptions } from "../../src/adapters/enlist/index.ts";
import { RECEIPT } from "../../src/adapters/enlist/statements.ts";
import {
  Highwater,
  TransactionAbortedError,
  TransactionLostError,
  UnknownOutcomeError,
} from "../../src/index.ts";
import { PATIENT } from "./support.ts";

let site: Site;
let hw: Highwater;
let requests: string[] = [];
/** While it is there, reports of ended transactions do not reach a gateway. */
let withheld: Promise<void> | undefined;
const ends = new AsyncDisposableStack();

const address = (): Promise<string> =>
  site.system.cluster.connectionString(site.region("primary"), { user: APP_ROLE });

before(async () => {
  site = ends.use(await Site.start());
  const { endpoints } = await site.describe();
  hw = new Highwater({
    ...{ endpoints, ...PATIENT },
    fetch: async (url, init) => {
      requests.push(new URL(url).pathname);
      if (url.endsWith("/v1/tickets/ends")) await withheld;
      return fetch(url, init);
    },
  });
  ends.defer(() => hw.close());
  await hw.transaction(
    [
      { sql: "CREATE TABLE note (text text UNIQUE DEFERRABLE INITIALLY DEFERRED)" },
      { sql: "CREATE TABLE late (pid int)" },
      // Its COMMIT waits for a lock that a test holds, and then its connection or statement is ended.
      {
        sql: `CREATE FUNCTION wait_here() RETURNS trigger LANGUAGE plpgsql AS
              'BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN NULL; END'`,
      },
      {
        sql: `CREATE CONSTRAINT TRIGGER wait_at_commit AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED
              FOR EACH ROW EXECUTE FUNCTION wait_here()`,
      },
    ],
    { ack: "durable", level: "global", maxWaitMs: 60_000, timeoutMs: 90_000 },
  );
});

after(() => ends.disposeAsync());

async function connect(options: EnlistOptions = {}, of = hw) {
  const client = new pg.Client({ connectionString: await address() });
  client.on("error", () => undefined);
  await client.connect();
  const enlisted = enlist(of, client, options);
  return { client, enlisted, [Symbol.asyncDispose]: () => client.end() };
}

async function count(text: string): Promise<number> {
  const [row] = await site.query(`SELECT count(*)::int AS n FROM note WHERE text LIKE '${text}'`);
  return Number(row?.["n"]);
}

async function commit(client: pg.ClientBase, ...statements: string[]): Promise<void> {
  await client.query("BEGIN");
  for (const each of statements) await client.query(each);
  await client.query("COMMIT");
}

test("the receipt is the service's own statement, where the transaction has written", () => {
  assert.equal(RECEIPT.replace(/\nWHERE .*$/, ""), INSERT_RECEIPT);
});

test("pg: a transaction gets its promise, with savepoints, whatever a listener throws", async (context) => {
  await using at = await connect();
  const { client, enlisted } = at;
  const seen: EnlistedTransaction[] = [];
  const printed = context.mock.method(console, "error", () => undefined);
  const thrown = new Error("of a listener");
  const offThrower = enlisted.onCommit(() => {
    throw thrown;
  });
  const off = enlisted.onCommit((transaction) => seen.push(transaction));
  await client.query("BEGIN ISOLATION LEVEL SERIALIZABLE");
  await client.query("SAVEPOINT one");
  await client.query("INSERT INTO note VALUES ('undone')");
  await client.query("ROLLBACK TO SAVEPOINT one");
  await client.query({ text: "INSERT INTO note VALUES ($1)", values: ["kept"] });
  const { command } = await client.query("commit;");
  assert.equal(command, "COMMIT");
  off();
  offThrower();
  assert.deepEqual(
    printed.mock.calls.map(({ arguments: parts }): unknown => parts.at(-1)),
    [thrown],
  );
  const transaction = enlisted.last(client);
  assert.ok(transaction !== undefined);
  assert.deepEqual(seen, [transaction]);
  const verdict = await transaction.durable({ level: "global", timeoutMs: 60_000 });
  assert.deepEqual([verdict.verdict, verdict.id], ["durable", transaction.id]);
  assert.deepEqual([await count("kept"), await count("undone")], [1, 0]);
  // Another process has its token.
  const { token } = await transaction.promise();
  await hw.promise(token).durable({ timeoutMs: 60_000 });
  assert.match((await hw.status(transaction.id)).state, /^(committed|durable)$/);
});

test("pg: what is no transaction of the client's own is passed on, and has no promise", async () => {
  await using at = await connect();
  const { client, enlisted } = at;
  requests = [];
  await client.query("INSERT INTO note VALUES ('autocommitted')");
  await client.query("BEGIN; INSERT INTO note VALUES ('in one text'); COMMIT");
  await commit(client, "SELECT 1").catch(assert.ifError);
  await client.query("BEGIN READ ONLY");
  await client.query("SELECT count(*) FROM note");
  await client.query("COMMIT");
  assert.equal(enlisted.last(client), undefined);
  assert.deepEqual([await count("autocommitted"), await count("in one text")], [1, 1]);
  // Only the transaction that could have written asked for a ticket.
  assert.equal(requests.filter((path) => path === "/v1/tickets").length, 1);
  const [row] = (await client.query("SHOW synchronous_commit")).rows as { synchronous_commit: string }[];
  assert.notEqual(row?.synchronous_commit, "off", "the setting is the transaction's alone");
});

test("pg: a failed transaction, a rollback and a refused COMMIT are answered as PostgreSQL answers", async () => {
  await using at = await connect();
  const { client, enlisted } = at;
  await client.query("BEGIN");
  await assert.rejects(client.query("SELECT 1/0"));
  assert.equal((await client.query("COMMIT")).command, "ROLLBACK");
  await client.query("BEGIN");
  await client.query("INSERT INTO note VALUES ('rolled back')");
  await client.query("ROLLBACK");
  const twice = commit(client, "INSERT INTO note VALUES ('twice')", "INSERT INTO note VALUES ('twice')");
  await assert.rejects(twice, { code: "23505" });
  await client.query("BEGIN");
  await assert.rejects(client.query("COMMIT AND CHAIN"), { code: "transaction_control" });
  await client.query("ROLLBACK");
  assert.deepEqual([await count("rolled back"), await count("twice")], [0, 0]);
  assert.equal(enlisted.last(client), undefined);
  await commit(client, "INSERT INTO note VALUES ('afterwards')");
  await enlisted.last(client)?.durable({ timeoutMs: 60_000 });
});

test("pg: a COMMIT with comments is enlisted, and one among other statements is refused", async () => {
  await using at = await connect();
  const { client, enlisted } = at;
  const ids = new Set<string | undefined>();
  for (const end of ["COMMIT -- done", "/* a /* b */ */ COMMIT", "-- x\nEND;", "; commit /* c */ work"]) {
    await client.query("/* app */ BEGIN");
    await client.query("INSERT INTO note VALUES (gen_random_uuid() || ' commented')");
    await client.query(end);
    ids.add(enlisted.last(client)?.id);
  }
  assert.deepEqual([ids.size, ids.has(undefined), await count("%commented")], [4, false, 4]);
  await client.query("BEGIN");
  await client.query("INSERT INTO note VALUES ('with more')");
  const insert = "INSERT INTO note VALUES ('with more; end')";
  for (const end of ["COMMIT; SELECT 1", "-- x\nEND; BEGIN", "COMMIT -- x\nAND CHAIN", `${insert}; COMMIT`])
    await assert.rejects(client.query(end), { code: "transaction_control", outcome: "not_applied" }, end);
  await assert.rejects(client.query("COMMIT PREPARED 'none'"), { code: "25001" });
  await client.query("-- undo\nROLLBACK");
  assert.equal(await count("with more%"), 0);
  // Outside an enlisted transaction it goes to the server as it is.
  await client.query(`BEGIN; ${insert}; COMMIT`);
  assert.equal(await count("with more%"), 1);
  assert.ok(ids.has(enlisted.last(client)?.id), "the last one that committed");
});

test("pg: connections of a pool are enlisted, callbacks work, and many transactions share requests", async () => {
  const pool = new pg.Pool({ connectionString: await address(), max: 8 });
  const enlisted = enlist(hw, pool);
  const seen: EnlistedTransaction[] = [];
  enlisted.onCommit((transaction) => seen.push(transaction));
  requests = [];
  await Promise.all(
    Array.from({ length: 40 }, async (_, at) => {
      const client = await pool.connect();
      await commit(client, `INSERT INTO note VALUES ('pool ${String(at)}')`);
      client.release();
    }),
  );
  await pool.query("INSERT INTO note VALUES ('by the pool')");
  assert.equal(new Set(seen.map(({ id }) => id)).size, 40);
  await Promise.all(seen.map((transaction) => transaction.durable({ timeoutMs: 60_000 })));
  assert.ok(requests.filter((path) => path.startsWith("/v1/tickets")).length < 80, "requests were shared");
  await pool.end();
});

test("pg: with `ack: durable` COMMIT resolves when the transaction is durable", async () => {
  await using at = await connect({ ack: "durable", level: "global" });
  await commit(at.client, "INSERT INTO note VALUES ('safe')");
  const known = (await at.enlisted.last(at.client)?.promise())?.verdict({ level: "global" });
  assert.equal(known?.verdict, "durable");
});

/** Runs a transaction whose COMMIT waits, and ends its statement or its session there. */
async function interrupted(how: "cancel" | "terminate", text: string) {
  const at = await connect();
  const { client } = at;
  const [{ pid } = { pid: 0 }] = (await client.query("SELECT pg_backend_pid() AS pid")).rows as {
    pid: number;
  }[];
  const gate = new pg.Client({ connectionString: await address() });
  await gate.connect();
  await gate.query("SELECT pg_advisory_lock(7)");
  const committing = commit(client, `INSERT INTO note VALUES ('${text}')`, "INSERT INTO late VALUES (1)");
  const ended = committing.then(
    () => null,
    (cause: unknown) => cause as { code?: string },
  );
  const waits = `SELECT 1 FROM pg_locks WHERE pid = ${String(pid)} AND locktype = 'advisory' AND NOT granted`;
  while ((await site.query(waits)).length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  await site.query(`SELECT pg_${how}_backend(${String(pid)})`);
  const cause = await ended;
  await gate.end();
  await client.end().catch(() => undefined);
  return { cause, transaction: at.enlisted.last(client) };
}

test("pg: a cancelled COMMIT has not committed, and a killed one is settled", async () => {
  const cancelled = await interrupted("cancel", "cancelled");
  assert.deepEqual([cancelled.cause?.code, await count("cancelled")], ["57014", 0]);
  const killed = await interrupted("terminate", "killed");
  assert.ok(killed.cause instanceof TransactionAbortedError, killed.cause?.code);
  assert.deepEqual(
    [killed.cause.retry, await count("killed"), killed.transaction],
    ["transaction", 0, undefined],
  );
});

/** Sends COMMIT, whose answer arrives and is not read. Ends the connection when the row is there. */
async function loseAnswer(client: pg.Client, text: string, then = (): Promise<void> => Promise.resolve()) {
  const { stream } = (
    client as unknown as { connection: { stream: NodeJS.ReadWriteStream & { destroy(): void } } }
  ).connection;
  await client.query("BEGIN");
  await client.query(`INSERT INTO note VALUES ('${text}')`);
  const committing = client.query("COMMIT");
  committing.catch(() => undefined);
  stream.removeAllListeners("data");
  while ((await count(text)) === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  await then();
  stream.destroy();
  return { committing };
}

test("pg: a COMMIT whose answer is lost resolves, because it took effect", async () => {
  await using at = await connect();
  const { client } = at;
  const { committing } = await loseAnswer(client, "unanswered");
  assert.equal((await committing).command, "COMMIT");
  await at.enlisted.last(client)?.durable({ timeoutMs: 60_000 });
  assert.equal(await count("unanswered"), 1);
});

type Fault = (url: string, init: RequestInit) => Promise<Response>;

const problem = (status: number, code: string, retry: string): Response =>
  Response.json(
    { type: `https://example.org/${code}`, title: code, status, code, outcome: "not_applied", retry },
    { status },
  );

/** What becomes of a request. None of these says anything about the transaction. */
const FAULTS: Readonly<Record<string, Fault>> = {
  "a failover": () => Promise.resolve(problem(503, "primary_unavailable", "wait")),
  "a gateway that is down": () =>
    Promise.reject(new TypeError("fetch failed", { cause: { code: "ECONNREFUSED" } })),
  "a revoked key": () => Promise.resolve(problem(401, "unauthenticated", "never")),
  "no answer": (_, { signal }) =>
    new Promise((_resolve, reject) => {
      signal?.addEventListener("abort", () => {
        reject(new Error("aborted"));
      });
    }),
};

/** A client that has one fault at this path, and soon gives up. */
async function faulty(path: string, fault: Fault, limitMs = 4_000): Promise<Highwater> {
  const { endpoints } = await site.describe();
  return new Highwater({
    endpoints: endpoints.slice(0, 1),
    ...{ requestTimeoutMs: limitMs, totalTimeoutMs: limitMs },
    fetch: (url, init) => (url.endsWith(path) ? fault(url, init) : fetch(url, init)),
  });
}

/** Runs the work with each fault, at the same time. */
async function withEachFault(work: (fault: Fault, name: string) => Promise<void>): Promise<void> {
  await Promise.all(Object.entries(FAULTS).map(([name, fault]) => work(fault, name)));
}

test("pg: an unanswered COMMIT whose look-up fails has an unknown outcome", () =>
  withEachFault(async (fault, name) => {
    await using client = await faulty("/v1/tickets/ends", fault);
    await using at = await connect({}, client);
    const { committing } = await loseAnswer(at.client, `unknown after ${name}`);
    const id = await committing.then(
      () => assert.fail(`${name}: it resolved`),
      (cause: unknown) => {
        assert.ok(cause instanceof UnknownOutcomeError, `${name}: ${String(cause)}`);
        assert.deepEqual([cause.code, cause.retry], ["outcome_unknown", "resolve_outcome"], name);
        return cause.transactionId ?? "";
      },
    );
    assert.match((await hw.status(id)).state, /^(committed|durable)$/);
  }));

test("pg: an answered COMMIT has been applied, whatever its report meets", () =>
  withEachFault(async (fault, name) => {
    await using client = await faulty("/v1/tickets/ends", fault);
    await using at = await connect({}, client);
    await commit(at.client, `INSERT INTO note VALUES ('applied despite ${name}')`);
    const promised = at.enlisted.last(at.client)?.promise();
    await assert.rejects(promised ?? Promise.resolve(), { outcome: "applied" }, name);
    const safe = { ack: "durable", maxWaitMs: 50 } as const;
    await using late = await connect(safe, client);
    const error = commit(late.client, `INSERT INTO note VALUES ('late despite ${name}')`);
    await assert.rejects(error, { outcome: "applied" }, name);
    await using pending = await connect({ ...safe, onTimeout: "pending" }, client);
    await commit(pending.client, `INSERT INTO note VALUES ('pending despite ${name}')`);
    assert.equal(await count(`%despite ${name}`), 3);
  }));

test("a wait for durability ends at its time limit or signal, also without a token", async () => {
  const over = Promise.withResolvers<undefined>();
  const answerLater: Fault = async (url, init) => {
    await over.promise;
    return fetch(url, init);
  };
  await using client = await faulty("/v1/tickets/ends", answerLater, 60_000);
  await using at = await connect({}, client);
  await commit(at.client, "INSERT INTO note VALUES ('no token in time')");
  const last = at.enlisted.last(at.client);
  assert.ok(last !== undefined);
  const beganMs = performance.now();
  const late = { code: "durability_timeout", outcome: "applied", transactionId: last.id };
  await assert.rejects(last.durable({ timeoutMs: 50 }), late);
  const { signal } = new AbortController();
  await assert.rejects(
    last.afterDurable(() => assert.fail(), { timeoutMs: 50, signal }),
    late,
  );
  const reason = new Error("of the test");
  const ended = { code: "call_aborted", outcome: "applied", cause: reason };
  await assert.rejects(last.durable({ signal: AbortSignal.abort(reason) }), ended);
  await using safe = await connect({ ack: "durable", maxWaitMs: 50 }, client);
  const committing = commit(safe.client, "INSERT INTO note VALUES ('no token in time either')");
  await assert.rejects(committing, { code: "durability_timeout", outcome: "applied" });
  assert.ok(performance.now() - beganMs < 30_000, "the client's own limit has not passed");
  over.resolve(undefined);
  assert.equal((await last.durable({ timeoutMs: 60_000 })).verdict, "durable");
});

test("a COMMIT without a ticket has not been applied, whatever the request met", () =>
  withEachFault(async (fault, name) => {
    await using client = await faulty("/v1/tickets", fault);
    await using at = await connect({}, client);
    const text = `without a ticket by ${name}`;
    const byPg = commit(at.client, `INSERT INTO note VALUES ('${text}')`);
    await assert.rejects(byPg, { outcome: "not_applied" }, name);
    // No transaction is open.
    await at.client.query("VACUUM note");
    const sql = postgres(await address(), { max: 1 });
    const body = enlist(client, sql).begin("", (tx) => tx`INSERT INTO note VALUES (${text})`);
    await assert.rejects(body, { outcome: "not_applied" }, name);
    assert.equal(await count(text), 0);
    await sql.end();
  }));

test("a client that was closed commits nothing; closed during COMMIT, it does not know", async () => {
  const before = await faulty("", fetch);
  await using at = await connect({}, before);
  await at.client.query("BEGIN");
  await at.client.query("INSERT INTO note VALUES ('closed before')");
  const sql = postgres(await address(), { max: 1 });
  const body = enlist(before, sql).begin("", async (tx) => {
    await tx`INSERT INTO note VALUES ('closed before by postgres.js')`;
    await before.close();
  });
  await assert.rejects(body, { code: "client_closed", outcome: "not_applied" });
  await sql.end();
  await assert.rejects(at.client.query("COMMIT"), { code: "client_closed", outcome: "not_applied" });
  assert.equal(await count("closed before%"), 0);
  const during = await faulty("", fetch);
  await using unanswered = await connect({}, during);
  const { committing } = await loseAnswer(unanswered.client, "closed during", () => during.close());
  await assert.rejects(committing, UnknownOutcomeError);
});

test("postgres.js: a transaction gets its promise; bodies that throw and refused ones leave nothing", async () => {
  const sql = postgres(await address(), { max: 2, onnotice: () => undefined });
  const db = enlist(hw, sql);
  const { result, transaction } = await db.begin("isolation level serializable", async (tx) => {
    await tx`INSERT INTO note VALUES ('by postgres.js')`;
    await assert.rejects(tx.savepoint((inner) => inner`SELECT 1/0`));
    return "done";
  });
  assert.equal(result, "done");
  await transaction?.durable({ level: "global", timeoutMs: 60_000 });
  const read = await db.begin("", (tx) => tx<{ one: number }[]>`SELECT 1 AS one`);
  assert.deepEqual([read.transaction, read.result[0]?.one], [null, 1]);
  const listed = await db.begin("", (tx) => [
    tx`INSERT INTO note VALUES ('listed 1')`,
    tx`INSERT INTO note VALUES ('listed 2') RETURNING text`,
  ]);
  assert.deepEqual([listed.result[0].count, listed.result[1][0]?.["text"]], [1, "listed 2"]);
  await listed.transaction?.durable({ timeoutMs: 60_000 });
  assert.deepEqual([await count("listed 1"), await count("listed 2")], [1, 1]);
  const body = new Error("of the body");
  await assert.rejects(
    db.begin("", async (tx) => {
      await tx`INSERT INTO note VALUES ('thrown')`;
      throw body;
    }),
    body,
  );
  const twice = db.begin("", async (tx) => {
    await tx`INSERT INTO note VALUES ('double')`;
    await tx`INSERT INTO note VALUES ('double')`;
  });
  await assert.rejects(twice, { code: "23505" });
  assert.deepEqual([await count("by postgres.js"), await count("thrown"), await count("double")], [1, 0, 0]);
  await sql.end();
});

/** A client of postgres.js with one connection, which a test can watch. */
async function byOneSocket(onWrite: (bytes: Buffer, socket: Socket) => void) {
  const { hostname, port } = new URL(await address());
  const socket = createConnection({ host: hostname, port: Number(port) });
  await once(socket, "connect");
  const write = socket.write.bind(socket) as (...args: unknown[]) => boolean;
  socket.write = (...args: unknown[]) => {
    onWrite(args[0] as Buffer, socket);
    return write(...args);
  };
  const options = { max: 1, fetch_types: false, socket: () => socket };
  const sql = postgres(await address(), options as postgres.Options<Record<string, never>>);
  return { sql, socket, [Symbol.asyncDispose]: () => sql.end({ timeout: 0 }) };
}

test("postgres.js: from its second transaction on, receipt and COMMIT are one write", async () => {
  let writes = 0;
  await using at = await byOneSocket(() => (writes += 1));
  const db = enlist(hw, at.sql);
  const written: number[] = [];
  for (const text of ["first", "second", "third"]) {
    let before = 0;
    const { transaction } = await db.begin("", async (tx) => {
      await tx`INSERT INTO note VALUES (${`one write, ${text}`})`;
      before = writes;
    });
    written.push(writes - before);
    assert.ok(transaction !== null);
  }
  assert.deepEqual(written, [3, 1, 1]);
});

test("postgres.js: a COMMIT whose answer is lost resolves, because it took effect", async () => {
  await using at = await byOneSocket((bytes, socket) => {
    // Not `synchronous_commit`, which is in the statement before.
    if (bytes.includes("\0commit\0")) socket.removeAllListeners("data");
  });
  const done = enlist(hw, at.sql).begin("", async (tx) => {
    await tx`INSERT INTO note VALUES ('unanswered by postgres.js')`;
    return "done";
  });
  while ((await count("unanswered by postgres.js")) === 0)
    await new Promise((resolve) => setTimeout(resolve, 20));
  at.socket.destroy();
  const { result, transaction } = await done;
  assert.equal(result, "done");
  await transaction?.durable({ timeoutMs: 60_000 });
  assert.equal(await count("unanswered by postgres.js"), 1);
});

test("postgres.js: an unanswered COMMIT whose look-up is refused has an unknown outcome", async () => {
  await using at = await byOneSocket((bytes, socket) => {
    if (bytes.includes("\0commit\0")) socket.removeAllListeners("data");
  });
  await using client = await faulty("/v1/tickets/ends", FAULTS["a gateway that is down"] ?? fetch);
  const done = enlist(client, at.sql).begin(
    "",
    (tx) => tx`INSERT INTO note VALUES ('unknown by postgres.js')`,
  );
  done.catch(() => undefined);
  while ((await count("unknown by postgres.js")) === 0)
    await new Promise((resolve) => setTimeout(resolve, 20));
  at.socket.destroy();
  await assert.rejects(done, UnknownOutcomeError);
});

test("postgres.js: a session that is killed in COMMIT is settled, and a cancelled COMMIT has not committed", async () => {
  await using gate = await connect();
  await gate.client.query("SELECT pg_advisory_lock(7)");
  const sql = postgres(await address(), { max: 2, onnotice: () => undefined });
  const end = async (how: "cancel" | "terminate", text: string): Promise<unknown> => {
    const found = Promise.withResolvers<number>();
    const done = enlist(hw, sql).begin("", async (tx) => {
      const [{ pid } = { pid: 0 }] = await tx<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`;
      await tx`INSERT INTO note VALUES (${text})`;
      await tx`INSERT INTO late VALUES (1)`;
      found.resolve(pid);
    });
    const ended = done.then(
      () => null,
      (cause: unknown) => cause,
    );
    const pid = String(await found.promise);
    const waits = `SELECT 1 FROM pg_locks WHERE pid = ${pid} AND locktype = 'advisory' AND NOT granted`;
    while ((await site.query(waits)).length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    await site.query(`SELECT pg_${how}_backend(${pid})`);
    return ended;
  };
  const cancelled = (await end("cancel", "cancelled by postgres.js")) as { code?: string };
  assert.equal(cancelled.code, "57014");
  const killed = await end("terminate", "killed by postgres.js");
  assert.ok(killed instanceof TransactionAbortedError, String(killed));
  assert.equal(killed.retry, "transaction");
  assert.equal((await count("cancelled by%")) + (await count("killed by%")), 0);
  // Without a limit it waits for the query that was killed.
  await sql.end({ timeout: 0 });
});

test("mappers on an enlisted pool: Kysely and Drizzle commit with promises, and roll back without", async () => {
  const pool = new pg.Pool({ connectionString: await address(), max: 2 });
  const enlisted = enlist(hw, pool);
  const seen: EnlistedTransaction[] = [];
  enlisted.onCommit((transaction) => seen.push(transaction));
  const kysely = new Kysely<{ note: { text: string } }>({ dialect: new PostgresDialect({ pool }) });
  await kysely
    .transaction()
    .setIsolationLevel("serializable")
    .execute((tx) => tx.insertInto("note").values({ text: "mapped by Kysely" }).execute());
  assert.equal(seen.length, 1);
  const notes = pgTable("note", { text: text() });
  const mapped = drizzle(pool);
  await mapped.transaction(async (tx) => {
    await tx.insert(notes).values({ text: "mapped by Drizzle" });
    await tx.transaction((inner) => inner.insert(notes).values({ text: "mapped in a savepoint" }));
  });
  assert.equal(seen.length, 2);
  const thrown = new Error("of the body");
  const failing = kysely.transaction().execute(async (tx) => {
    await tx.insertInto("note").values({ text: "mapped and thrown" }).execute();
    throw thrown;
  });
  await assert.rejects(failing, thrown);
  await Promise.all(seen.map((transaction) => transaction.durable({ timeoutMs: 60_000 })));
  assert.deepEqual([seen.length, await count("mapped %")], [2, 3]);
  await kysely.destroy();
});

test("the guide's page runs as it is printed", async () => {
  const page = await readFile(new URL("../../../../docs/guide/enlist.md", import.meta.url), "utf8");
  const blocks = (kind: string): string =>
    [...page.matchAll(new RegExp(`^\`\`\`${kind}\\n(.*?)^\`\`\`$`, "gms"))].map(([, text]) => text).join("");
  const [endpoint] = (await site.describe()).endpoints;
  const program = blocks("ts")
    .replace("http://127.0.0.1:4600", endpoint?.gateway ?? "")
    .replace("http://127.0.0.1:4601", endpoint?.tracker ?? "")
    .replaceAll("postgresql://shop@127.0.0.1:5432/app", await address());
  // Inside the package, so that its name leads to it, as it does for users.
  const file = new URL(`../../.tmp-enlist-${String(process.pid)}.ts`, import.meta.url);
  await writeFile(file, program);
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [fileURLToPath(file)]);
    assert.equal(stdout, blocks("text"));
  } finally {
    await rm(file);
  }
});

test("through the loss of a region: what was durable stays, what was not is lost, and open ones end", async () => {
  await using at = await connect();
  const { client, enlisted } = at;
  await commit(client, "INSERT INTO note VALUES ('durable before')");
  await enlisted.last(client)?.durable({ level: "global", timeoutMs: 60_000 });
  await site.hold();
  await commit(client, "INSERT INTO note VALUES ('lost')");
  const lost = enlisted.last(client);
  assert.ok(lost !== undefined);
  const received: string[] = [];
  lost.onLost(({ id, verdict }) => received.push(`${id} ${verdict}`));
  await lost.promise();
  // The second one is lost before it has a token.
  const report = Promise.withResolvers<undefined>();
  withheld = report.promise;
  await commit(client, "INSERT INTO note VALUES ('lost without a token')");
  const unreported = enlisted.last(client);
  unreported?.onLost(({ id, rule, token }) => received.push(`${id} ${rule ?? ""} ${token}`));
  await client.query("BEGIN");
  await client.query("INSERT INTO note VALUES ('open')");
  await site.failover();
  await assert.rejects(lost.durable({ timeoutMs: 60_000 }), TransactionLostError);
  while (received.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  assert.deepEqual(received, [`${lost.id} lost`]);
  withheld = undefined;
  report.resolve(undefined);
  await assert.rejects(unreported?.durable({ timeoutMs: 60_000 }) ?? Promise.resolve(), TransactionLostError);
  while (received.length === 1) await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(received[1], `${String(unreported?.id)} client:no_receipt `);
  // The old primary is gone, or is no longer one: the COMMIT took no effect in the new history.
  await assert.rejects(
    client.query("COMMIT"),
    (cause: Error & { retry?: string }) => cause.retry === "transaction",
  );
  await using next = await connect();
  await commit(next.client, "INSERT INTO note VALUES ('after')");
  await next.enlisted.last(next.client)?.durable({ timeoutMs: 60_000 });
  assert.deepEqual(
    [await count("durable before"), await count("lost%"), await count("open"), await count("after")],
    [1, 0, 0, 1],
  );
});
