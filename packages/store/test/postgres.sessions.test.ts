// Interactive transactions as only PostgreSQL can get them wrong: savepoints, conflicts, dying backends, and what a session
// keeps of the transaction that used it.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { eventually } from "@highwater/lab-tools/process";
import { type EpochId, type NodeSpec, type Statement, type TxnId } from "@highwater/protocol";
import { type OpenTransaction, type TransactionSpec } from "../src/port.ts";
import { type PostgresStore } from "../src/postgres/adapter.ts";
import { commitOf, connect, errorOf, keyOf, OneServer, specOf } from "./postgres-cluster.ts";

describe("interactive transactions on PostgreSQL", () => {
  let server: OneServer;
  let node: NodeSpec;
  let store: PostgresStore;
  let epoch: EpochId;
  let sql: OneServer["sql"];
  let another: OneServer["another"];

  before(async () => {
    server = await OneServer.start({ poolSize: 2 });
    ({ node, store, epoch, sql, another } = server);
  });

  after(() => server.close());

  async function open(
    statements: readonly (Statement | string)[] = [],
    more: Partial<TransactionSpec> = {},
    on: PostgresStore = store,
  ): Promise<OpenTransaction & { readonly id: TxnId }> {
    const spec = specOf(epoch, statements, more);
    const opening = await on.begin(node.id, spec);
    assert.ok(opening.kind === "open", opening.kind);
    return Object.assign(opening.transaction, { id: spec.id });
  }

  const statements = (...texts: string[]): Statement[] => texts.map((text) => ({ sql: text }));

  const show = async (transaction: OpenTransaction, text: string): Promise<string | null | undefined> =>
    (await transaction.run(statements(text)))[0]?.rows[0]?.[0];

  const pidOf = async (transaction: OpenTransaction): Promise<number> =>
    Number(await show(transaction, "SELECT pg_backend_pid()"));

  const valueOf = async (key: string): Promise<unknown> =>
    (await sql("SELECT value FROM kv WHERE key = $1", [key]))[0]?.["value"];

  const kindOf = async (id: TxnId): Promise<string | undefined> =>
    (await store.lookUp(node.id, [keyOf(id)])).receipts[0]?.kind;

  const isGone = async (pid: number): Promise<boolean> =>
    (await sql("SELECT FROM pg_stat_activity WHERE pid = $1", [pid])).length === 0;

  async function terminate(pid: number): Promise<void> {
    await sql("SELECT pg_terminate_backend($1)", [pid]);
    await eventually("it is gone", () => isGone(pid));
  }

  /** As many at once as the pool has sessions: each of them must be in order. */
  async function checkWhole(on: PostgresStore, size: number): Promise<void> {
    const all = await Promise.all(Array.from({ length: size }, () => open(["SELECT 1"], {}, on)));
    const pids = await Promise.all(all.map(pidOf));
    assert.equal(new Set(pids).size, size);
    for (const transaction of all) commitOf(await transaction.commit([]));
  }

  describe("statements", () => {
    it("ride on the begin, are run in between, and ride on the commit", async () => {
      const spec = specOf(epoch, ["INSERT INTO kv VALUES ('ride', '1') RETURNING value", "SELECT 2 AS two"]);
      const opening = await store.begin(node.id, spec);
      assert.ok(opening.kind === "open");
      assert.deepEqual(
        opening.results.map(({ rows }) => rows),
        [[["1"]], [["2"]]],
      );
      const { transaction } = opening;
      assert.deepEqual(await transaction.run([]), []);
      const [updated] = await transaction.run([
        { sql: "UPDATE kv SET value = $1 WHERE key = $2", params: ["3", "ride"] },
      ]);
      assert.deepEqual([updated?.command, updated?.rowCount], ["UPDATE", 1]);
      assert.equal(await valueOf("ride"), undefined);
      const { results } = commitOf(
        await transaction.commit(statements("SELECT value FROM kv WHERE key = 'ride'")),
      );
      assert.deepEqual(results[0]?.rows, [["3"]]);
      assert.equal(await valueOf("ride"), "3");
    });

    it("go on behind ROLLBACK TO SAVEPOINT after an error, and not before it", async () => {
      const transaction = await open(["INSERT INTO kv VALUES ('kept', '1')", "SAVEPOINT here"]);
      const duplicate = await errorOf(transaction.run(statements("INSERT INTO kv VALUES ('kept', '2')")));
      assert.deepEqual([duplicate.code, duplicate.details.statement], ["constraint_violation", 0]);
      const aborted = await errorOf(transaction.run(statements("SELECT 1")));
      assert.deepEqual([aborted.code, aborted.details.sqlstate], ["statement_failed", "25P02"]);
      assert.equal(transaction.isOver, false);
      const mended = await transaction.run(statements("ROLLBACK TO SAVEPOINT here", "SELECT value FROM kv"));
      assert.equal(mended[1]?.command, "SELECT");
      await transaction.run(statements("INSERT INTO kv VALUES ('more', '1')"));
      commitOf(await transaction.commit([]));
      assert.deepEqual([await valueOf("kept"), await valueOf("more")], ["1", "1"]);
    });

    it("cannot begin or end the transaction, and to try it does no harm", async () => {
      const transaction = await open(["INSERT INTO kv VALUES ('control', '1')"]);
      for (const text of ["COMMIT", "ROLLBACK", "BEGIN", "END", "PREPARE TRANSACTION 'x'"]) {
        const error = await errorOf(transaction.run(statements("SELECT 1", text)));
        assert.deepEqual([error.code, error.details.statement], ["transaction_control", 1]);
        assert.equal((await errorOf(transaction.commit(statements(text)))).code, "transaction_control");
      }
      assert.equal(transaction.isOver, false);
      commitOf(await transaction.commit([]));
      assert.equal(await valueOf("control"), "1");
      const spec = specOf(epoch, ["COMMIT"]);
      assert.equal((await errorOf(store.begin(node.id, spec))).code, "transaction_control");
      assert.equal(await kindOf(spec.id), "absent");
      await checkWhole(store, 2);
    });

    it("that fail on the commit undo everything, and the session goes back", async () => {
      const single = another("single", { poolSize: 1 });
      const transaction = await open(["INSERT INTO kv VALUES ('undone', '1')"], {}, single);
      const error = await errorOf(transaction.commit(statements("SELECT 1", "SELECT 1 / 0")));
      assert.deepEqual(
        [error.code, error.outcome, error.details.statement],
        ["statement_failed", "not_applied", 1],
      );
      assert.deepEqual([await valueOf("undone"), await kindOf(transaction.id)], [undefined, "absent"]);
      await checkWhole(single, 1);
    });

    it("cannot make a reader write", async () => {
      for (const isolation of ["read committed", "repeatable read", "serializable"] as const)
        for (const text of [
          "SET TRANSACTION READ WRITE",
          "SET LOCAL transaction_read_only TO off",
          "SET transaction_read_only TO off",
        ]) {
          const sneaky = specOf(epoch, [text, "INSERT INTO kv VALUES ('sneaked', '1')"], {
            isolation,
            readOnly: true,
          });
          const error = await errorOf(store.execute(node.id, sneaky));
          assert.deepEqual([error.details.sqlstate, error.details.statement], ["25001", 0]);
          const reader = await open([], { isolation, readOnly: true });
          assert.equal((await errorOf(reader.run(sneaky.statements))).details.sqlstate, "25001");
          await reader.rollback();
          assert.equal(await valueOf("sneaked"), undefined);
        }
    });

    it("run again when the schema has changed under a prepared one", async () => {
      const single = another("replanning", { poolSize: 1 });
      const select = "SELECT * FROM changing";
      await sql("CREATE TABLE changing (a int)");
      commitOf(await single.execute(node.id, specOf(epoch, [select])));
      for (const where of ["begin", "run", "commit"] as const) {
        await sql(`ALTER TABLE changing ADD COLUMN b_${where} int`);
        const attempt = async (): Promise<unknown> => {
          const transaction = await open(where === "begin" ? [select] : [], {}, single);
          if (where === "run") await transaction.run(statements(select));
          return transaction.commit(where === "commit" ? statements(select) : []);
        };
        const error = await errorOf(attempt());
        assert.deepEqual([error.code, error.outcome, where], ["serialization_failure", "not_applied", where]);
        await attempt();
      }
      await checkWhole(single, 1);
    });

    it("may drop the prepared ones", async () => {
      const single = another("dropping", { poolSize: 1 });
      const transaction = await open(["SELECT 1"], {}, single);
      await transaction.run(statements("SELECT 1", "DEALLOCATE ALL", "SELECT 2"));
      await transaction.run(statements("SELECT 1", "SELECT 2"));
      commitOf(await transaction.commit(statements("SELECT 1", "DEALLOCATE ALL", "SELECT 3")));
      await checkWhole(single, 1);
    });
  });

  describe("conflicts", () => {
    it("in a statement end the transaction at once, with its locks", async () => {
      await sql("INSERT INTO kv VALUES ('mine', '1'), ('theirs', '1')");
      const transaction = await open(["UPDATE kv SET value = '2' WHERE key = 'mine'"], {
        isolation: "repeatable read",
      });
      await transaction.run(statements("SAVEPOINT before_it"));
      await sql("UPDATE kv SET value = '3' WHERE key = 'theirs'");
      const error = await errorOf(
        transaction.run(statements("UPDATE kv SET value = '2' WHERE key = 'theirs'")),
      );
      assert.deepEqual([error.code, error.outcome], ["serialization_failure", "not_applied"]);
      assert.equal(transaction.isOver, true);
      // Without a ROLLBACK the lock would be held: NOWAIT would say so.
      await sql("SELECT FROM kv WHERE key = 'mine' FOR UPDATE NOWAIT");
      assert.equal((await errorOf(transaction.commit([]))).code, "transaction_aborted");
      assert.equal(await kindOf(transaction.id), "absent");
      await checkWhole(store, 2);
    });

    it("at COMMIT are reported as such: nothing was applied", async () => {
      await sql("CREATE TABLE on_call (who text, is_on boolean)");
      await sql("INSERT INTO on_call VALUES ('a', true), ('b', true)");
      const skew = async (who: string): Promise<OpenTransaction & { readonly id: TxnId }> => {
        const transaction = await open(["SELECT count(*) FROM on_call WHERE is_on"], {
          isolation: "serializable",
        });
        await transaction.run([{ sql: "UPDATE on_call SET is_on = false WHERE who = $1", params: [who] }]);
        return transaction;
      };
      const [first, second] = [await skew("a"), await skew("b")];
      commitOf(await first.commit([]));
      const error = await errorOf(second.commit([]));
      assert.deepEqual([error.code, error.outcome], ["serialization_failure", "not_applied"]);
      assert.deepEqual([second.isOver, await kindOf(second.id)], [true, "absent"]);
      const rows = await sql("SELECT who FROM on_call WHERE is_on");
      assert.deepEqual(rows, [{ who: "b" }]);
      await checkWhole(store, 2);
    });
  });

  describe("a backend that dies", () => {
    it("between two calls takes the transaction along, and its place in the pool is free at once", async () => {
      const single = another("killed", { poolSize: 1 });
      for (const call of ["run", "commit", "rollback"] as const) {
        const transaction = await open(["INSERT INTO kv VALUES ('killed', '1')"], {}, single);
        await terminate(await pidOf(transaction));
        await eventually("it is noticed", async () => Promise.resolve(transaction.isOver));
        // No call has come yet, and others need not wait for that.
        await checkWhole(single, 1);
        if (call === "rollback") await transaction.rollback();
        else {
          const error = await errorOf(
            call === "run" ? transaction.run(statements("SELECT 1")) : transaction.commit([]),
          );
          assert.deepEqual([error.code, error.outcome], ["transaction_aborted", "not_applied"]);
        }
        assert.deepEqual([await valueOf("killed"), await kindOf(transaction.id)], [undefined, "absent"]);
        await checkWhole(single, 1);
      }
    });

    it("during a statement takes the transaction along", async () => {
      const single = another("killed in a statement", { poolSize: 1 });
      const transaction = await open(["INSERT INTO kv VALUES ('killed', '1')"], {}, single);
      const pid = await pidOf(transaction);
      const running = errorOf(transaction.run(statements("SELECT pg_sleep(600)")));
      await eventually("it sleeps", () => isSleeping(pid, "SELECT pg_sleep(600)"));
      await terminate(pid);
      assert.deepEqual(
        [(await running).code, (await running).outcome],
        ["transaction_aborted", "not_applied"],
      );
      assert.equal(transaction.isOver, true);
      await checkWhole(single, 1);
    });

    it("during COMMIT leaves the outcome unknown, and settling it finds the truth", async () => {
      const single = another("killed in COMMIT", { poolSize: 1 });
      await sql("CREATE TABLE lingering (id int)");
      await sql(
        `CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN NULL; END'`,
      );
      await sql(
        "CREATE CONSTRAINT TRIGGER linger AFTER INSERT ON lingering DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION linger()",
      );
      const transaction = await open(["INSERT INTO lingering VALUES (1)"], {}, single);
      const pid = await pidOf(transaction);
      const committing = errorOf(transaction.commit([]));
      await eventually("it commits", () => isSleeping(pid, "COMMIT"));
      await terminate(pid);
      const error = await committing;
      assert.deepEqual([error.code, error.outcome], ["commit_unconfirmed", "unknown"]);
      assert.equal(transaction.isOver, true);
      const settling = {
        epoch,
        keys: [keyOf(transaction.id)],
        tombstone: "aborted",
        // The client learns of the end before the session lets go of the id.
        patienceMs: 10_000,
      } as const;
      const { receipts } = await single.settle(node.id, settling);
      assert.equal(receipts[0]?.kind, "aborted");
      assert.deepEqual(await sql("SELECT FROM lingering"), []);
      await checkWhole(single, 1);
    });

    it("behind COMMIT leaves it unknown too, and settling it finds a commit", async () => {
      const url = await server.cluster.connectionString(node.id, { from: "elsewhere" });
      const far = another("far", { poolSize: 1 }, { url });
      const transaction = await open(["INSERT INTO kv VALUES ('unheard', '1')"], {}, far);
      await server.cluster.link("elsewhere", node.region).cut({ direction: "backward" });
      const committing = errorOf(transaction.commit([]));
      await eventually("it is committed", async () => (await kindOf(transaction.id)) === "commit");
      far.forget(node.id);
      assert.equal((await committing).code, "commit_unconfirmed");
      await server.cluster.link("elsewhere", node.region).heal();
      const settling = {
        epoch,
        keys: [keyOf(transaction.id)],
        tombstone: "aborted",
        patienceMs: 100,
      } as const;
      assert.equal((await far.settle(node.id, settling)).receipts[0]?.kind, "commit");
      await checkWhole(far, 1);
    });

    const isSleeping = async (pid: number, query: string): Promise<boolean> =>
      (
        await sql("SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep' AND query = $2", [
          pid,
          query,
        ])
      ).length === 1;
  });

  describe("the session", () => {
    it("is idle and in the pool again after 200 that were rolled back, whatever they were doing", async () => {
      const pool = another("pool of four", { poolSize: 4 });
      const ends = [
        (transaction: OpenTransaction) => transaction.rollback(),
        async (transaction: OpenTransaction) => {
          await errorOf(transaction.run(statements("SELECT 1 / 0")));
          await transaction.rollback();
        },
        async (transaction: OpenTransaction) => {
          const running = transaction.run(statements("SELECT pg_sleep(600)")).catch(() => undefined);
          await transaction.rollback();
          await running;
        },
        async (transaction: OpenTransaction) => {
          await errorOf(transaction.commit(statements("SELECT nonsense")));
        },
      ];
      const one = async (i: number): Promise<void> => {
        const transaction = await open([`INSERT INTO kv VALUES ('rolled ${String(i)}', '1')`], {}, pool);
        await ends[Math.floor(i / 4) % ends.length]?.(transaction);
        assert.equal(transaction.isOver, true);
      };
      await Promise.all(
        Array.from({ length: 4 }, async (_, lane) => {
          for (let i = lane; i < 200; i += 4) await one(i);
        }),
      );
      assert.deepEqual(await sql("SELECT FROM kv WHERE key LIKE 'rolled %'"), []);
      const busy = `SELECT state, query FROM pg_stat_activity
        WHERE application_name = 'highwater:pool of four' AND state <> 'idle'`;
      await eventually("nothing is left open", async () => (await sql(busy)).length === 0);
      await checkWhole(pool, 4);
    });

    it("is as good as new for the next transaction", async () => {
      const single = another("clean", { poolSize: 1 });
      const first = await open(["SET statement_timeout TO '7s'"], {}, single);
      const pid = await pidOf(first);
      await first.run(
        statements(
          "CREATE TEMP TABLE left_behind (id int)",
          "SELECT set_config('highwater.test', 'left', false)",
          "SELECT pg_advisory_lock(4711)",
        ),
      );
      commitOf(await first.commit(statements("SET search_path TO pg_temp")));
      const second = await open([], {}, single);
      assert.equal(await pidOf(second), pid);
      assert.equal(await show(second, "SHOW statement_timeout"), "30s");
      assert.equal(await show(second, "SHOW search_path"), '"$user", public');
      assert.equal(await show(second, "SELECT coalesce(current_setting('highwater.test', true), '')"), "");
      assert.equal(await show(second, "SELECT to_regclass('pg_temp.left_behind')::text"), null);
      assert.equal(await show(second, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), "0");
      commitOf(await second.commit([]));
    });

    it("is not used any more once it was dropped", async () => {
      const single = another("dropped", { poolSize: 1 });
      const run = async (): Promise<unknown> =>
        commitOf(await single.execute(node.id, specOf(epoch, ["SELECT 1"])));
      for (let i = 0; i < 20; i++) {
        await run();
        single.forget(node.id);
        // What comes behind it has nothing to do with what was dropped.
        await Promise.all([run(), run(), run()]);
      }
    });

    it("keeps the statements that it has prepared, also for many that share it", async () => {
      const pair = another("sharing", { poolSize: 2 });
      const texts = Array.from({ length: 8 }, (_, i) => `SELECT ${String(i)} AS one_of_eight`);
      const run = (text: string): Promise<unknown> => pair.execute(node.id, specOf(epoch, [text]));
      // What has been quick for long enough is sent several at a time, and the second session has not seen it yet.
      for (let i = 0; i < 10; i++) for (const text of texts) await run(text);
      for (let i = 0; i < 40; i++) await Promise.all([...texts, ...texts, ...texts].map(run));
      const counting = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%one_of_eight'";
      const both = await Promise.all([open([], {}, pair), open([], {}, pair)]);
      for (const transaction of both) {
        assert.equal(await show(transaction, counting), "8");
        await transaction.rollback();
      }
    });

    it("keeps to a transaction's own time limits, and forgets them with it", async () => {
      const single = another("limits", { poolSize: 1 });
      await sql("INSERT INTO kv VALUES ('locked', '1')");
      const rival = await connect(node.url);
      await rival.query("BEGIN");
      await rival.query("UPDATE kv SET value = '2' WHERE key = 'locked'");
      const limits = { statementTimeoutMs: 1_500.9, lockTimeoutMs: 500 };
      const limited = await open(["SHOW statement_timeout"], limits, single);
      assert.equal(await show(limited, "SHOW statement_timeout"), "1500ms");
      await limited.run(statements("SAVEPOINT here"));
      const slow = await errorOf(limited.run(statements("SELECT pg_sleep(600)")));
      assert.deepEqual([slow.code, slow.details.sqlstate], ["statement_timeout", "57014"]);
      await limited.run(statements("ROLLBACK TO here"));
      const locked = await errorOf(limited.run(statements("UPDATE kv SET value = '3' WHERE key = 'locked'")));
      assert.deepEqual([locked.code, locked.details.sqlstate], ["statement_timeout", "55P03"]);
      await limited.rollback();
      const oneShot = specOf(epoch, ["SELECT pg_sleep(600)"], limits);
      assert.equal((await errorOf(single.execute(node.id, oneShot))).details.sqlstate, "57014");
      const free = await open([], {}, single);
      assert.equal(await show(free, "SHOW statement_timeout"), "30s");
      assert.equal(await show(free, "SHOW lock_timeout"), "10s");
      await free.rollback();
      // Less than a millisecond is not "no limit".
      const least = await open([], { lockTimeoutMs: 0.4 }, single);
      assert.equal(await show(least, "SHOW lock_timeout"), "1ms");
      await least.rollback();
      await rival.query("ROLLBACK");
      await rival.end();
    });
  });

  it("take one round trip for each call", async () => {
    const roundTripMs = 80;
    const url = await server.cluster.connectionString(node.id, { from: "overseas" });
    const far = another("overseas", { poolSize: 1 }, { url });
    await (await open(["SELECT 1"], {}, far)).commit([]);
    await server.cluster.link("overseas", node.region).setRoundTripMs(roundTripMs);
    const fastest = { begin: Infinity, run: Infinity, commit: Infinity };
    const timed = async <T>(call: keyof typeof fastest, work: () => Promise<T>): Promise<T> => {
      const beganMs = performance.now();
      const result = await work();
      fastest[call] = Math.min(fastest[call], performance.now() - beganMs);
      return result;
    };
    // A busy machine may take its time, but not every time; two round trips never take less than two.
    await eventually("each call has taken less than two round trips", async () => {
      const transaction = await timed("begin", () => open(["SELECT 1"], {}, far));
      await timed("run", () => transaction.run(statements("SELECT 1", "SELECT 2")));
      await timed("commit", () => transaction.commit(statements("SELECT 1")));
      return Object.values(fastest).every((ms) => ms < 2 * roundTripMs);
    });
    for (const [call, ms] of Object.entries(fastest))
      assert.ok(ms >= roundTripMs, `${call}: ${String(ms)} ms`);
  });
});
