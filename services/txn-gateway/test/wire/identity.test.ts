// Goal: a session belongs to the holder of an API key of its role, over every form of TLS, and ends
// with the key. Method: clients that begin as libpq does, with SSLRequest or with TLS at once.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { System } from "@highwater/lab-system";
import { eventually, stateOf } from "@highwater/lab-system/testing";
import { makeAuthority } from "@highwater/lab-tools/process/certificate";
import { makeKey, TestIssuer } from "@highwater/service/testing/issuer";
import { writeStartup } from "../../src/wire/startup/packet.ts";
import { query, WireClient, type WireError } from "./client.ts";

const AUTHORITY = makeAuthority("Wire test");
const SHOWN = AUTHORITY.issue("127.0.0.1");
const known = getCACertificates("default");
const SECRET = "a secret for these tests alone";
const issuer = new TestIssuer();
const signer = await makeKey("k1");
let system: System;
let url: string;
let key: string;
before(async () => {
  issuer.keys = [signer];
  await issuer.start();
  const tokens = {
    GATEWAY_JWT_ISSUER: issuer.name,
    GATEWAY_JWT_AUDIENCE: "highwater",
    GATEWAY_JWT_JWKS_URL: issuer.jwksUrl,
    GATEWAY_JWT_ROLES: "app_alice_write,app_erin_read",
  };
  const shared = {
    ...tokens,
    GATEWAY_AUTH: "keys,jwt",
    TRACKER_AUTH: "keys",
    HIGHWATER_INTERNAL_SECRET: SECRET,
  };
  system = await System.start({
    cluster: { nodes: [{ id: "us-east", region: "us-east" }] },
    levels: { disk: { primary: true } },
    env: { ...shared, GATEWAY_PG_MAX_CONNECTIONS_PER_ROLE: "3" },
  });
  key = await system.createKey({ name: "one", owner: "alice", scopes: ["read", "write"] });
  url = system.pgUrl("us-east", "app_alice_write");
});
after(async () => {
  await system.close();
  await issuer.stop();
});

const code = (error: WireError): string => error.code;

it("the password is a key of the role", async () => {
  const client = await WireClient.open(url, { password: key });
  assert.deepEqual((await client.query("SELECT current_user")).rows, [["app_alice_write"]]);
  client.end();
  await assert.rejects(
    WireClient.open(url, { password: "wrong" }),
    (error: WireError) => code(error) === "28P01",
  );
  await assert.rejects(
    WireClient.open(system.pgUrl("us-east", "app"), { password: key }),
    (error: WireError) => code(error) === "28000",
  );
});

it("instead of a password no other message, and none of a wrong length, is blamed on the server", async () => {
  const user = new Map([["user", "app_alice_write"]]);
  for (const instead of ["p\u00ff\u00ff\u00ff\u00ff", "p\0\0\0\x04", "Q\0\0\0\x06x\0"]) {
    const client = await WireClient.dial(url);
    client.send(writeStartup(196_608, user));
    await client.next();
    client.send(Buffer.from(instead, "latin1"));
    assert.match((await client.next()).bytes.toString(), /28P01.*expected a password/);
    await client.closed();
  }
});

it("a role has so many connections, and no more", async () => {
  // The sessions of earlier tests may still end.
  const open = (): Promise<WireClient> =>
    eventually("there is room", () => WireClient.open(url, { password: key }).catch(() => undefined));
  const clients = [await open(), await open(), await open()];
  await assert.rejects(
    WireClient.open(url, { password: key }),
    (error: WireError) => code(error) === "53300",
  );
  for (const client of clients) client.end();
  await eventually("there is room again", async () => {
    const client = await WireClient.open(url, { password: key }).catch(() => undefined);
    client?.end();
    return client !== undefined;
  });
});

it("a role that must not run requests has no session, and settings of its own are none of that", async () => {
  const carol = await system.createKey({ name: "three", owner: "carol", scopes: ["read", "write"] });
  const at = system.pgUrl("us-east", "app_carol_write");
  await system.cluster.query("us-east", "ALTER ROLE app_carol_write SET highwater.read_ack = 'durable'");
  const client = await WireClient.open(at, { password: carol });
  assert.deepEqual((await client.query("SHOW highwater.read_ack")).rows, [["durable"]]);
  client.end();
  const dave = await system.createKey({ name: "four", owner: "dave", scopes: ["read", "write"] });
  await system.cluster.query("us-east", "ALTER ROLE app_dave_write CREATEDB");
  await assert.rejects(
    WireClient.open(system.pgUrl("us-east", "app_dave_write"), { password: dave }),
    (error: WireError) => code(error) === "28000" && /may create databases/.test(error.message),
  );
});

it("a token of the scope read has a session of a role that cannot write, and of no other", async () => {
  await system.createKey({ name: "five", owner: "erin", scopes: ["read"] });
  const sign = (role: string, scope?: string): Promise<string> =>
    issuer.sign(signer, Date.now(), { sub: "reader", aud: "highwater", highwater_role: role, scope });
  const reader = system.pgUrl("us-east", "app_erin_read");
  for (const [at, password, why] of [
    [url, await sign("app_alice_write", "read"), /lacks the rights of highwater_read/],
    [reader, await sign("app_erin_read"), /neither the scope read nor write/],
  ] as const)
    await assert.rejects(
      WireClient.open(at, { password }),
      (error: WireError) => code(error) === "28000" && why.test(error.message),
    );
  const client = await WireClient.open(reader, { password: await sign("app_erin_read", "read") });
  assert.deepEqual((await client.query("SELECT current_user")).rows, [["app_erin_read"]]);
  client.end();
  const writer = await WireClient.open(url, { password: await sign("app_alice_write", "write") });
  writer.end();
});

it("a key that only reads has sessions of the node's database alone", async () => {
  const readKey = await system.createKey({ name: "six", owner: "frank", scopes: ["read"] });
  const at = new URL(system.pgUrl("us-east", "app_frank_read"));
  const client = await WireClient.open(at.href, { password: readKey });
  assert.equal((await client.query("SELECT lo_from_bytea(0, 'x')")).code, "42501");
  client.end();
  for (const database of ["postgres", "template1"]) {
    at.pathname = `/${database}`;
    await assert.rejects(
      WireClient.open(at.href, { password: readKey }),
      (error: WireError) => code(error) === "28000" && /not to "/.test(error.message),
    );
  }
});

it("a key's own limits apply to its sessions", async () => {
  const limits = ["--concurrency", "2", "--statement-timeout", "700ms", "--lock-timeout", "300ms"];
  const limited = await system.createKey({
    name: "eight",
    owner: "heidi",
    scopes: ["read", "write"],
    limits,
  });
  const at = system.pgUrl("us-east", "app_heidi_write");
  const show = "SELECT current_setting('statement_timeout'), current_setting('lock_timeout')";
  const first = await WireClient.open(at, { password: limited });
  assert.deepEqual((await first.query(show)).rows, [["700ms", "300ms"]]);
  const parameters = { statement_timeout: "5s" };
  const second = await WireClient.open(at, { password: limited, parameters });
  assert.deepEqual((await second.query(show)).rows, [["5s", "300ms"]]);
  await assert.rejects(
    WireClient.open(at, { password: limited }),
    (error: WireError) => code(error) === "53300" && /limit concurrency/.test(error.message),
  );
  second.end();
  await eventually("there is room again", async () => {
    const client = await WireClient.open(at, { password: limited }).catch(() => undefined);
    client?.end();
    return client !== undefined;
  });
  first.end();
});

it("a session ends whose key was revoked while it logged in", async () => {
  const late = await system.createKey({ name: "seven", owner: "grace", scopes: ["read", "write"] });
  const at = system.pgUrl("us-east", "app_grace_write");
  // Makes the server wait between the log-in and the session.
  const options = "-c post_auth_delay=5";
  const opened = WireClient.open(at, { password: late, parameters: { options } });
  await eventually("the session logs in", async () => {
    const sql = "SELECT FROM pg_stat_activity WHERE usename = 'app_grace_write'";
    return (await system.cluster.query("us-east", sql)).length > 0;
  });
  await system.revokeKey(late);
  const client = await opened.catch(() => null);
  await client?.closed();
  assert.match(client?.frames.map(({ bytes }) => bytes.toString()).join("") ?? "57P01", /57P01/);
});

it("a session ends when its key is revoked", async () => {
  const gone = await system.createKey({ name: "two", owner: "bob", scopes: ["read", "write"] });
  const client = await WireClient.open(system.pgUrl("us-east", "app_bob_write"), { password: gone });
  await client.query("SELECT 1");
  await system.revokeKey(gone);
  const [last] = (await client.until("E")).slice(-1);
  assert.match(last?.bytes.toString() ?? "", /57P01/);
  await client.closed();
});

const sessionsOf = async (role: string): Promise<number> => {
  const sql = "SELECT FROM pg_stat_activity WHERE usename = $1";
  return (await system.cluster.query("us-east", sql, [role])).length;
};

it("what a session runs when its key is revoked ends at the server, also if its client has left before", async () => {
  const gone = await system.createKey({ name: "nine", owner: "ivan", scopes: ["read", "write"] });
  const at = system.pgUrl("us-east", "app_ivan_write");
  const [stays, leaves] = await Promise.all([1, 2].map(() => WireClient.open(at, { password: gone })));
  assert.ok(stays !== undefined && leaves !== undefined);
  // Commits again and again, and a request to cancel it would not end it.
  const endless = `DO $$ BEGIN LOOP COMMIT; BEGIN PERFORM pg_sleep(0.1);
    EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP; END $$`;
  for (const client of [stays, leaves]) client.send(query(endless));
  await eventually("both run", async () => {
    const sql =
      "SELECT FROM pg_stat_activity WHERE usename = 'app_ivan_write' AND query LIKE 'DO%' AND state = 'active'";
    return (await system.cluster.query("us-east", sql)).length === 2;
  });
  leaves.socket.destroy();
  await system.revokeKey(gone);
  await stays.closed();
  await eventually("the server has ended both", async () => (await sessionsOf("app_ivan_write")) === 0);
});

it("a session counts until the server has ended it, though its client has left", async () => {
  const limits = ["--concurrency", "1"];
  const one = await system.createKey({ name: "ten", owner: "judy", scopes: ["read", "write"], limits });
  const at = system.pgUrl("us-east", "app_judy_write");
  const client = await WireClient.open(at, { password: one });
  client.send(query("SELECT pg_sleep(3600)"));
  await eventually("it runs", async () => {
    const sql = "SELECT FROM pg_stat_activity WHERE usename = 'app_judy_write' AND wait_event = 'PgSleep'";
    return (await system.cluster.query("us-east", sql)).length === 1;
  });
  client.socket.destroy();
  await client.closed();
  await assert.rejects(
    WireClient.open(at, { password: one }),
    (error: WireError) => code(error) === "53300" && /limit concurrency/.test(error.message),
  );
  assert.equal(await sessionsOf("app_judy_write"), 1);
  await system.cluster.query(
    "us-east",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app_judy_write'",
  );
  await eventually("there is room again", async () => {
    const next = await WireClient.open(at, { password: one }).catch(() => undefined);
    next?.end();
    return next !== undefined;
  });
});

it("a state by id belongs to the owner of the key", async () => {
  const client = await WireClient.open(url, { password: key });
  await client.query("SET highwater.ack = 'commit'");
  assert.match((await client.query("CREATE TEMP TABLE t (x int)")).status, /I/);
  assert.match((await client.query("INSERT INTO t VALUES (1)")).token ?? "", /^hw2_/);
  const { status } = await stateOf(system.gateway("us-east").url, "0190b3d2-0000-7000-8000-000000000000");
  assert.equal(status, 401);
  client.end();
});

it("TLS by SSLRequest and TLS at once, and nothing between the request and the handshake", async () => {
  setDefaultCACertificates([...known, AUTHORITY.certificate]);
  const tls = await System.start({
    cluster: { nodes: [{ id: "us-east", region: "us-east" }] },
    levels: { disk: { primary: true } },
    env: {
      HIGHWATER_TLS_CERTIFICATE: SHOWN.certificate,
      HIGHWATER_TLS_KEY: SHOWN.key,
      HIGHWATER_TLS_CA: AUTHORITY.certificate,
    },
  });
  try {
    const at = tls.pgUrl("us-east");
    for (const direct of [false, true]) {
      const client = await WireClient.open(at, { tls: { ca: AUTHORITY.certificate, direct } });
      assert.deepEqual((await client.query("SELECT 1")).rows, [["1"]]);
      client.end();
    }
    const injected = await WireClient.dial(at);
    injected.send(Buffer.concat([Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]), Buffer.from("injected")]));
    assert.match((await injected.next()).bytes.toString(), /unencrypted data after SSL request/);
    await injected.closed();
  } finally {
    await tls.close();
    setDefaultCACertificates(known);
  }
});
