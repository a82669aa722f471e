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
CREATE SEQUENCE own."an 'odd' name";
RESET ROLE;
SELECT setval('own.used_up', 10);
DO $$ BEGIN FOR n IN 1..${String(MANY)} LOOP EXECUTE format('CREATE SEQUENCE own.many_%s', n); END LOOP; END $$`;

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
    const holder = await connect(await cluster.connectionString(WEST));
    try {
      await holder.query("BEGIN; ALTER SEQUENCE own.held RESTART WITH 7");
      const record = await store.mint(WEST, request);
      assert.equal(record.cause, "promotion");
    } finally {
      await holder.end();
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
    assert.equal(advanced, MANY + 7);
    assert.equal(await next(WEST, "own.small"), 328);
    assert.equal(await next(WEST, "own.cycle"), 11);
    assert.equal(await next(WEST, "own.held"), 1);
    await assert.rejects(next(WEST, "own.used_up"), /reached maximum value/);
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
    await cluster.query(WEST, "DELETE FROM highwater.migration WHERE name LIKE '0034%'");
    await store.prepare(WEST);
    const owned =
      "SELECT pg_get_userbyid(nspowner)::text AS owner FROM pg_namespace WHERE nspname = 'highwater_sequences'";
    assert.deepEqual(await cluster.query(WEST, owned), [{ owner: SERVICE_ROLE }]);
    const reserve = async (): Promise<Reserved> => {
      const service = await connect(await cluster.connectionString(WEST, { user: SERVICE_ROLE }));
      try {
        const { rows } = await service.query<{ r: Reserved }>(
          "SELECT highwater_sequences.reserve(1, 0, 1, clock_timestamp() + interval '1 minute') AS r",
        );
        return rows[0]?.r ?? assert.fail();
      } finally {
        await service.end();
      }
    };
    assert.equal((await reserve()).problems["own.many_1"], "denied");
    for (const sql of serviceRoleStatements(SERVICE_ROLE, "app")) await cluster.query(WEST, sql);
    assert.equal((await reserve()).problems["own.many_1"], undefined);
    assert.notDeepEqual(await cluster.query(WEST, owned), [{ owner: SERVICE_ROLE }]);
  });
});
