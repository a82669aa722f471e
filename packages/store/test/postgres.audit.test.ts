// Goal: each change of keys, login roles, authority and deployment keys is in the audit log with who, when, what and why, in the same
// transaction; and the services' role can add to the log and not change it. Method: a real server with the documented set-up, changes by
// the store's own calls and by SQL, and the services' role trying to get rid of an entry.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, it } from "node:test";
import type pg from "pg";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { type NodeSpec } from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import { type AuditEntry } from "../src/audit.ts";
import { DEFAULT_LIMITS, type NewApiKey } from "../src/keys.ts";
import { type PostgresStore } from "../src/postgres/adapter.ts";
import { PostgresKeys } from "../src/postgres/keys.ts";
import { serviceRoleStatements } from "../src/postgres/service-role.ts";
import {
  connect,
  makeStore,
  MINT,
  nodeSpecs,
  PATIENT,
  SERVICE_ROLE,
  startTestCluster,
} from "./postgres-cluster.ts";

const NODE = "us-east";
const ADA = { by: "ada", reason: "ticket 7" };

const secretHash = randomBytes(32);
const keyNamed = (id: string): NewApiKey => ({
  ...{ id, secretHash, name: "orders", owner: "shop", role: "app_orders" },
  ...{ scopes: ["read" as const, "write" as const], limits: DEFAULT_LIMITS, expiresAtMs: null },
});

describe("the audit log", () => {
  let cluster: Cluster;
  let node: NodeSpec;
  let store: PostgresStore;
  let keys: PostgresKeys;

  before(async () => {
    cluster = await startTestCluster({ nodes: [{ id: NODE, region: NODE }] });
    [node] = (await nodeSpecs(cluster)) as [NodeSpec];
    store = makeStore([node], "one");
    await store.prepare(NODE);
    await store.mint(NODE, MINT);
    keys = new PostgresKeys({ nodes: [node], clock: realClock, helper: "audit-test", ...PATIENT });
  });

  after(async () => {
    keys.close();
    await store.close();
    await cluster.close();
  });

  const sql = (text: string, params?: readonly unknown[]) => cluster.query(NODE, text, params);
  const all = () => keys.readAudit(NODE, { after: 0, sinceMs: null, limit: 1_000 });
  const newest = async (): Promise<number> => (await all()).at(-1)?.n ?? 0;
  const since = async (n: number): Promise<readonly AuditEntry[]> =>
    keys.readAudit(NODE, { after: n, sinceMs: null, limit: 1_000 });
  const brief = (entries: readonly AuditEntry[]): unknown[] =>
    entries.map(({ actor, action, target, reason }) => [actor, action, target, reason]);

  it("has each change of a key, with who, when, what, why and from where, and no secret", async () => {
    const start = await newest();
    const { now } = (await sql("SELECT clock_timestamp()::text AS now"))[0] as { now: string };
    await keys.claimRole(NODE, "app_orders", { owner: "shop", access: "write" }, ADA);
    await keys.claimRole(NODE, "app_orders", { owner: "shop", access: "write" }, ADA);
    await keys.insertKey(NODE, keyNamed("k1"), ADA);
    await keys.expireKey(NODE, "k1", Date.UTC(2040, 0), { by: "bob", reason: null });
    await keys.revokeKey(NODE, "k1", ADA);
    await keys.revokeKey(NODE, "k1", { by: "eve", reason: "it is revoked already" });
    const entries = await since(start);
    assert.deepEqual(brief(entries), [
      ["ada", "role.record", "app_orders", "ticket 7"],
      ["ada", "key.create", "k1", "ticket 7"],
      ["bob", "key.expire", "k1", null],
      ["ada", "key.revoke", "k1", "ticket 7"],
    ]);
    const created = entries[1];
    assert.deepEqual(
      [created?.login, created?.address, created?.program],
      [SERVICE_ROLE, "127.0.0.1", "highwater:audit-test:keys"],
    );
    assert.deepEqual(created?.detail, {
      ...{ name: "orders", owner: "shop", role: "app_orders", scopes: ["read", "write"], limits: {} },
    });
    assert.ok(Date.parse(created.at) >= Math.floor(Date.parse(now)), created.at);
    assert.match(String(entries[2]?.detail["expiresAt"]), /^2040-01-01T00:00:00/);
    assert.ok(!JSON.stringify(entries).includes(secretHash.toString("hex")));
  });

  it("has what is changed by SQL, under the login role, and what removes rows", async () => {
    await keys.insertKey(NODE, keyNamed("k2"));
    const start = await newest();
    await sql("UPDATE highwater.api_key SET scopes = '{admin}' WHERE id = 'k2'");
    await sql("UPDATE highwater.api_key SET secret_hash = $1 WHERE id = 'k2'", [randomBytes(32)]);
    await sql("UPDATE highwater.api_key SET revoked_at = NULL WHERE id = 'k1'");
    await sql("DELETE FROM highwater.api_key WHERE id = 'k2'");
    await sql("UPDATE highwater.login_role SET owner = 'other' WHERE role = 'app_orders'");
    await sql(
      "INSERT INTO highwater.deployment_key VALUES (9, now(), decode(repeat('00', 16), 'hex')); DELETE FROM highwater.deployment_key",
    );
    await sql("TRUNCATE highwater.api_key");
    const entries = await since(start);
    assert.deepEqual(brief(entries), [
      ["postgres", "key.change", "k2", null],
      ["postgres", "key.change", "k2", null],
      ["postgres", "key.restore", "k1", null],
      ["postgres", "key.delete", "k2", null],
      ["postgres", "role.change", "app_orders", null],
      ["postgres", "deployment-key.record", "9", null],
      ["postgres", "deployment-key.delete", "9", null],
      ["postgres", "table.truncate", "highwater.api_key", null],
    ]);
    assert.equal(entries[1]?.detail["secretReplaced"], true);
  });

  it("has the operators' commands: who is the primary, and what is given up for it", async () => {
    const start = await newest();
    await sql("INSERT INTO highwater.authority_command (node, reason) VALUES ('us-east', 'it is the one')");
    const adopted = await store.adopt(NODE, {
      ...{ data: "intact", reason: "schema dropped", issuedBy: "ada", overrules: [] },
    });
    // Carried out by a service: no act of a person.
    await store.mint(NODE, { ...MINT, command: adopted });
    await sql("DELETE FROM highwater.authority_command WHERE id = $1", [adopted]);
    const entries = await since(start);
    assert.deepEqual(brief(entries), [
      ["postgres", "authority.authorize", NODE, "it is the one"],
      ["ada", "authority.adopt", NODE, "schema dropped"],
      ["postgres", "authority.delete", NODE, null],
    ]);
    assert.equal(entries[1]?.detail["command"], adopted);
  });

  it("is written in the transaction of the change: neither is there without the other", async () => {
    const start = await newest();
    const client = await connect(node.url);
    try {
      await client.query(
        "BEGIN; INSERT INTO highwater.login_role VALUES ('app_gone', 'shop', 'read'); ROLLBACK",
      );
      assert.deepEqual(await since(start), []);
      await sql(
        `REVOKE INSERT (actor, action, target, reason, detail) ON highwater_audit.entry FROM ${SERVICE_ROLE}`,
      );
      await assert.rejects(keys.insertKey(NODE, keyNamed("k3"), ADA), { code: "42501" });
      assert.deepEqual(await sql("SELECT FROM highwater.api_key WHERE id = 'k3'"), []);
    } finally {
      await client.end();
      await sql(
        `GRANT INSERT (actor, action, target, reason, detail) ON highwater_audit.entry TO ${SERVICE_ROLE}`,
      );
    }
  });

  it("is not changed by the services' role in any way, and by its owner only on purpose", async () => {
    await keys.insertKey(NODE, keyNamed("k4"), ADA);
    const before = await all();
    const service = await connect(node.url);
    const boss = await connect(await cluster.connectionString(NODE));
    try {
      const change = ["UPDATE highwater_audit.entry SET actor = 'x'", "DELETE FROM highwater_audit.entry"];
      const refused: [pg.Client, string][] = [
        ...[...change, "TRUNCATE highwater_audit.entry"].map((text): [pg.Client, string] => [boss, text]),
        ...[
          ...change,
          "TRUNCATE highwater_audit.entry",
          "DROP TABLE highwater_audit.entry",
          "DROP SCHEMA highwater_audit CASCADE",
          "ALTER TABLE highwater_audit.entry DISABLE TRIGGER append_only",
          "DROP TRIGGER append_only ON highwater_audit.entry",
          "CREATE OR REPLACE FUNCTION highwater_audit.refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
          "CREATE TABLE highwater_audit.other ()",
          "SET session_replication_role = replica",
          "INSERT INTO highwater_audit.entry (actor, action, target, detail, login) VALUES ('a', 'b', 'c', '{}', 'postgres')",
          "INSERT INTO highwater_audit.entry (actor, action, target, detail, at) VALUES ('a', 'b', 'c', '{}', '2000-01-01')",
          "ALTER TABLE highwater_audit.entry OWNER TO CURRENT_USER",
        ].map((text): [pg.Client, string] => [service, text]),
      ];
      for (const [client, text] of refused) await assert.rejects(client.query(text), { code: "42501" }, text);
      assert.deepEqual(await all(), before);
      await boss.query(
        `BEGIN; ALTER TABLE highwater_audit.entry DISABLE TRIGGER append_only; DELETE FROM highwater_audit.entry WHERE n <= ${String(before[0]?.n)};
         ALTER TABLE highwater_audit.entry ENABLE TRIGGER append_only; COMMIT`,
      );
      assert.deepEqual(await all(), before.slice(1));
    } finally {
      await service.end();
      await boss.end();
    }
  });

  it("is not for applications", async () => {
    await sql("CREATE ROLE tenant LOGIN IN ROLE highwater_app, highwater_read");
    const tenant = await connect(await cluster.connectionString(NODE, { user: "tenant" }));
    try {
      for (const text of [
        "SELECT * FROM highwater_audit.entry",
        "INSERT INTO highwater_audit.entry (actor, action, target, detail) VALUES ('a', 'b', 'c', '{}')",
        "SELECT highwater.audit('ada', 'key.create', 'k', NULL, '{}')",
        "BEGIN; LOCK TABLE highwater.audit_turn IN ACCESS SHARE MODE",
      ])
        await assert.rejects(tenant.query(text), { code: "42501" }, text);
    } finally {
      await tenant.end();
    }
  });

  it("shows no entry before those with lower numbers", async () => {
    const start = await newest();
    const slow = await connect(node.url);
    await slow.query("BEGIN; INSERT INTO highwater.login_role VALUES ('app_slow', 'shop', 'read')");
    const fast = keys.claimRole(NODE, "app_fast", { owner: "shop", access: "read" }, ADA);
    await eventually("the other change waits", async () => {
      const waiting = await sql(
        "SELECT FROM pg_locks WHERE relation = 'highwater.audit_turn'::regclass AND NOT granted",
      );
      return waiting.length === 1;
    });
    assert.deepEqual(await sql("SELECT target FROM highwater_audit.entry WHERE n > $1", [start]), []);
    await slow.query("COMMIT");
    await slow.end();
    await fast;
    assert.deepEqual(
      (await since(start)).map(({ target }) => target),
      ["app_slow", "app_fast"],
    );
  });

  it("is read from a number or a moment on, a page at a time", async () => {
    const entries = await all();
    const [first, second] = await keys.readAudit(NODE, {
      after: entries[0]?.n ?? 0,
      sinceMs: null,
      limit: 2,
    });
    assert.deepEqual([first, second], entries.slice(1, 3));
    assert.deepEqual(await keys.readAudit(NODE, { after: 0, sinceMs: Date.UTC(2100, 0), limit: 10 }), []);
    assert.deepEqual(await keys.readAudit(NODE, { after: 0, sinceMs: 0, limit: 1_000 }), entries);
  });
});

it("an audit log that the services made themselves is taken from them by the set-up, with its entries", async () => {
  await using cluster = await startCluster({ nodes: [{ id: NODE, region: NODE }] });
  const sql = (text: string) => cluster.query(NODE, text);
  for (const text of [
    "CREATE ROLE highwater_app",
    "CREATE ROLE highwater_read",
    `CREATE ROLE ${SERVICE_ROLE} LOGIN`,
    `GRANT CREATE ON DATABASE app TO ${SERVICE_ROLE}`,
  ])
    await sql(text);
  const [node] = (await nodeSpecs(cluster)) as [NodeSpec];
  const store = makeStore([node], "one");
  try {
    await store.prepare(NODE);
    await sql("INSERT INTO highwater.login_role VALUES ('app_orders', 'shop', 'write')");
    for (let run = 0; run < 2; run++)
      for (const text of serviceRoleStatements(SERVICE_ROLE, "app")) await sql(text);
    const service = await connect(node.url);
    try {
      await assert.rejects(service.query("ALTER TABLE highwater_audit.entry DISABLE TRIGGER append_only"), {
        code: "42501",
      });
      await service.query("INSERT INTO highwater.login_role VALUES ('app_billing', 'shop', 'write')");
      const { rows } = await service.query<{ target: string }>(
        "SELECT target FROM highwater_audit.entry ORDER BY n",
      );
      assert.deepEqual(
        rows.map(({ target }) => target),
        ["app_orders", "app_billing"],
      );
    } finally {
      await service.end();
    }
  } finally {
    await store.close();
  }
});
