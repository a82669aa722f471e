// Login roles: whose rights a transaction has, what it cannot get beyond them, and a role that may not log in.
import assert from "node:assert/strict";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { type Cluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { type EpochId, type NodeSpec, type TxnId } from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import { type TransactionSpec } from "../src/port.ts";
import { type PostgresStore } from "../src/postgres/adapter.ts";
import {
  commitOf,
  connect,
  errorOf,
  keyOf,
  makeStore,
  MINT,
  nodeSpecs,
  SERVICE_ROLE,
  specOf,
  startTestCluster,
} from "./postgres-cluster.ts";

/** No id is above it. */
const LAST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff";

describe("login roles on PostgreSQL", () => {
  let cluster: Cluster;
  let node: NodeSpec;
  let store: PostgresStore;
  let epoch: EpochId;
  const passwords = new Map<string, string>();
  let skewMs = 0;

  before(async () => {
    cluster = await startTestCluster({ nodes: [{ id: "us-east", region: "us-east" }] });
    [node] = (await nodeSpecs(cluster)) as [NodeSpec];
    store = makeStore([node], "one", {
      rolePoolSize: 2,
      clock: { ...realClock, monotonicMs: () => performance.now() + skewMs },
      roleUrl: (nodeUrl, role) => {
        const url = new URL(nodeUrl);
        url.username = encodeURIComponent(role);
        url.password = encodeURIComponent(passwords.get(role) ?? "");
        return url.href;
      },
    });
    await store.prepare(node.id);
    epoch = (await store.mint(node.id, MINT)).id as EpochId;
    await sql("CREATE TABLE kv (key text PRIMARY KEY, value text NOT NULL)");
    for (const role of ["shop", "bank"]) {
      await sql(`CREATE ROLE ${role} LOGIN IN ROLE highwater_app`);
      await sql(`CREATE TABLE ${role}_data (id int)`);
      await sql(`GRANT ALL ON kv, ${role}_data TO ${role}`);
    }
  });

  after(async () => {
    await store.close();
    await cluster.close();
  });

  const sql = (text: string, params?: readonly unknown[]): Promise<Record<string, unknown>[]> =>
    cluster.query(node.id, text, params);

  const spec = (
    role: string | null,
    texts: readonly string[],
    more: Partial<TransactionSpec> = {},
  ): TransactionSpec => specOf(epoch, texts, { role, ...more });

  const run = async (role: string | null, ...texts: string[]) =>
    commitOf(await store.execute(node.id, spec(role, texts))).results.map(({ rows }) => rows[0]?.[0]);

  const receiptOf = async (id: TxnId) => (await store.lookUp(node.id, [keyOf(id)])).receipts[0];

  const WHO = "SELECT session_user || '/' || current_user";

  it("run a transaction as themselves, and the service's own is another", async () => {
    assert.deepEqual(await run("shop", WHO), ["shop/shop"]);
    assert.deepEqual(await run("bank", WHO), ["bank/bank"]);
    assert.deepEqual(await run(null, WHO), [`${SERVICE_ROLE}/${SERVICE_ROLE}`]);
    const opening = await store.begin(node.id, spec("shop", [WHO]));
    assert.ok(opening.kind === "open");
    assert.deepEqual(opening.results[0]?.rows, [["shop/shop"]]);
    await opening.transaction.rollback();
    commitOf(await store.execute(node.id, spec("shop", [WHO], { readOnly: true })));
  });

  it("have their own rights, and cannot get others", async () => {
    await run("shop", "INSERT INTO shop_data VALUES (1)");
    const greedy = [
      "SELECT * FROM bank_data",
      "SET ROLE postgres",
      "SET ROLE bank",
      "SET SESSION AUTHORIZATION bank",
      "SELECT set_config('role', 'bank', false)",
      "SELECT * FROM highwater.receipt",
      "SELECT * FROM highwater.epoch",
      "UPDATE highwater.receipt SET kind = 'lost'",
      "INSERT INTO highwater.witness (helper, epoch, reached) VALUES ('me', gen_random_uuid(), 'F/0')",
      // Which ids are too old to commit.
      `INSERT INTO highwater.authority_command (node, reason, ids_from) VALUES ('a', 'mine', '${LAST_ID}')`,
      `UPDATE highwater.authority_command SET ids_from = '${LAST_ID}'`,
      `UPDATE highwater.epoch SET ids_from = '${LAST_ID}'`,
      `UPDATE highwater.epoch_sentinel SET ids_from = '${LAST_ID}'`,
      `UPDATE highwater.current_epoch SET ids_from = '${LAST_ID}'`,
      // What a restore is known by.
      "UPDATE highwater.epoch_sentinel SET writer = '0'",
      "UPDATE highwater.opened_epoch SET writer = '0'",
      "DELETE FROM highwater.opened_epoch",
      "SELECT * FROM highwater.opened_epoch",
      "UPDATE highwater.retention SET expired_before = 'infinity'",
    ];
    for (const text of greedy) {
      const error = await errorOf(store.execute(node.id, spec("shop", [text])));
      assert.deepEqual([error.code, error.details.sqlstate, text], ["statement_failed", "42501", text]);
    }
    for (const reset of ["RESET ROLE", "RESET SESSION AUTHORIZATION", "SET ROLE NONE", "RESET ALL"])
      assert.deepEqual((await run("shop", reset, WHO))[1], "shop/shop");
    assert.deepEqual((await run("shop", "SET ROLE highwater_app", WHO))[1], "shop/highwater_app");
    const inBetween = await Promise.all([run("shop", WHO), run("shop", WHO)]);
    assert.deepEqual(inBetween, [["shop/shop"], ["shop/shop"]], "and nothing of it is left in the session");
  });

  it("write what the transaction ran into the receipt", async () => {
    const most = 2n ** 63n - 1n;
    for (const digest of [most, -most - 1n, 1n]) {
      const oneShot = spec("shop", ["SELECT 1"], { digest });
      commitOf(await store.execute(node.id, oneShot));
      const interactive = spec("shop", [], { digest });
      const opening = await store.begin(node.id, interactive);
      assert.ok(opening.kind === "open");
      commitOf(await opening.transaction.commit([]));
      for (const { id } of [oneShot, interactive])
        assert.deepEqual(await receiptOf(id), { kind: "commit", epoch, digest });
    }
    const own = spec(null, ["SELECT 1"]);
    commitOf(await store.execute(node.id, own));
    assert.deepEqual(await receiptOf(own.id), { kind: "commit", epoch, digest: own.digest });
    const tombstone = specOf(epoch, []);
    await store.settle(node.id, { epoch, keys: [tombstone], tombstone: "aborted", patienceMs: 100 });
    assert.deepEqual(await receiptOf(tombstone.id), { kind: "aborted", epoch, digest: 0n });
  });

  it("that are not in highwater_app write nothing", async () => {
    await sql("CREATE ROLE outsider LOGIN");
    await sql("GRANT ALL ON kv TO outsider");
    const outside = spec("outsider", ["INSERT INTO kv VALUES ('outside', '1')"]);
    const error = await errorOf(store.execute(node.id, outside));
    assert.deepEqual(
      [error.code, error.outcome, error.details.sqlstate],
      ["statement_failed", "not_applied", "42501"],
    );
    assert.deepEqual([await sql("SELECT FROM kv"), (await receiptOf(outside.id))?.kind], [[], "absent"]);
  });

  it("that may not log in get an error that says so, without a time to wait", async () => {
    await sql("CREATE ROLE sleeper NOLOGIN IN ROLE highwater_app");
    await sql("CREATE ROLE guarded LOGIN PASSWORD 'right' IN ROLE highwater_app");
    const hba = path.join(cluster.nodes[0]?.dataDir ?? "", "pg_hba.conf");
    const rules =
      "host all guarded 127.0.0.1/32 scram-sha-256\nhost all locked_out 127.0.0.1/32 reject\nhost all all 127.0.0.1/32 trust";
    await sql(`COPY (SELECT unnest(string_to_array($q$${rules}$q$, chr(10)))) TO '${hba}'`);
    await sql("SELECT pg_reload_conf()");
    const url = await cluster.connectionString(node.id, { user: "guarded" });
    await eventually("the rules are in force", async () =>
      connect(url).then(
        (client) => client.end().then(() => false),
        () => true,
      ),
    );
    const isRefused = async (role: string): Promise<void> => {
      for (const readOnly of [false, true])
        for (const verb of ["execute", "begin"] as const) {
          const error = await errorOf(store[verb](node.id, spec(role, ["SELECT 1"], { readOnly })));
          assert.deepEqual([error.code, error.outcome, role], ["forbidden", "not_applied", role]);
          assert.ok(error.message.includes(role) && error.details.retryAfterMs === undefined, error.message);
          assert.ok(!JSON.stringify(error.toProblem()).includes("wrong"), "no password is revealed");
        }
    };
    for (const role of ["nobody_of_that_name", "sleeper", "locked_out", "guarded", ""]) await isRefused(role);
    passwords.set("guarded", "wrong");
    store.forget(node.id);
    await isRefused("guarded");
    await run("shop", "SELECT 1");
  });

  it("log in with their password", async () => {
    passwords.set("guarded", "right");
    const another = makeStore([node], "two", {
      roleUrl: (nodeUrl, role) =>
        nodeUrl.replace(`${SERVICE_ROLE}@`, `${role}:${passwords.get(role) ?? ""}@`),
    });
    try {
      const { results } = commitOf(await another.execute(node.id, spec("guarded", [WHO])));
      assert.deepEqual(results[0]?.rows, [["guarded/guarded"]]);
    } finally {
      await another.close();
    }
  });

  const DANGERS: readonly (readonly [give: string, take: string, why: RegExp])[] = [
    ["ALTER ROLE suspect SUPERUSER", "ALTER ROLE suspect NOSUPERUSER", /is a superuser, or can become one\./],
    ["ALTER ROLE suspect REPLICATION", "ALTER ROLE suspect NOREPLICATION", /may replicate/],
    ["ALTER ROLE suspect BYPASSRLS", "ALTER ROLE suspect NOBYPASSRLS", /exempt from row security/],
    ["ALTER ROLE suspect CREATEROLE", "ALTER ROLE suspect NOCREATEROLE", /may create roles/],
    ["ALTER ROLE suspect CREATEDB", "ALTER ROLE suspect NOCREATEDB", /may create databases/],
    ["GRANT pg_monitor TO suspect", "REVOKE pg_monitor FROM suspect", /a member of pg_monitor/],
    [
      "GRANT pg_signal_backend TO suspect",
      "REVOKE pg_signal_backend FROM suspect",
      /a member of pg_signal_backend/,
    ],
    ["GRANT rds_superuser TO suspect", "REVOKE rds_superuser FROM suspect", /a member of rds_superuser/],
    ["GRANT between TO suspect", "REVOKE between FROM suspect", /is a superuser, or can become one\./],
    ["ALTER DATABASE spare OWNER TO suspect", "ALTER DATABASE spare OWNER TO postgres", /owns a database/],
    [
      "ALTER ROLE suspect SET search_path TO evil, pg_catalog",
      "ALTER ROLE suspect RESET ALL",
      /has settings of its own/,
    ],
    ["ALTER ROLE suspect SET role TO bank", "ALTER ROLE suspect RESET ALL", /has settings of its own/],
    [
      "GRANT USAGE ON SCHEMA highwater_jobs TO suspect",
      "REVOKE ALL ON SCHEMA highwater_jobs FROM suspect",
      /what the service keeps/,
    ],
    [
      "GRANT SELECT ON highwater.api_key TO suspect",
      "REVOKE ALL ON highwater.api_key FROM suspect",
      /can read keys/,
    ],
    [
      "GRANT DELETE ON highwater.receipt TO suspect",
      "REVOKE DELETE ON highwater.receipt FROM suspect",
      /what the service keeps/,
    ],
  ];

  it("are vetted when a session is admitted, and once a minute while it is pooled", async () => {
    await sql("CREATE ROLE suspect LOGIN IN ROLE highwater_app");
    await sql("CREATE ROLE rds_superuser");
    await sql("CREATE ROLE between NOINHERIT IN ROLE postgres");
    await sql("CREATE DATABASE spare");
    await sql("CREATE SCHEMA IF NOT EXISTS highwater_jobs");
    await sql("CREATE SCHEMA evil AUTHORIZATION suspect");
    await sql("CREATE FUNCTION evil.pg_is_in_recovery() RETURNS boolean LANGUAGE sql AS 'SELECT true'");
    for (const [give, take, why] of DANGERS) {
      await run("suspect", "SELECT 1");
      await sql(give);
      for (const when of ["pooled", "admitted"]) {
        if (when === "pooled") skewMs += 61_000;
        else store.forget(node.id);
        const refusal = store.execute(node.id, spec("suspect", ["SELECT 1"]));
        const error = await errorOf(refusal.then(() => [give, when]));
        assert.deepEqual([error.code, error.outcome, give, when], ["forbidden", "not_applied", give, when]);
        assert.match(error.message, why);
      }
      await sql(take);
      await run("suspect", "SELECT 1");
    }
    await run("suspect", "ALTER ROLE CURRENT_USER SET search_path TO evil, pg_catalog");
    skewMs += 61_000;
    const refused = async (): Promise<string> =>
      (await errorOf(store.execute(node.id, spec("suspect", ["SELECT 1"])))).code;
    assert.equal(await refused(), "forbidden");
    // A request that waits for a forgotten session has to try again.
    store.forget(node.id);
    await eventually("a new session is refused as well", async () => (await refused()) === "forbidden");
    await run("shop", "SELECT 1");
  });

  it("of keys that only read are vetted for that too, and read", async () => {
    await sql("CREATE ROLE viewer LOGIN IN ROLE highwater_read");
    await sql("GRANT SELECT ON kv TO viewer");
    await sql("INSERT INTO highwater.login_role VALUES ('viewer', 'shop', 'read')");
    const read = (more: Partial<TransactionSpec> = {}) =>
      store.execute(node.id, spec("viewer", ["SELECT count(*) FROM kv"], { readOnly: true, ...more }));
    const isolations = ["serializable", "repeatable read", "read committed"] as const;
    for (const isolation of isolations) commitOf(await read({ isolation }));
    const opening = await store.begin(node.id, spec("viewer", [WHO], { readOnly: true }));
    assert.ok(opening.kind === "open");
    await opening.transaction.rollback();
    const write = await errorOf(store.execute(node.id, spec("viewer", ["SELECT 1"])));
    assert.deepEqual([write.code, write.details.sqlstate], ["statement_failed", "42501"]);
    const unprotected: string[][] = [];
    store.observe({
      onWaited: () => undefined,
      onUnprotected: (at, role, rights) => {
        assert.deepEqual([at, role], [node.id, "viewer"]);
        unprotected.push([...rights]);
      },
    });
    for (const [give, take, why] of [
      ["GRANT highwater_app TO viewer", "REVOKE highwater_app FROM viewer", /a member of highwater_app/],
      ["GRANT INSERT ON kv TO viewer", "REVOKE INSERT ON kv FROM viewer", /may write public\.kv/],
    ] as const) {
      commitOf(await read());
      await sql(give);
      for (const when of ["pooled", "admitted"]) {
        if (when === "pooled") skewMs += 61_000;
        else store.forget(node.id);
        const error = await errorOf(read().then(() => [give, when]));
        assert.deepEqual([error.code, error.outcome, give, when], ["forbidden", "not_applied", give, when]);
        assert.match(error.message, why);
      }
      await sql(take);
      commitOf(await read());
    }
    // PUBLIC still has them here.
    assert.ok(unprotected.at(-1)?.includes("lo_create") && unprotected.at(-1)?.includes("pg_advisory_lock"));
  });

  it("of keys that only read go on reading, whatever other owners grant them", async () => {
    await sql("CREATE ROLE browser LOGIN IN ROLE highwater_read");
    await sql("GRANT SELECT ON kv TO browser");
    await sql("GRANT CREATE ON DATABASE app TO bank");
    await sql(`INSERT INTO highwater.login_role VALUES ('browser', 'browsing', 'read'), ('bank', 'banking', 'write'),
      ('browser_write', 'browsing', 'write')`);
    await sql("CREATE ROLE browser_write LOGIN IN ROLE highwater_app");
    await sql("CREATE TABLE browsed AS SELECT 1 AS id");
    await sql("ALTER TABLE browsed OWNER TO browser_write");
    const read = () =>
      store.execute(node.id, spec("browser", ["SELECT count(*) FROM kv"], { readOnly: true }));
    const unprotected: string[] = [];
    store.observe({
      onWaited: () => undefined,
      onUnprotected: (_at, role, rights) => {
        if (role === "browser") unprotected.splice(0, Number.POSITIVE_INFINITY, ...rights);
      },
    });
    const faults = async (): Promise<readonly string[]> => store.roleFaults(node.id, "browser", true);
    await run("bank", "CREATE SCHEMA bank CREATE TABLE bank.open_to_all (id serial)");
    for (const [grant, right] of [
      ["GRANT INSERT ON bank.open_to_all TO browser", "writing bank.open_to_all of another owner"],
      ["GRANT UPDATE (id) ON bank.open_to_all TO PUBLIC", "writing bank.open_to_all of another owner"],
      [
        "GRANT USAGE ON SEQUENCE bank.open_to_all_id_seq TO PUBLIC",
        "writing bank.open_to_all of another owner",
      ],
      ["GRANT CREATE ON SCHEMA bank TO PUBLIC", "CREATE in the schema bank of another owner"],
      // A group that all writers are in.
      ["ALTER TABLE bank.open_to_all OWNER TO highwater_app", "writing bank.open_to_all of another owner"],
    ] as const) {
      await run("bank", grant);
      skewMs += 61_000;
      commitOf(await read());
      assert.deepEqual(await faults(), [], grant);
      assert.ok(unprotected.includes(right), `${grant}: ${unprotected.join()}`);
    }
    // Of its own owner, and of roles that no keys are for, it must get none.
    for (const table of ["browsed", "kv"]) {
      await sql(`GRANT INSERT ON ${table} TO browser`);
      assert.match((await faults()).join(), new RegExp(`may write public\\.${table}`));
      skewMs += 61_000;
      assert.equal((await errorOf(read())).code, "forbidden");
      await sql(`REVOKE INSERT ON ${table} FROM browser`);
    }
    commitOf(await read());
  });

  it("without a free connection get an error with a time to wait", async () => {
    await sql("CREATE ROLE narrow LOGIN CONNECTION LIMIT 1 IN ROLE highwater_app");
    const opening = await store.begin(node.id, spec("narrow", ["SELECT 1"]));
    assert.ok(opening.kind === "open");
    const error = await errorOf(store.execute(node.id, spec("narrow", ["SELECT 1"])));
    assert.deepEqual([error.code, error.outcome], ["overloaded", "not_applied"]);
    await opening.transaction.rollback();
    commitOf(await store.execute(node.id, spec("narrow", ["SELECT 1"])));
  });
});
