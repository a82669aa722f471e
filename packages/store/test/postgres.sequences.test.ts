// Goal: no value of a sequence that a lost transaction got is handed out again (seen: lost order ids
// up to 81, and the new primary gave 67 to Carol), and nothing about a sequence stops an epoch.
// Method: real servers. The primary is lost while the replica lacks the end of its log.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { type Cluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { type Reserved } from "../src/port.ts";
import { type PostgresStore } from "../src/postgres/adapter.ts";
import { serviceRoleStatements } from "../src/postgres/service-role.ts";
import { connect, makeStore, MINT, nodeSpecs, SERVICE_ROLE, startTestCluster } from "./postgres-cluster.ts";

const [EAST, WEST] = ["us-east", "us-west"] as const;
const RESERVE = 10_000;
const MANY = 1_200;
const SEQUENCES = `
CREATE ROLE owner; CREATE SCHEMA own AUTHORIZATION owner;
SET ROLE owner;
CREATE TABLE own.orders (id int GENERATED ALWAYS AS IDENTITY, what text);
CREATE SEQUENCE own.unused;
CREATE SEQUENCE own.down INCREMENT -5;
CREATE SEQUENCE own.caching CACHE 50;
CREATE SEQUENCE own.small AS smallint;
CREATE SEQUENCE own.cycle MAXVALUE 1000 CYCLE;
CREATE SEQUENCE own.used_up MAXVALUE 10;
CREATE SEQUENCE own.held;
CREATE SEQUENCE own.restarted START 7 CACHE 3;
CREATE SEQUENCE own.swapped;
CREATE UNLOGGED TABLE own.ran (by_role text);
CREATE FUNCTION own.f() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN INSERT INTO own.ran VALUES (current_user); RETURN true; END $$;
CREATE SEQUENCE own."an 'odd' name";
RESET ROLE;
SELECT setval('own.used_up', 10);
SELECT setval('own.restarted', 5000); ALTER SEQUENCE own.restarted RESTART WITH 300;
DO $$ BEGIN FOR n IN 1..${String(MANY)} LOOP EXECUTE format('CREATE SEQUENCE own.many_%s', n); END LOOP; END $$`;

/**
 * Puts a view where a sequence was, as soon as the service waits for the sequence: a name that was
 * looked up before would now be found to be the view's. Notes that it has seen the service wait.
 */
const SWAP = `BEGIN; SET LOCAL ROLE owner;
ALTER SEQUENCE own.swapped RENAME TO swapped_away;
CREATE VIEW own.swapped AS SELECT own.f() AS is_called, 1::bigint AS last_value;
GRANT ALL ON own.swapped TO PUBLIC;
CREATE TABLE own.waited ();
DO $$ BEGIN
  WHILE NOT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'own.swapped_away'::regclass) LOOP
    PERFORM pg_sleep(0.001);
  END LOOP;
END $$;
COMMIT`;

describe("before an epoch begins, sequences", () => {
  let cluster: Cluster;
  let store: PostgresStore;
  const problems: Record<string, string> = {};
  let advanced = 0;
  const onReserved = (reserved: Reserved): void => {
    advanced += reserved.advanced;
    Object.assign(problems, reserved.problems);
  };
  const request = { ...MINT, sequenceReserve: RESERVE, onReserved };
  const lost: Record<string, number> = {};

  async function next(node: string, sequence: string): Promise<number> {
    const [row] = await cluster.query(node, "SELECT nextval($1::regclass)::int AS value", [sequence]);
    return Number(row?.["value"]);
  }

  before(async () => {
    cluster = await startTestCluster({ nodes: [EAST, WEST].map((id) => ({ id, region: id })) });
    store = makeStore(await nodeSpecs(cluster), "one");
    await store.prepare(EAST);
    await store.mint(EAST, request);
    await cluster.query(EAST, SEQUENCES);
    await eventually("the replica has the sequences", async () => {
      await cluster.query(EAST, "SELECT pg_switch_wal()");
      const [row] = await cluster.query(WEST, "SELECT to_regclass($1) AS found", [
        `own.many_${String(MANY)}`,
      ]);
      return row?.["found"] !== null;
    });
  });

  after(async () => {
    await store.close();
    await cluster.close();
  });

  it("of the first epoch stay where they are", () => {
    assert.deepEqual([advanced, problems], [0, {}]);
  });

  it("pass what lost transactions got, of every owner and in both directions", async () => {
    await cluster.query(WEST, "ALTER SYSTEM SET primary_conninfo TO ''");
    await cluster.query(WEST, "SELECT pg_reload_conf()");
    await eventually("the stream has ended", async () => {
      return (await cluster.query(EAST, "SELECT FROM pg_stat_replication")).length === 0;
    });
    await cluster.query(EAST, "INSERT INTO own.orders (what) SELECT 'lost' FROM generate_series(1, 9000)");
    for (const name of ["own.unused", "own.down", "own.caching"]) {
      const [row] = await cluster.query(
        EAST,
        `SELECT (array_agg(v ORDER BY n DESC))[1]::int AS last FROM (SELECT n, nextval('${name}') AS v FROM generate_series(1, 9000) n) x`,
      );
      lost[name] = Number(row?.["last"]);
    }
    await cluster.kill(EAST);
    await cluster.promote(WEST, { command: false, repoint: false });
    const url = await cluster.connectionString(WEST);
    const [holder, swapper] = [await connect(url), await connect(url)];
    try {
      await holder.query("BEGIN; ALTER SEQUENCE own.held RESTART WITH 7");
      const swapped = swapper.query(SWAP);
      await eventually("the view is ready", async () => {
        const locks =
          "SELECT FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND relation = 'own.swapped'::regclass";
        return (await cluster.query(WEST, locks)).length > 0;
      });
      const record = await store.mint(WEST, request);
      assert.equal(record.cause, "promotion");
      await swapped;
    } finally {
      await holder.end();
      await swapper.end();
    }
    const [row] = await cluster.query(
      WEST,
      "INSERT INTO own.orders (what) VALUES ('Carol') RETURNING id, (SELECT count(*)::int FROM own.orders) AS n",
    );
    assert.equal(row?.["n"], 0, "the orders are lost");
    assert.ok(Number(row["id"]) > 9_000, String(row["id"]));
    assert.ok((await next(WEST, "own.unused")) > (lost["own.unused"] ?? 0));
    assert.ok((await next(WEST, "own.caching")) > (lost["own.caching"] ?? 0));
    assert.ok((await next(WEST, "own.down")) < (lost["own.down"] ?? 0));
  });

  it("keep most of the values that they have left, and each one that did not move by the reserve is named", async () => {
    assert.deepEqual(problems, {
      "own.small": "short",
      "own.cycle": "short",
      "own.used_up": "short",
      "own.held": "locked",
    });
    assert.equal(advanced, MANY + 9);
    assert.equal(await next(WEST, "own.small"), 328);
    assert.equal(await next(WEST, "own.cycle"), 11);
    assert.equal(await next(WEST, "own.held"), 1);
    assert.equal(await next(WEST, "own.restarted"), 300 + 3 * RESERVE);
    await assert.rejects(next(WEST, "own.used_up"), /reached maximum value/);
  });

  it("are no way to the rights of the function's owner, if their names become those of views", async () => {
    assert.deepEqual(await cluster.query(WEST, "SELECT DISTINCT by_role FROM own.ran"), []);
    assert.equal(await next(WEST, "own.swapped_away"), RESERVE + 1);
  });

  it("are advanced in parts, and a part that begins late does nothing", async () => {
    const part = async (beyond: string, until: string): Promise<Reserved & { reached: string | null }> => {
      const [row] = await cluster.query(
        WEST,
        "SELECT highwater_sequences.reserve(1, $1, clock_timestamp() + $2::interval) AS r",
        [beyond, until],
      );
      return row?.["r"] as Reserved & { reached: string | null };
    };
    assert.deepEqual(await part("17", "-1 s"), { advanced: 0, problems: {}, unnamed: 0, reached: "17" });
    let moved = 0;
    for (let reached: string | null = "0", parts = 0; reached !== null; parts++) {
      const done: Awaited<ReturnType<typeof part>> = await part(reached, "1 hour");
      assert.ok(done.advanced <= 500 && parts < 5, String(done.advanced));
      assert.ok(done.reached === null || Number(done.reached) > Number(reached), String(done.reached));
      moved += done.advanced;
      reached = done.reached;
    }
    assert.equal(moved, MANY + 10);
  });

  it("move by one more reserve for each epoch that the history lacks", async () => {
    const [before] = await cluster.query(WEST, "SELECT last_value::int AS value FROM own.many_1");
    await cluster.crashBackend(WEST);
    store.forget(WEST);
    const record = await eventually("an epoch begins", () =>
      store.mint(WEST, { ...request, minSeq: 5 }).catch(() => undefined),
    );
    assert.deepEqual([record.cause, record.seq], ["crash_recovery", 5]);
    const value = await next(WEST, "own.many_1");
    assert.ok(value >= Number(before?.["value"]) + 3 * RESERVE, String(value));
  });

  it("that only their owner may move are named, until an administrator runs the set-up", async () => {
    await cluster.query(WEST, "DROP SCHEMA highwater_sequences CASCADE");
    await cluster.query(WEST, "DELETE FROM highwater.migration WHERE name ~ '^00(34|37)'");
    await store.prepare(WEST);
    const owned =
      "SELECT pg_get_userbyid(nspowner)::text AS owner FROM pg_namespace WHERE nspname = 'highwater_sequences'";
    assert.deepEqual(await cluster.query(WEST, owned), [{ owner: SERVICE_ROLE }]);
    const reserve = async (): Promise<Reserved> => {
      const service = await connect(await cluster.connectionString(WEST, { user: SERVICE_ROLE }));
      try {
        const { rows } = await service.query<{ r: Reserved }>(
          "SELECT highwater_sequences.reserve(1, 0, clock_timestamp() + interval '1 minute') AS r",
        );
        return rows[0]?.r ?? assert.fail();
      } finally {
        await service.end();
      }
    };
    assert.equal((await reserve()).problems["own.unused"], "denied");
    for (const sql of serviceRoleStatements(SERVICE_ROLE, "app")) await cluster.query(WEST, sql);
    assert.equal((await reserve()).problems["own.unused"], undefined);
    assert.notDeepEqual(await cluster.query(WEST, owned), [{ owner: SERVICE_ROLE }]);
  });

  it("stay, and the epoch begins, until an administrator brings the function up to date", async () => {
    await cluster.query(WEST, "DROP FUNCTION highwater_sequences.reserve");
    await cluster.query(WEST, "DELETE FROM highwater.migration WHERE name ~ '^0037'");
    await store.prepare(WEST);
    await cluster.crashBackend(WEST);
    store.forget(WEST);
    const reported: Reserved[] = [];
    const record = await eventually("an epoch begins", () =>
      store
        .mint(WEST, { ...request, minSeq: 6, onReserved: (part) => reported.push(part) })
        .catch(() => undefined),
    );
    assert.deepEqual([record.cause, record.seq, reported.length], ["crash_recovery", 6, 1]);
    assert.match(reported[0]?.problems["part 1"] ?? "", /reserve.* does not exist/);
  });
});
