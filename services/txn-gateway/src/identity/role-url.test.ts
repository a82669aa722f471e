import assert from "node:assert/strict";
import { test } from "node:test";
import pg from "pg";
import { HighwaterError } from "@highwater/protocol";
import { parseRolePasswords, roleUrl } from "./role-url.ts";

/** What the driver makes of it. */
const read = (connectionString: string): pg.Client => new pg.Client({ connectionString });

const NODE = "postgresql://service:s3cret@db.example.com:5433/app?sslmode=require&options=-c%20jit%3Doff";

test("the user and the password change, and nothing else", () => {
  assert.equal(
    roleUrl(NODE, "app_orders", "pw"),
    "postgresql://app_orders:pw@db.example.com:5433/app?sslmode=require&options=-c%20jit%3Doff",
  );
  assert.equal(
    roleUrl(NODE, "app_orders", undefined),
    "postgresql://app_orders@db.example.com:5433/app?sslmode=require&options=-c%20jit%3Doff",
  );
  assert.equal(roleUrl("postgres://[::1]/app", "r", undefined), "postgres://r@[::1]/app");
});

test("whatever is in the names, the driver reads back what was meant", () => {
  const odd = ['App "Quoted"', "a:b@c/d?e#f", "100%41", "naïve ✓", "p'w\\[]^|`{}<>", "%", "a+b"];
  for (const role of odd)
    for (const password of odd) {
      const seen = read(roleUrl("postgresql://service:s3cret@db:5433/app", role, password));
      assert.deepEqual(
        [seen.user, seen.password, seen.host, seen.port, seen.database],
        [role, password, "db", 5433, "app"],
      );
    }
});

test("credentials in the options do not win", () => {
  const seen = read(roleUrl("postgresql://db/app?user=service&password=s3cret&application_name=x", "r", "p"));
  assert.deepEqual([seen.user, seen.password], ["r", "p"]);
  const socket = read(roleUrl("postgresql:///app?host=/run/postgresql&user=service", "r 1", "p&q"));
  assert.deepEqual(
    [socket.user, socket.password, socket.host, socket.database],
    ["r 1", "p&q", "/run/postgresql", "app"],
  );
});

test("what is no URL is refused, and not quoted", () => {
  for (const url of [
    "host=db user=service password=s3cret",
    "/run/postgresql app",
    "mysql://u:s3cret@db/app",
    "postgres://a:s3cret@b:99999/c",
  ])
    assert.throws(
      () => roleUrl(url, "r", undefined),
      (cause: unknown) =>
        cause instanceof HighwaterError && !cause.message.includes("s3cret") && cause.cause === undefined,
    );
});

test("passwords by role, and faults that quote none", () => {
  const good = parseRolePasswords('{"app_orders": "pw1", "app_audit": "pw2"}');
  assert.ok(good.ok);
  assert.equal(good.passwords.get("app_audit"), "pw2");
  for (const json of ["{s3cret", '["s3cret"]', "null", '{"a": {"b": "s3cret"}}', '{"a": ""}', "7"]) {
    const bad = parseRolePasswords(json);
    assert.ok(!bad.ok && bad.faults.length > 0, json);
    assert.ok(!bad.faults.join().includes("s3cret"));
  }
});
