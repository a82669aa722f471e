// Goal: no lock that a user's SQL can hold keeps the service from beginning an epoch, expiring receipts or revoking a key; and the
// service ends the session that holds one of its own locks, or names it. Method: sessions of a plain login role, and of the service's
// own role, hold what they can on a primary and on the replica that is promoted.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, it, type TestContext } from "node:test";
import pg from "pg";
import { type Cluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { type EpochId, type NodeSpec } from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import { DEFAULT_LIMITS } from "../src/keys.ts";
import { type PostgresStore } from "../src/postgres/adapter.ts";
import { PostgresClient } from "../src/postgres/client.ts";
import { PostgresKeys } from "../src/postgres/keys.ts";
import {
  commitOf,
  connect,
  makeStore,
  MINT,
  nodeSpecs,
  PATIENT,
  SERVICE_ROLE,
  specOf,
  startTestCluster,
} from "./postgres-cluster.ts";

const EAST = "us-east";
const WEST = "us-west";
const TENANT = "tenant";
/** Those that the service once took, and those that its job library takes by default. */
const KEYS = [1, 2, 3, 4, 5].map((n) => `SELECT pg_advisory_lock(724051900${String(n)})`);
const MODES = [
  ...["ACCESS SHARE", "ROW SHARE", "ROW EXCLUSIVE", "SHARE UPDATE EXCLUSIVE"],
  ...["SHARE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE"],
];

/** For each session that begins an epoch, how often it sent statements when all before them were answered. */
function countRoundTrips(t: TestContext): () => number[] {
  const counts = new Map<pg.Client, number>();
  const unanswered = new Map<pg.Client, number>();
  const query = Reflect.get(pg.Client.prototype, "query") as (...args: unknown[]) => unknown;
  t.mock.method(PostgresClient.prototype, "query", async function (this: Session, ...args: unknown[]) {
    if (!this.connectionParameters.application_name.endsWith(":admin")) return query.apply(this, args);
    const before = unanswered.get(this) ?? 0;
    if (before === 0 || !this.pipeline) {
      assert.equal(this.getTransactionStatus(), "I", "no transaction is open between two round trips");
      counts.set(this, (counts.get(this) ?? 0) + 1);
    }
    unanswered.set(this, before + 1);
    try {
      return await query.apply(this, args);
    } finally {
      unanswered.set(this, (unanswered.get(this) ?? 0) - 1);
    }
  } as never);
  return () => {
    const all = [...counts.values()];
    counts.clear();
    return all;
  };
}

type Session = pg.Client & { pipeline: boolean; connectionParameters: { application_name: string } };

describe("locks on PostgreSQL", () => {
  let cluster: Cluster;
  let nodes: NodeSpec[];
  let store: PostgresStore;
  let keys: PostgresKeys;
  let epoch: EpochId;
  const open: pg.Client[] = [];

  before(async () => {
    cluster = await startTestCluster({
      nodes: [EAST, WEST].map((id) => ({ id, region: id })),
      settings: { log_statement: "all" },
    });
    nodes = await nodeSpecs(cluster);
    store = makeStore(nodes, "one");
    keys = new PostgresKeys({ nodes, clock: realClock, helper: "one", ...PATIENT });
    await store.prepare(EAST);
    epoch = (await store.mint(EAST, MINT)).id as EpochId;
    await cluster.query(EAST, `CREATE ROLE ${TENANT} LOGIN IN ROLE highwater_app`);
  });

  after(async () => {
    for (const client of open) await client.end();
    keys.close();
    await store.close();
    await cluster.close();
  });

  const session = async (node: string, user?: string): Promise<pg.Client> => {
    const client = await connect(await cluster.connectionString(node, user === undefined ? {} : { user }));
    open.push(client);
    return client;
  };

  const holdAll = async (node: string): Promise<void> => {
    const tenant = await session(node, TENANT);
    for (const text of KEYS) await tenant.query(text);
  };

  const newKey = (id: string) => ({
    ...{ id, secretHash: Buffer.alloc(32), name: id, owner: "o", role: TENANT },
    ...{ scopes: ["read" as const], limits: DEFAULT_LIMITS, expiresAtMs: null },
  });

  const waitsFor = (node: string, table: string) =>
    eventually(`somebody waits for ${table}`, async () => {
      const waiting = await cluster.query(
        node,
        `SELECT FROM pg_locks WHERE relation = '${table}'::regclass AND NOT granted`,
      );
      return waiting.length > 0;
    });

  it("that SQL can take block nothing: keys, receipts and set-up still work", async () => {
    await keys.insertKey(EAST, newKey("k1"));
    await holdAll(EAST);
    assert.notEqual((await keys.revokeKey(EAST, "k1"))?.revokedAtMs, null);
    const { serverTimeMs } = await store.maintain(EAST, { expireBeforeMs: null });
    await store.maintain(EAST, { expireBeforeMs: serverTimeMs - 1 });
    await store.prepare(EAST);
    commitOf(await store.execute(EAST, specOf(epoch, ["SELECT 1"])));
  });

  it("of the service's tables are not for applications, on a primary or a replica", async () => {
    const tables = await cluster.query(
      EAST,
      `SELECT oid::regclass::text AS name FROM pg_class
       WHERE relnamespace = 'highwater'::regnamespace AND relkind IN ('r', 'p', 'v')`,
    );
    assert.ok(tables.length > 20, "the partitions as well");
    for (const node of [EAST, WEST]) {
      await eventually(
        "the role is there",
        async () =>
          (await cluster.query(node, `SELECT FROM pg_roles WHERE rolname = '${TENANT}'`)).length === 1,
      );
      const tenant = await session(node, TENANT);
      for (const { name } of tables)
        for (const mode of MODES) {
          await tenant.query("BEGIN");
          const text = `LOCK TABLE ${String(name)} IN ${mode} MODE NOWAIT`;
          const code = await tenant.query(text).then(
            () => "taken",
            (cause: unknown) => (cause as { code: string }).code,
          );
          await tenant.query("ROLLBACK");
          // What may be read may be locked as a reader locks it: the service never asks for more than readers let pass.
          const isReader =
            mode === "ACCESS SHARE" &&
            ["highwater.epoch_sentinel", "highwater.current_epoch"].includes(String(name));
          if (!isReader) assert.notEqual(code, "taken", `${node}: ${text}`);
        }
    }
  });

  it("are named with their holder when a change of keys waits for them in vain", async () => {
    const holder = await session(EAST);
    await holder.query("SET application_name TO 'forgotten'");
    await holder.query("BEGIN");
    await holder.query("LOCK TABLE highwater.key_turn IN EXCLUSIVE MODE");
    // Half of its time is for the lock.
    const hurried = new PostgresKeys({
      ...{ nodes, clock: realClock, helper: "two", ...PATIENT },
      callTimeoutMs: 6_000,
    });
    await hurried.insertKey(EAST, newKey("k2")).then(
      () => assert.fail("it was not blocked"),
      (cause: unknown) => {
        const { code, message } = cause as { code: string; message: string };
        assert.equal(code, "55P03");
        assert.match(
          message,
          /highwater.key_turn or highwater.api_key or highwater.audit_turn: process \d+ \(role postgres, forgotten, idle in transaction for \d+ s\)/,
        );
        assert.match(message, /pg_terminate_backend\(\d+\)/);
      },
    );
    hurried.close();
    await holder.query("ROLLBACK");
    await keys.insertKey(EAST, newKey("k2"));
  });

  it("that a stopped process of the service holds are taken from it, and the next epoch begins", async () => {
    for (const table of ["highwater.epoch", "highwater.epoch_sentinel"]) {
      await cluster.crashBackend(EAST);
      const holder = await eventually("the server is back", () =>
        session(EAST, SERVICE_ROLE).catch(() => undefined),
      );
      await holder.query("BEGIN");
      await holder.query(`LOCK TABLE ${table} IN EXCLUSIVE MODE`);
      store.forget(EAST);
      const record = await store.mint(EAST, MINT);
      assert.deepEqual([record.cause, record.previous], ["crash_recovery", epoch]);
      await assert.rejects(holder.query("SELECT 1"), "its session has ended");
      epoch = record.id as EpochId;
      commitOf(await store.execute(EAST, specOf(epoch, ["SELECT 1"])));
    }
  });

  it("are left with a superuser, whom the service cannot end, and taken from all others", async () => {
    await cluster.crashBackend(EAST);
    const superuser = await eventually("the server is back", () => session(EAST).catch(() => undefined));
    const other = await session(EAST, SERVICE_ROLE);
    for (const holder of [superuser, other]) {
      await holder.query("BEGIN");
      await holder.query("LOCK TABLE highwater.epoch IN SHARE MODE");
    }
    store.forget(EAST);
    const minting = store.mint(EAST, MINT);
    minting.catch(() => undefined);
    await eventually("the other's session has ended", () =>
      other.query("SELECT 1").then(
        () => false,
        () => true,
      ),
    );
    await superuser.query("ROLLBACK");
    // It may have waited in vain once.
    const record = await minting.catch(() => store.mint(EAST, MINT));
    assert.deepEqual([record.cause, record.previous], ["crash_recovery", epoch]);
    epoch = record.id as EpochId;
  });

  it("keep no process from the epoch that another one began and did not finish", async () => {
    await cluster.crashBackend(EAST);
    // A superuser's, or the first process would end the session after a while and finish.
    const holder = await eventually("the server is back", () => session(EAST).catch(() => undefined));
    await holder.query("BEGIN");
    await holder.query("LOCK TABLE highwater.epoch_sentinel IN SHARE MODE");
    store.forget(EAST);
    const first = makeStore(nodes, "first");
    const stopped = first.mint(EAST, MINT).catch((cause: unknown) => cause);
    // It has committed the record, and cannot open the epoch.
    await waitsFor(EAST, "highwater.epoch_sentinel");
    const [begun] = await cluster.query(
      EAST,
      "SELECT id::text FROM highwater.epoch WHERE start_offset IS NULL",
    );
    assert.ok(begun !== undefined);
    await cluster.query(
      EAST,
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'highwater:first:admin'",
    );
    assert.ok((await stopped) instanceof Error);
    await holder.query("ROLLBACK");
    const record = await store.mint(EAST, MINT);
    assert.equal(record.id, begun["id"], "another has completed it");
    assert.deepEqual([record.cause, record.previous], ["crash_recovery", epoch]);
    assert.deepEqual(await first.mint(EAST, MINT), record);
    await first.close();
    epoch = record.id as EpochId;
    commitOf(await store.execute(EAST, specOf(epoch, ["SELECT 1"])));
  });

  it("are not held over a round trip: an epoch takes two, and one that has begun takes one", async (t) => {
    const others = ["second", "third"].map((helper) => makeStore(nodes, helper));
    const restart = async () => {
      await cluster.crashBackend(EAST);
      await eventually("the server is back", () => session(EAST).catch(() => undefined));
      store.forget(EAST);
    };
    await restart();
    const roundTrips = countRoundTrips(t);
    const record = await store.mint(EAST, MINT);
    assert.deepEqual([record.cause, record.previous], ["crash_recovery", epoch]);
    assert.deepEqual(roundTrips(), [2]);
    assert.deepEqual(await store.mint(EAST, MINT), record);
    assert.deepEqual(roundTrips(), [1]);
    await restart();
    const [next, ...same] = await Promise.all([store, ...others].map((each) => each.mint(EAST, MINT)));
    assert.deepEqual([next?.previous, same], [record.id, [next, next]], "three at once begin one");
    // One that finds the record of another process completes it.
    assert.ok(roundTrips().every((count) => count <= 3));
    for (const other of others) await other.close();
    epoch = next?.id as EpochId;
    commitOf(await store.execute(EAST, specOf(epoch, ["SELECT 1"])));
  });

  describe("of a session that takes all of them", () => {
    const FLOOD = "SELECT count(*) FROM (SELECT pg_advisory_lock(n) FROM generate_series(1, 100000) n) taken";

    const flood = async (node: string, sql = FLOOD): Promise<pg.Client> => {
      const tenant = await session(node, TENANT);
      tenant.on("error", () => undefined);
      await assert.rejects(tenant.query(sql), { code: "53200" });
      return tenant;
    };

    const endFloods = async (node: string): Promise<number> => {
      const ended = await store.endLockFloods(node);
      assert.deepEqual(
        ended.map(({ role }) => role),
        ended.map(() => TENANT),
      );
      return ended.length;
    };

    for (const node of [EAST, WEST])
      it(`are taken from it on ${node === EAST ? "the primary" : "a replica"}, although no one can log in`, async () => {
        await endFloods(node);
        await flood(node);
        await assert.rejects(session(node, TENANT), { code: "53200" });
        assert.equal(await endFloods(node), 1);
        await eventually("it is gone, and its locks with it", async () => {
          const held = await cluster.query(node, "SELECT FROM pg_locks WHERE locktype = 'advisory'");
          return held.length < 1_000;
        });
        await session(node, TENANT);
      });

    it("are taken from it when they are no advisory ones, too", async () => {
      const tables = `DO $$ BEGIN FOR n IN 1..100000 LOOP EXECUTE format('CREATE TEMP TABLE t%s ()', n); END LOOP; END $$`;
      const tenant = await session(EAST, TENANT);
      tenant.on("error", () => undefined);
      const flooding = assert.rejects(tenant.query(tables), /terminat/i);
      await Promise.all([
        flooding,
        eventually("there are too many", async () => (await endFloods(EAST)) > 0),
      ]);
    });

    it("are looked at without a snapshot that stays and stops a replica's replay", async () => {
      await endFloods(WEST);
      const held = await cluster.query(
        WEST,
        "SELECT state, backend_xmin FROM pg_stat_activity WHERE application_name LIKE '%warden'",
      );
      assert.deepEqual(held, [{ state: "idle in transaction", backend_xmin: null }]);
    });

    it("are left to those with fewer, and to a superuser", async () => {
      const few = await session(EAST, TENANT);
      await few.query("SELECT pg_advisory_lock(n) FROM generate_series(1, 1000) n");
      const superuser = await session(EAST);
      await superuser.query("SELECT pg_advisory_lock(n) FROM generate_series(100001, 101001) n");
      assert.equal(await endFloods(EAST), 0);
      await superuser.query("SELECT pg_advisory_unlock_all()");
      await few.query("SELECT pg_advisory_unlock_all()");
    });
  });

  it("that are held on a replica do not outlive its promotion in the new epoch's way", async () => {
    await eventually(
      "the replica has the epoch",
      async () => (await store.probe(WEST)).epochs.at(-1)?.id === epoch,
    );
    await holdAll(WEST);
    await cluster.kill(EAST);
    await cluster.promote(WEST, { command: false, repoint: false });
    const record = await store.mint(WEST, MINT);
    assert.deepEqual([record.cause, record.previous], ["promotion", epoch]);
    commitOf(await store.execute(WEST, specOf(record.id as EpochId, ["SELECT 1"])));
  });

  it("are never advisory ones", () => {
    const ours = [EAST, WEST]
      .flatMap((id) => readFileSync(`${cluster.dir}/logs/${id}.log`, "utf8").split("\n"))
      .filter((line) => /pg_(?:try_)?advisory/.test(line));
    const tenants = ours.filter((line) => /724051900\d\)/.test(line));
    assert.ok(tenants.length >= 2 * KEYS.length, "the log shows statements");
    // A session that goes back to its pool lets go of whatever its user has locked.
    assert.deepEqual(
      ours.filter((line) => !tenants.includes(line) && !/advisory_unlock_all|generate_series/.test(line)),
      [],
    );
  });
});
