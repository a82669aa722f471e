// Goal: gateways and trackers need no superuser: the role that the guide describes is enough, each of its rights is needed, and it has
// no others. Method: real servers on which the role is made by the documented statements; the test revokes each right, and the
// operation that needs it must fail. (All other tests of this package that run on PostgreSQL log their stores in as this role.)
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { type EpochId, type NodeSpec, type Offset, parseOffset, ZERO } from "@highwater/protocol";
import { type PostgresStore } from "../src/postgres/adapter.ts";
import { formatLsn } from "../src/postgres/lsn.ts";
import { serviceRoleStatements } from "../src/postgres/service-role.ts";
import { connect, makeStore, MINT, nodeSpecs, SERVICE_ROLE, startTestCluster } from "./postgres-cluster.ts";

const [EAST, WEST] = ["us-east", "us-west"] as const;
const NODES = [EAST, WEST].map((id) => ({ id, region: id }));

/** Where the history file of the node's timeline says that the one before it was left: what only a superuser may read. */
async function switchedAt(cluster: Cluster, node: string): Promise<string | undefined> {
  const [row] = await cluster.query(
    node,
    `SELECT pg_read_file(format('pg_wal/%s.history', left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))) AS history`,
  );
  return /^\d+\s+([0-9A-F]+\/[0-9A-F]+)/im.exec(String(row?.["history"]))?.[1];
}

describe("the role of gateways and trackers", () => {
  let cluster: Cluster;
  let nodes: NodeSpec[];
  let store: PostgresStore;

  before(async () => {
    cluster = await startTestCluster({ nodes: NODES });
    nodes = await nodeSpecs(cluster);
    store = makeStore(nodes, "one");
    await store.prepare(EAST);
    await store.mint(EAST, MINT);
  });

  after(async () => {
    await store.close();
    await cluster.close();
  });

  it("is no superuser, and has the rights that the guide lists and no others", async () => {
    const [row] = await cluster.query(
      EAST,
      `SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls AS powers,
         ARRAY(SELECT g.rolname::text FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid WHERE m.member = r.oid ORDER BY 1) AS groups,
         ARRAY(SELECT a.privilege_type::text FROM pg_database d, aclexplode(d.datacl) a
               WHERE d.datname = 'app' AND a.grantee = r.oid ORDER BY 1) AS on_database,
         ARRAY(SELECT n.nspname::text FROM pg_namespace n WHERE n.nspowner = r.oid ORDER BY 1) AS schemas
       FROM pg_roles r WHERE rolname = $1`,
      [SERVICE_ROLE],
    );
    assert.deepEqual(row, {
      powers: false,
      groups: ["pg_monitor", "pg_signal_backend"],
      on_database: ["CONNECT", "CREATE"],
      schemas: ["highwater"],
    });
    assert.notEqual(await store.positions(EAST), null);
    const sessions = await cluster.query(
      EAST,
      "SELECT DISTINCT usename::text AS role FROM pg_stat_activity WHERE application_name LIKE 'highwater:%'",
    );
    assert.deepEqual(sessions, [{ role: SERVICE_ROLE }]);
  });

  it("is made by the statements of the guide", () => {
    const guide = readFileSync(
      new URL("../../../docs/guide/durability-levels.md", import.meta.url),
      "utf8",
    ).replaceAll(/\s+/g, " ");
    for (const statement of serviceRoleStatements(SERVICE_ROLE, "app").filter((sql) =>
      sql.startsWith("GRANT"),
    ))
      assert.ok(guide.includes(`${statement.replaceAll('"', "")};`), `the guide lacks: ${statement}`);
  });

  it("sees no replica without pg_monitor", async () => {
    const seen = async (): Promise<number> => (await store.positions(EAST))?.replicas.length ?? 0;
    await eventually("the replica is seen", async () => (await seen()) === 1);
    await cluster.query(EAST, `REVOKE pg_monitor FROM ${SERVICE_ROLE}`);
    try {
      assert.equal(await seen(), 0);
    } finally {
      await cluster.query(EAST, `GRANT pg_monitor TO ${SERVICE_ROLE}`);
    }
    await eventually("the replica is seen again", async () => (await seen()) === 1);
  });

  it("begins epochs without pg_monitor", async () => {
    await cluster.query(
      EAST,
      `REVOKE pg_monitor FROM ${SERVICE_ROLE}; GRANT pg_read_all_stats TO ${SERVICE_ROLE}`,
    );
    try {
      await cluster.crashBackend(EAST);
      store.forget(EAST);
      const record = await eventually("an epoch begins", () => store.mint(EAST, MINT).catch(() => undefined));
      assert.equal(record.cause, "crash_recovery");
      assert.notEqual(record.forkLimit, null);
    } finally {
      await cluster.query(
        EAST,
        `REVOKE pg_read_all_stats FROM ${SERVICE_ROLE}; GRANT pg_monitor TO ${SERVICE_ROLE}`,
      );
    }
  });

  it("cannot end the session of an application without pg_signal_backend", async () => {
    await cluster.query(EAST, "CREATE ROLE tenant LOGIN IN ROLE highwater_app");
    const tenant = await connect(await cluster.connectionString(EAST, { user: "tenant" }));
    const service = await connect(nodes[0]?.url ?? "");
    try {
      const { rows } = await tenant.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
      const end = () => service.query("SELECT pg_terminate_backend($1)", [rows[0]?.pid]);
      await cluster.query(EAST, `REVOKE pg_signal_backend FROM ${SERVICE_ROLE}`);
      await assert.rejects(end(), { code: "42501" });
      await cluster.query(EAST, `GRANT pg_signal_backend TO ${SERVICE_ROLE}`);
      await end();
      await eventually("the session has ended", () =>
        tenant.query("SELECT 1").then(
          () => false,
          () => true,
        ),
      );
    } finally {
      await service.end();
    }
  });
});

it("where a promotion left the log is known without the right to read files, and not after a later crash", async () => {
  await using cluster = await startTestCluster({ nodes: NODES });
  const store = makeStore(await nodeSpecs(cluster), "one");
  try {
    await store.prepare(EAST);
    const first = await store.mint(EAST, MINT);
    await cluster.query(
      EAST,
      "CREATE TABLE load AS SELECT n, repeat('x', 500) AS text FROM generate_series(1, 5000) n",
    );
    await cluster.query(EAST, "SELECT pg_switch_wal()");
    await cluster.query(EAST, "UPDATE load SET n = n + 1");
    await cluster.waitForStreaming([WEST]);
    await cluster.kill(EAST);
    await cluster.promote(WEST, { command: false, repoint: false });
    const promoted = await store.mint(WEST, MINT);
    assert.deepEqual([promoted.cause, promoted.previous], ["promotion", first.id]);
    assert.equal(formatLsn(parseOffset(promoted.forkLimit ?? "") ?? ZERO), await switchedAt(cluster, WEST));

    // What the server has replayed since is no promotion's, and lies above the place where the first epoch's log was left.
    await cluster.query(WEST, "DELETE FROM highwater.epoch WHERE id = $1", [promoted.id]);
    await cluster.query(WEST, "UPDATE load SET n = n + 1");
    await cluster.crashBackend(WEST);
    store.forget(WEST);
    const [replayed] = await eventually("the server is back", () =>
      cluster.query(WEST, "SELECT pg_last_wal_replay_lsn()::text AS lsn").catch(() => undefined),
    );
    assert.notEqual(
      replayed?.["lsn"],
      await switchedAt(cluster, WEST),
      "the crash's recovery has replayed log",
    );
    const end = parseOffset(promoted.forkLimit ?? "") ?? ZERO;
    const streamed = {
      epoch: first.id as EpochId,
      incarnation: (await store.probe(WEST)).incarnation,
      offset: (end + 1_000_000n) as Offset,
    };
    const later = await store.mint(WEST, { ...MINT, minSeq: 3, streamed });
    assert.deepEqual([later.cause, later.previous], ["promotion", first.id]);
    assert.ok(
      (parseOffset(later.forkOffset) ?? ZERO) <= end,
      "nothing above the switch counts as carried over",
    );
  } finally {
    await store.close();
  }
});

it("a database whose role may not create is not prepared, and the right is all that it lacks", async () => {
  const cluster = await startCluster({ nodes: [{ id: EAST, region: EAST }] });
  for (const sql of serviceRoleStatements(SERVICE_ROLE, "app")) await cluster.query(EAST, sql);
  const store = makeStore(await nodeSpecs(cluster), "one");
  try {
    await cluster.query(EAST, `REVOKE CREATE ON DATABASE app FROM ${SERVICE_ROLE}`);
    await assert.rejects(store.prepare(EAST), { code: "42501" });
    await cluster.query(EAST, `GRANT CREATE ON DATABASE app TO ${SERVICE_ROLE}`);
    await store.prepare(EAST);
    assert.notEqual((await store.mint(EAST, MINT)).id, "");
  } finally {
    await store.close();
    await cluster.close();
  }
});

it("a schema of Highwater's that another role has made is not used", async () => {
  const cluster = await startCluster({ nodes: [{ id: EAST, region: EAST }] });
  const store = makeStore(await nodeSpecs(cluster), "one");
  try {
    for (const sql of [
      "CREATE ROLE stranger LOGIN",
      "GRANT CREATE ON DATABASE app TO stranger",
      `CREATE ROLE ${SERVICE_ROLE} LOGIN`,
      `GRANT CREATE ON DATABASE app TO ${SERVICE_ROLE}`,
      ...["highwater_app", "highwater_read"].map((group) => `CREATE ROLE ${group}`),
    ])
      await cluster.query(EAST, sql);
    for (const schema of ["highwater", "highwater_audit", "highwater_jobs", "highwater_sequences"]) {
      await cluster.query(EAST, `CREATE SCHEMA ${schema} AUTHORIZATION stranger`);
      await assert.rejects(
        store.prepare(EAST),
        new RegExp(`the schema ${schema} belongs to the role stranger`),
      );
      await cluster.query(EAST, `DROP SCHEMA ${schema}`);
    }
    await store.prepare(EAST);
    await store.prepare(EAST);
  } finally {
    await store.close();
    await cluster.close();
  }
});
