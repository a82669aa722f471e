// What a real server does with keys and roles: what it keeps and refuses, in which order changes appear, and who may look.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import pg from "pg";
import { type Cluster, demandPasswords } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { realClock } from "@highwater/runtime";
import { type ApiKey, DEFAULT_LIMITS, type NewApiKey } from "../src/keys.ts";
import { PostgresKeys } from "../src/postgres/keys.ts";
import {
  connect,
  makeStore,
  MINT,
  nodeSpecs,
  PATIENT,
  SERVICE_ROLE,
  startTestCluster,
} from "./postgres-cluster.ts";

const PRIMARY = "us-east";
const REPLICA = "us-west";
let cluster: Cluster;
let keys: PostgresKeys;

before(async () => {
  cluster = await startTestCluster({
    nodes: [
      { id: PRIMARY, region: "us-east" },
      { id: REPLICA, region: "us-west" },
    ],
    settings: { wal_writer_delay: "10ms" },
  });
  const store = makeStore(await nodeSpecs(cluster), "keys-test");
  keys = await openKeys();
  assert.equal(await keys.hasKeys(PRIMARY), false);
  await store.prepare(PRIMARY);
  await store.mint(PRIMARY, MINT);
  await store.close();
  assert.equal(await keys.hasKeys(PRIMARY), true);
});

after(async () => {
  keys.close();
  await cluster.close();
});

/** As an administrator gives the command: the services' role may make no roles, and take nothing from PUBLIC. */
async function openKeys(): Promise<PostgresKeys> {
  const nodes = (await nodeSpecs(cluster)).map((node) => ({
    ...node,
    url: node.url.replace(`${SERVICE_ROLE}@`, "postgres@"),
  }));
  return new PostgresKeys({
    nodes,
    clock: realClock,
    helper: "keys-test",
    ...PATIENT,
  });
}

const query = (sql: string): Promise<Record<string, unknown>[]> => cluster.query(PRIMARY, sql);

let made = 0;
function newKey(more: Partial<NewApiKey> = {}): NewApiKey {
  const id = `key${String(++made)}`;
  return {
    id,
    secretHash: randomBytes(32),
    name: "orders",
    owner: id,
    role: "app_orders",
    scopes: ["read", "write"],
    limits: { ...DEFAULT_LIMITS, ratePerSecond: 0.5, concurrency: 7 },
    expiresAtMs: null,
    ...more,
  };
}

function changedOf(key: ApiKey | null): bigint {
  assert.ok(key !== null);
  return key.changed;
}

describe("a key", () => {
  it("comes back as it was written, from the primary and from a replica", async () => {
    const expiresAtMs = 1_900_000_000_123;
    const key = newKey({ expiresAtMs, scopes: ["admin"], minLevel: "region", onLost: "replay" });
    const written = await keys.insertKey(PRIMARY, key);
    const { createdAtMs, revokedAtMs, changed, ...rest } = written;
    assert.deepEqual({ ...rest, secretHash: Buffer.from(rest.secretHash) }, key);
    assert.equal(revokedAtMs, null);
    assert.ok(Math.abs(createdAtMs - Date.now()) < 3_600_000 && changed > 0n);
    const find = async (node: string) => (await keys.readKeys(node, null)).find(({ id }) => id === key.id);
    assert.deepEqual(await find(PRIMARY), written);
    await eventually("the replica has it", async () => (await find(REPLICA)) !== undefined);
    assert.deepEqual(await find(REPLICA), written);
  });

  it("is revoked once and for all, and can be made to expire", async () => {
    const { id } = await keys.insertKey(PRIMARY, newKey());
    const expiring = await keys.expireKey(PRIMARY, id, 1_800_000_000_000);
    assert.equal(expiring?.expiresAtMs, 1_800_000_000_000);
    const first = await keys.revokeKey(PRIMARY, id);
    const second = await keys.revokeKey(PRIMARY, id);
    assert.ok(first !== null && first.revokedAtMs !== null);
    assert.equal(second?.revokedAtMs, first.revokedAtMs);
    assert.equal(await keys.revokeKey(PRIMARY, "nobody00"), null);
    assert.equal(await keys.expireKey(PRIMARY, "nobody00", 1), null);
  });

  it("is refused when it is malformed", async () => {
    const bad: Partial<NewApiKey>[] = [
      { secretHash: randomBytes(31) },
      { scopes: ["read", "root" as "admin"] },
      { owner: "" },
      { limits: { ...DEFAULT_LIMITS, burst: 0 } },
      { onLost: "retry" as "replay" },
      { limits: { ...DEFAULT_LIMITS, burst: "9" as unknown as number } },
    ];
    for (const more of bad) {
      const refused = keys.insertKey(PRIMARY, newKey(more));
      await assert.rejects(
        refused,
        (cause: { code?: string }) => cause.code === "23514",
        JSON.stringify(more),
      );
    }
  });
});

describe("changes", () => {
  it("are read from where one left off", async () => {
    const older = await keys.insertKey(PRIMARY, newKey());
    const newer = await keys.insertKey(PRIMARY, newKey());
    const idsAfter = async (changed: bigint) => (await keys.readKeys(PRIMARY, changed)).map(({ id }) => id);
    assert.deepEqual(await idsAfter(older.changed), [newer.id]);
    const revoked = changedOf(await keys.revokeKey(PRIMARY, older.id));
    assert.deepEqual(await idsAfter(newer.changed), [older.id]);
    assert.deepEqual(await idsAfter(revoked), []);
  });

  it("are stamped in the order in which they become visible", async () => {
    const { id } = await keys.insertKey(PRIMARY, newKey());
    const slow = await connect(await cluster.connectionString(PRIMARY));
    await slow.query("BEGIN");
    await slow.query("UPDATE highwater.api_key SET name = 'slow' WHERE id = $1", [id]);
    // A second change must not overtake: a reader that had read up to it would never see the first.
    const overtaking = keys.insertKey(PRIMARY, newKey());
    await eventually("the second change waits", async () => {
      const waiting = await query(
        "SELECT FROM pg_locks WHERE relation = 'highwater.key_turn'::regclass AND NOT granted",
      );
      return waiting.length > 0;
    });
    await slow.query("COMMIT");
    await slow.end();
    const { changed } = await overtaking;
    const [first] = (await keys.readKeys(PRIMARY, null)).filter((key) => key.id === id);
    assert.ok(first !== undefined && first.name === "slow" && first.changed < changed);
  });

  it("are stamped later than all before them even when the clock is behind", async () => {
    const ahead = newKey();
    await keys.insertKey(PRIMARY, ahead);
    await query("ALTER TABLE highwater.api_key DISABLE TRIGGER stamp");
    await query(
      `UPDATE highwater.api_key SET changed_at = clock_timestamp() + interval '1 day' WHERE id = '${ahead.id}'`,
    );
    await query("ALTER TABLE highwater.api_key ENABLE TRIGGER stamp");
    const [before] = (await keys.readKeys(PRIMARY, null)).filter((key) => key.id === ahead.id);
    const { changed } = await keys.insertKey(PRIMARY, newKey());
    assert.equal(changed, (before?.changed ?? 0n) + 1n);
  });
});

async function facts(role: string, access: "read" | "write" = "write"): Promise<string> {
  const read = await keys.readRole(PRIMARY, role, access);
  if (read === null) return "absent";
  return [read.canLogin ? "canLogin" : "", ...read.faults].join("; ");
}

describe("an application's role", () => {
  it("cannot read, change or add keys", async () => {
    await keys.createRole(PRIMARY, "app_plain", "write", null);
    const client = await connect(await cluster.connectionString(PRIMARY, { user: "app_plain" }));
    const denied = (cause: { code?: string }): boolean => cause.code === "42501";
    for (const sql of [
      "SELECT secret_hash FROM highwater.api_key",
      "SELECT count(*) FROM highwater.api_key",
      "UPDATE highwater.api_key SET revoked_at = NULL",
      "INSERT INTO highwater.api_key (id) VALUES ('x')",
      "DELETE FROM highwater.api_key",
    ])
      await assert.rejects(client.query(sql), denied, sql);
    await client.end();
  });

  it("logs in with the password after only its hash was sent", async () => {
    const password = "p@ss:w/rd%#? '\\";
    // For sessions that begin from now on.
    await query("ALTER DATABASE app SET log_statement = 'all'");
    const logged = await openKeys();
    await logged.createRole(PRIMARY, 'App "Quoted"', "write", password);
    logged.close();
    await query("ALTER DATABASE app RESET log_statement");
    const log = readFileSync(`${cluster.dir}/logs/${PRIMARY}.log`, "utf8");
    assert.match(log, /CREATE ROLE "App ""Quoted"""/, "the statement was logged");
    assert.ok(!log.includes("p@ss:w/rd"), "the password was not");

    await demandPasswords(cluster, PRIMARY, ['App "Quoted"']);
    const url = new URL(await cluster.connectionString(PRIMARY, { user: 'App "Quoted"' }));
    const logIn = async (secret: string): Promise<unknown> => {
      url.password = encodeURIComponent(secret);
      const client = new pg.Client({ connectionString: String(url) });
      await client.connect();
      const { rows } = await client.query<{ who: string }>("SELECT current_user AS who");
      await client.end();
      return rows[0]?.who;
    };
    assert.equal(await logIn(password), 'App "Quoted"');
    await assert.rejects(logIn("guess"), (cause: { code?: string }) => cause.code === "28P01");
  });

  it("is distinguished from a role with more rights", async () => {
    await query("CREATE ROLE cannot_login IN ROLE highwater_app");
    await query("CREATE ROLE no_member LOGIN");
    await query("CREATE ROLE no_inherit LOGIN NOINHERIT");
    await query("GRANT highwater_app TO no_inherit");
    await query("CREATE ROLE boss LOGIN SUPERUSER");
    await query("CREATE ROLE hidden_boss LOGIN NOINHERIT IN ROLE highwater_app, boss");
    await query("CREATE ROLE copier LOGIN REPLICATION IN ROLE highwater_app");
    await query("CREATE ROLE shell LOGIN IN ROLE highwater_app, pg_execute_server_program");
    await query("CREATE ROLE reader LOGIN IN ROLE highwater_app, pg_read_all_data");
    await query("CREATE ROLE forger LOGIN IN ROLE highwater_app");
    await query("GRANT DELETE ON highwater.receipt TO forger");
    const good = "canLogin";
    const lacks = (role: string): string =>
      `lacks the rights of highwater_app (GRANT highwater_app TO ${role})`;
    assert.equal(await facts("nobody_at_all"), "absent");
    assert.equal(await facts("app_plain"), "canLogin");
    assert.equal(await facts("cannot_login"), "");
    assert.equal(await facts("no_member"), `canLogin; ${lacks("no_member")}`);
    assert.equal(await facts("boss"), `${good}; is a superuser, or can become one`);
    assert.match(await facts("hidden_boss"), /is a superuser, or can become one/);
    assert.match(await facts("copier"), /; (?:may replicate|is a member of pg_)/);
    assert.match(await facts("shell"), /; is a member of pg_execute_server_program$/);
    const reaches = "can read keys, or change what the service keeps in the database";
    assert.equal(await facts("reader"), `${good}; is a member of pg_read_all_data; ${reaches}`);
    assert.equal(await facts("forger"), `${good}; ${reaches}`);
    assert.equal(
      await facts("no_inherit"),
      `canLogin; ${lacks("no_inherit")}`,
      "the rights must be there without SET ROLE",
    );
  });

  it("is not half made when it exists already", async () => {
    await query("CREATE ROLE taken LOGIN");
    const again = keys.createRole(PRIMARY, "taken", "write", null);
    await assert.rejects(again, (cause: { code?: string }) => cause.code === "42710");
    assert.match(await facts("taken"), /lacks the rights of highwater_app/);
  });
});

describe("a role of keys that only read", () => {
  const asReader = async (name: string): Promise<pg.Client> =>
    connect(await cluster.connectionString(PRIMARY, { user: name }));

  it("is distinguished from a role that may write, create, or become such a role", async () => {
    await query("CREATE TABLE ledger (id int, note text)");
    await query("CREATE SEQUENCE numbers");
    await keys.createRole(PRIMARY, "reader_plain", "read", null);
    await query("GRANT SELECT ON ledger, numbers TO reader_plain");
    assert.equal(await facts("reader_plain", "read"), "canLogin");
    assert.match(
      await facts("app_plain", "read"),
      /lacks the rights of highwater_read .*; .*a member of highwater_app/,
    );
    const dangers: readonly (readonly [give: string, take: string, why: RegExp])[] = [
      [
        "GRANT highwater_app TO suspect",
        "REVOKE highwater_app FROM suspect",
        /a member of highwater_app \(REVOKE/,
      ],
      ["GRANT between TO suspect", "REVOKE between FROM suspect", /a member of highwater_app/],
      [
        "REVOKE highwater_read FROM suspect",
        "GRANT highwater_read TO suspect",
        /lacks the rights of highwater_read/,
      ],
      ["GRANT INSERT ON ledger TO suspect", "REVOKE ALL ON ledger FROM suspect", /may write public\.ledger/],
      [
        "GRANT UPDATE (note) ON ledger TO suspect",
        "REVOKE ALL (note) ON ledger FROM suspect",
        /may write public\.ledger/,
      ],
      ["GRANT DELETE ON ledger TO PUBLIC", "REVOKE ALL ON ledger FROM PUBLIC", /may write public\.ledger/],
      [
        "GRANT USAGE ON SEQUENCE numbers TO suspect",
        "REVOKE ALL ON SEQUENCE numbers FROM suspect",
        /may write public\.numbers/,
      ],
      [
        "ALTER TABLE ledger OWNER TO suspect",
        "ALTER TABLE ledger OWNER TO postgres",
        /may write public\.ledger/,
      ],
      [
        "GRANT CREATE ON SCHEMA public TO suspect",
        "REVOKE CREATE ON SCHEMA public FROM suspect",
        /create in the schema public/,
      ],
      [
        "GRANT CREATE ON DATABASE app TO suspect",
        "REVOKE CREATE ON DATABASE app FROM suspect",
        /may create schemas/,
      ],
    ];
    await query("CREATE ROLE suspect LOGIN IN ROLE highwater_read");
    await query("CREATE ROLE between NOINHERIT IN ROLE highwater_app");
    for (const [give, take, why] of dangers) {
      assert.equal(await facts("suspect", "read"), "canLogin", give);
      await query(give);
      assert.match(await facts("suspect", "read"), why, give);
      await query(take);
    }
  });

  it("may not maintain a table: MAINTAIN rewrites it, and locks it against everyone", async (t) => {
    const [version] = await query("SELECT current_setting('server_version_num')::int AS number");
    if (Number(version?.["number"]) < 170_000) return t.skip("MAINTAIN is a right since PostgreSQL 17");
    await query("CREATE TABLE kept (id int)");
    await query("CREATE ROLE keeper LOGIN IN ROLE highwater_read");
    await query("GRANT MAINTAIN ON kept TO keeper");
    const client = await asReader("keeper");
    try {
      await client.query("BEGIN READ ONLY; LOCK TABLE kept IN ACCESS EXCLUSIVE MODE; ROLLBACK");
    } finally {
      await client.end();
    }
    assert.match(await facts("keeper", "read"), /may write public\.kept/);
    await query("REVOKE ALL ON kept FROM keeper");
    assert.equal(await facts("keeper", "read"), "canLogin");
    await query("CREATE ROLE locker LOGIN IN ROLE highwater_app");
    await query("GRANT MAINTAIN ON highwater.receipt TO locker");
    assert.match(await facts("locker"), /change what the service keeps in the database/);
  });

  it("belongs to the owner and the access that were recorded first", async () => {
    const first = { owner: "shop", access: "read" } as const;
    const claims = await Promise.all([
      keys.claimRole(PRIMARY, "reader_plain", first),
      keys.claimRole(PRIMARY, "reader_plain", first),
    ]);
    assert.deepEqual(claims, [first, first]);
    for (const other of [
      { owner: "bank", access: "read" },
      { owner: "shop", access: "write" },
    ] as const)
      assert.deepEqual(await keys.claimRole(PRIMARY, "reader_plain", other), first);
  });

  it("cannot use what PUBLIC has lost, and roles that were there still can", async () => {
    await query("CREATE ROLE bystander LOGIN");
    await query("CREATE FUNCTION public.as_owner() RETURNS int SECURITY DEFINER LANGUAGE sql AS 'SELECT 1'");
    const held = [
      "SELECT pg_advisory_lock(1)",
      "SELECT pg_try_advisory_xact_lock_shared(1, 2)",
      "SELECT lo_create(0)",
      "SELECT lo_from_bytea(0, 'x')",
      "SELECT pg_logical_emit_message(false, 'a', 'x')",
      "SELECT pg_current_xact_id()",
      "SELECT txid_current()",
      "SELECT pg_cancel_backend(0)",
      "SELECT pg_terminate_backend(0)",
      "CREATE TEMPORARY TABLE mine (id int)",
    ];
    assert.deepEqual(
      await Promise.all([keys.protect(PRIMARY, "reader_plain"), keys.protect(PRIMARY, "reader_plain")]),
      [["SECURITY DEFINER public.as_owner()"], ["SECURITY DEFINER public.as_owner()"]],
    );
    await query("DROP FUNCTION public.as_owner()");
    assert.deepEqual(await keys.protect(PRIMARY, "reader_plain"), []);
    const denied = (cause: { code?: string }): boolean => cause.code === "42501";
    const reader = await asReader("reader_plain");
    for (const sql of held) await assert.rejects(reader.query(sql), denied, sql);
    const { rows } = await reader.query(
      "SELECT highwater.sentinel_epoch(), highwater.leave_session() AS dirty",
    );
    assert.equal((rows[0] as { dirty: boolean }).dirty, false);
    await reader.end();
    for (const name of ["bystander", "app_plain"]) {
      const other = await asReader(name);
      for (const sql of held) await other.query(sql);
      await other.end();
    }
    await query("GRANT highwater_read TO bystander");
    assert.match(await facts("bystander", "read"), /a member of highwater_others \(REVOKE/);
  });
});
