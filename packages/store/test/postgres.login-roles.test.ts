// Goal: the migration records the owner of each login role of a store that already has keys. If keys of several owners share a
// role, the error says what to do.
// Method: the test writes keys directly, as a service from before migration 0014 left them, and runs the migration again.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { type Cluster } from "@highwater/lab-cluster";
import { makeStore, nodeSpecs, startTestCluster } from "./postgres-cluster.ts";

let cluster: Cluster;

before(async () => {
  cluster = await startTestCluster({ nodes: [{ id: "a", region: "a" }] });
});

after(() => cluster.close());

const sql = (text: string): Promise<Record<string, unknown>[]> => cluster.query("a", text);

const key = (id: string, owner: string, role: string, scopes: string): Promise<unknown> =>
  sql(`INSERT INTO highwater.api_key (id, secret_hash, name, owner, role, scopes)
    VALUES ('${id}', decode(repeat('00', 32), 'hex'), '${id}', '${owner}', '${role}', '{${scopes}}')`);

it("migration 0014 records the roles of live keys, and refuses shared ones by name", async () => {
  const store = makeStore(await nodeSpecs(cluster), "migrations");
  try {
    await store.prepare("a");
    await key("k1", "shop", "app_shop", "read,write");
    await key("k2", "shop", "app_shop", "write");
    await key("k3", "shop", "app_reports", "read");
    await key("k4", "bank", "app_shared", "write");
    await key("k5", "shop", "app_shared", "write");
    await key("k6", "bank", "app_mixed", "read");
    await key("k7", "bank", "app_mixed", "write");
    await sql("DROP TABLE highwater.login_role");
    await sql("DELETE FROM highwater.migration WHERE name LIKE '0014%'");
    await assert.rejects(store.prepare("a"), /share the login roles app_mixed, app_shared/);
    await sql("UPDATE highwater.api_key SET revoked_at = now() WHERE id IN ('k5', 'k6')");
    await store.prepare("a");
    const rows = await sql(
      "SELECT role || ' ' || owner || ' ' || access AS row FROM highwater.login_role ORDER BY 1",
    );
    assert.deepEqual(
      rows.map(({ row }) => row),
      ["app_mixed bank write", "app_reports shop read", "app_shared bank write", "app_shop shop write"],
    );
  } finally {
    await store.close();
  }
});
