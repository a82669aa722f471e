// Goal: on a real server, an aborted signal ends only its own transaction and never hides a commit.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { eventually } from "@highwater/lab-tools/process";
import { type EpochId, HighwaterError, type NodeSpec, type TxnId } from "@highwater/protocol";
import { type Execution, type TransactionSpec } from "../src/port.ts";
import { type PostgresStore } from "../src/postgres/adapter.ts";
import { commitOf, errorOf, keyOf, OneServer, specOf } from "./postgres-cluster.ts";

describe("cancellation on PostgreSQL", () => {
  let server: OneServer;
  let node: NodeSpec;
  let store: PostgresStore;
  let epoch: EpochId;
  let sql: OneServer["sql"];
  let another: OneServer["another"];

  before(async () => {
    server = await OneServer.start({ poolSize: 1 });
    ({ node, store, epoch, sql, another } = server);
  });

  after(() => server.close());

  const kindOf = async (id: TxnId): Promise<string | undefined> =>
    (await store.lookUp(node.id, [keyOf(id)])).receipts[0]?.kind;

  const sleepers = async (): Promise<number[]> =>
    (await sql("SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'")).map(({ pid }) =>
      Number(pid),
    );

  const pidOf = async (on: PostgresStore): Promise<number> => {
    const { results } = commitOf(await on.execute(node.id, specOf(epoch, ["SELECT pg_backend_pid()"])));
    return Number(results[0]?.rows[0]?.[0]);
  };

  it("ends a statement on the server, frees the id, and does not reuse the session", async () => {
    for (const readOnly of [false, true]) {
      const spec = specOf(epoch, ["SELECT 1", "SELECT pg_sleep(600)"], { readOnly });
      const stop = new AbortController();
      const outcome = errorOf(store.execute(node.id, spec, stop.signal));
      await eventually("it sleeps", async () => (await sleepers()).length === 1);
      const [pid] = await sleepers();
      stop.abort();
      const error = await outcome;
      assert.deepEqual(
        [error.code, error.outcome, error.details.sqlstate, error.details.statement],
        ["statement_timeout", "not_applied", "57014", 1],
      );
      assert.deepEqual(await sleepers(), []);
      await eventually(
        "its session is gone",
        async () => (await sql("SELECT FROM pg_stat_activity WHERE pid = $1", [pid])).length === 0,
      );
      assert.notEqual(await pidOf(store), pid);
      assert.equal(await kindOf(spec.id), "absent");
      commitOf(await store.execute(node.id, { ...spec, statements: [{ sql: "SELECT 1" }], readOnly: false }));
    }
  });

  it("takes effect however early it comes", async () => {
    // Aborted in the same tick: the request to cancel may be at the server before the transaction is.
    for (let i = 0; i < 30; i++) {
      const spec = specOf(epoch, ["SELECT pg_sleep(600)"]);
      const stop = new AbortController();
      const outcome = errorOf(store.execute(node.id, spec, stop.signal));
      for (let tick = 0; tick < i % 5; tick++) await new Promise((resolve) => setImmediate(resolve));
      stop.abort();
      const error = await outcome;
      assert.equal(error.outcome, "not_applied", `${error.code} after ${String(i % 5)} ticks`);
    }
    await eventually("nothing runs on", async () => (await sleepers()).length === 0);
  });

  it("ends even what swallows every cancellation", async () => {
    await sql(`CREATE FUNCTION stubborn() RETURNS void LANGUAGE plpgsql AS $$
      BEGIN LOOP BEGIN PERFORM pg_sleep(600); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP; END $$`);
    const spec = specOf(epoch, ["SELECT stubborn()"]);
    const stop = new AbortController();
    const outcome = errorOf(store.execute(node.id, spec, stop.signal));
    await eventually("it sleeps", async () => (await sleepers()).length === 1);
    stop.abort();
    assert.equal((await outcome).code, "commit_unconfirmed", "COMMIT was on its way");
    await eventually("it is over", async () => (await sleepers()).length === 0);
    // A session that no longer sleeps may hold the id for another moment.
    const settling = { epoch, keys: [spec], tombstone: "aborted", patienceMs: 10_000 } as const;
    assert.equal((await store.settle(node.id, settling)).receipts[0]?.kind, "aborted");
    commitOf(await store.execute(node.id, specOf(epoch, ["SELECT 1"])));
  });

  it("of one that waits for a session sends nothing", async () => {
    const queue = another("queue", { poolSize: 1, connectTimeoutMs: 20_000 });
    const slow = specOf(epoch, ["SELECT pg_sleep(600)"]);
    const stopSlow = new AbortController();
    const running = errorOf(queue.execute(node.id, slow, stopSlow.signal));
    await eventually("it sleeps", async () => (await sleepers()).length === 1);
    const waiting = (["execute", "begin"] as const).map((verb) => {
      const stop = new AbortController();
      const spec = specOf(epoch, [`INSERT INTO kv VALUES ('${verb}', '1')`]);
      return { spec, stop, outcome: errorOf(queue[verb](node.id, spec, stop.signal)) };
    });
    const why = new HighwaterError("cancelled", { detail: "The client disconnected." });
    const [first, second] = waiting;
    first?.stop.abort();
    second?.stop.abort(why);
    const error = await first?.outcome;
    assert.deepEqual([error?.code, error?.outcome], ["cancelled", "not_applied"]);
    assert.equal(await second?.outcome, why, "a reason of the catalogue is passed on");
    const tooLate = queue.execute(node.id, specOf(epoch, ["SELECT 1"]), AbortSignal.abort());
    assert.equal((await errorOf(tooLate)).outcome, "not_applied");
    const patient = queue.execute(node.id, specOf(epoch, ["SELECT 1"]));
    stopSlow.abort();
    await running;
    commitOf(await patient);
    for (const { spec } of waiting) assert.equal(await kindOf(spec.id), "absent");
    assert.deepEqual(await sql("SELECT FROM kv WHERE key IN ('execute', 'begin')"), []);
  });

  it("of one that waits for another attempt under its id does not say how that one ends", async () => {
    const pair = another("pair", { poolSize: 2 });
    const spec = specOf(epoch, ["INSERT INTO kv VALUES ('held', '1')"]);
    const opening = await pair.begin(node.id, spec);
    assert.ok(opening.kind === "open");
    const stop = new AbortController();
    const outcome = errorOf(pair.execute(node.id, spec, stop.signal));
    await eventually(
      "it waits",
      async () => (await sql("SELECT FROM pg_locks WHERE NOT granted")).length > 0,
    );
    stop.abort();
    assert.deepEqual([(await outcome).code, (await outcome).outcome], ["transaction_in_progress", "unknown"]);
    commitOf(await opening.transaction.commit([]));
    assert.deepEqual(await pair.execute(node.id, spec), { kind: "already_settled" });
  });

  it("does nothing once the answer is there", async () => {
    const before = await pidOf(store);
    const stop = new AbortController();
    const spec = specOf(epoch, ["INSERT INTO kv VALUES ('answered', '1')"]);
    commitOf(await store.execute(node.id, spec, stop.signal));
    stop.abort();
    assert.equal(await pidOf(store), before, "and the session is kept");
    assert.equal(await kindOf(spec.id), "commit");
  });

  it("of a call leaves an interactive transaction open, to be mended or rolled back", async () => {
    const opening = await store.begin(
      node.id,
      specOf(epoch, ["INSERT INTO kv VALUES ('open', '1')", "SAVEPOINT a"]),
    );
    assert.ok(opening.kind === "open");
    const { transaction } = opening;
    const stop = new AbortController();
    const running = errorOf(transaction.run([{ sql: "SELECT pg_sleep(600)" }], stop.signal));
    await eventually("it sleeps", async () => (await sleepers()).length === 1);
    const [pid] = await sleepers();
    stop.abort();
    assert.deepEqual([(await running).code, transaction.isOver], ["statement_timeout", false]);
    await transaction.run([{ sql: "ROLLBACK TO SAVEPOINT a" }]);
    commitOf(await transaction.commit([]));
    assert.deepEqual(await sql("SELECT value FROM kv WHERE key = 'open'"), [{ value: "1" }]);
    assert.notEqual(await pidOf(store), pid);
  });

  it("of a begin opens nothing", async () => {
    const stop = new AbortController();
    const spec = specOf(epoch, ["SELECT pg_sleep(600)"]);
    const outcome = errorOf(store.begin(node.id, spec, stop.signal));
    await eventually("it sleeps", async () => (await sleepers()).length === 1);
    stop.abort();
    assert.deepEqual([(await outcome).code, (await outcome).outcome], ["statement_timeout", "not_applied"]);
    assert.equal(await kindOf(spec.id), "absent");
    assert.equal((await store.begin(node.id, { ...spec, statements: [] })).kind, "open");
    store.forget(node.id);
  });

  it("by a rollback ends what an interactive transaction is running, a COMMIT too", async () => {
    await sql(
      `CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN NULL; END'`,
    );
    await sql("CREATE TABLE lingering (id int)");
    await sql(
      "CREATE CONSTRAINT TRIGGER linger AFTER INSERT ON lingering DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION linger()",
    );
    const spec = specOf(epoch, ["INSERT INTO lingering VALUES (1)"]);
    const opening = await store.begin(node.id, spec);
    assert.ok(opening.kind === "open");
    const committing = errorOf(opening.transaction.commit([]));
    await eventually("it commits", async () => (await sleepers()).length === 1);
    await opening.transaction.rollback();
    assert.deepEqual(
      [(await committing).code, (await committing).outcome],
      ["statement_timeout", "not_applied"],
    );
    assert.deepEqual([await sleepers(), await kindOf(spec.id)], [[], "absent"]);
    commitOf(await store.execute(node.id, specOf(epoch, ["SELECT 1"])));
  });

  it("behind COMMIT does not hide that it was committed", async () => {
    // What the position's statement cannot survive, the service must: the transaction leaves a role that may not ask.
    await sql("CREATE ROLE shop LOGIN IN ROLE highwater_app");
    await sql("CREATE ROLE clerk NOLOGIN ROLE shop");
    const appUrl = await server.cluster.connectionString(node.id, { user: "shop" });
    const shop = another("shop", { poolSize: 1 }, { appUrl });
    const spec = specOf(epoch, ["SET ROLE clerk"]);
    const before = commitOf(await shop.execute(node.id, specOf(epoch, ["SELECT 1"]))).offset;
    assert.ok(commitOf(await shop.execute(node.id, spec)).offset > before);
    assert.equal(await kindOf(spec.id), "commit");
    const opening = await shop.begin(node.id, specOf(epoch, ["SET ROLE clerk"]));
    assert.ok(opening.kind === "open");
    commitOf(await opening.transaction.commit([]));
    const reading = specOf(epoch, ["SET ROLE clerk"], { readOnly: true });
    commitOf(await shop.execute(node.id, reading));
    const { results } = commitOf(await shop.execute(node.id, specOf(epoch, ["SELECT current_user"])));
    assert.deepEqual(results[0]?.rows, [["shop"]]);
  });

  for (const { lanes, poolSize } of [
    { lanes: 4, poolSize: 4 },
    // Many wait for few: they share sessions, and a cancellation may meet the wrong one.
    { lanes: 16, poolSize: 2 },
  ])
    it(`at any moment leaves as many commits as were answered, ${String(lanes)} over ${String(poolSize)} sessions`, async () => {
      const ROUNDS = 600;
      const ROWS = 16;
      const name = `racing ${String(poolSize)}`;
      const racing = another(name, { poolSize });
      await sql("DROP TABLE IF EXISTS counter");
      await sql("CREATE TABLE counter (id int PRIMARY KEY, n int NOT NULL)");
      await sql("INSERT INTO counter SELECT i, 0 FROM generate_series(1, $1::int) i", [ROWS]);
      let committed = 0;
      let undone = 0;
      const unknown: TxnId[] = [];
      const interactive = async (spec: TransactionSpec, signal: AbortSignal): Promise<Execution> => {
        const opening = await racing.begin(node.id, { ...spec, statements: [] });
        assert.ok(opening.kind === "open");
        return opening.transaction.commit(spec.statements, { signal });
      };
      const round = async (i: number, lane: number, limitMs: number): Promise<void> => {
        const add = {
          sql: "UPDATE counter SET n = n + 1 WHERE id = $1 RETURNING n",
          params: [1 + (lane % ROWS)],
        };
        const spec = specOf(epoch, [add, { sql: "SELECT count(*) FROM generate_series(1, 500)" }]);
        const stop = new AbortController();
        const timer = setTimeout(() => {
          stop.abort();
        }, limitMs);
        try {
          const isInteractive = i % 7 === 0;
          const execution = isInteractive
            ? await interactive(spec, stop.signal)
            : await racing.execute(node.id, spec, stop.signal);
          assert.equal(commitOf(execution).results[0]?.rowCount, 1, "and its outcome is reported");
          committed++;
        } catch (cause) {
          assert.ok(cause instanceof HighwaterError, String(cause));
          if (cause.outcome === "unknown") unknown.push(spec.id);
          else undone++;
        } finally {
          clearTimeout(timer);
        }
      };
      for (let i = 1; i <= 20; i++) await round(1, i, 60_000);
      await Promise.all(
        Array.from({ length: lanes }, async (_, lane) => {
          for (let i = lane; i < ROUNDS; i += lanes)
            await round(i, lane, Math.random() < 0.5 ? 60_000 : Math.random() * 6);
        }),
      );
      const settling = {
        epoch,
        keys: unknown.map((id) => keyOf(id)),
        tombstone: "aborted",
        // One that is still held may commit.
        patienceMs: 10_000,
      } as const;
      const { receipts } = await racing.settle(node.id, settling);
      const settled = receipts.filter(({ kind }) => kind === "commit").length;
      const [row] = await sql("SELECT sum(n)::int AS sum FROM counter");
      assert.equal(row?.["sum"], committed + settled);
      assert.ok(committed > 0 && undone > 0, `committed ${String(committed)}, undone ${String(undone)}`);
      const open = "SELECT FROM pg_stat_activity WHERE application_name = $1 AND state <> 'idle'";
      await eventually(
        "nothing is left open",
        async () => (await sql(open, [`highwater:${name}`])).length === 0,
      );
    });
});
