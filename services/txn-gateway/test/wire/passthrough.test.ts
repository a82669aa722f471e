// Goal: with `passthrough`, the server's own password check decides who has a session, and where the
// server makes none, only clients of the gateway's own host have one. Clients that never log in keep
// no one out. Method: two roles, one of them trusted by pg_hba.conf, and clients from two addresses.
import assert from "node:assert/strict";
import { Socket } from "node:net";
import { after, before, it } from "node:test";
import { demandPasswords } from "@highwater/lab-cluster";
import pg from "pg";
import { writeStartup } from "../../src/wire/startup/packet.ts";
import { WireClient } from "./client.ts";
import { HOME, WireSystem } from "./system.ts";

const GATEWAYS_HOST = "127.0.0.1";
const OTHER_HOST = "127.0.0.9";
const PASSWORD = "correct horse battery staple";
const [CHECKED, TRUSTED] = ["clerk", "ghost"] as const;
const PLACES = 3;
/** How many clients may keep the server waiting. */
const ASKED_MAX = 64;
const VERSION_3_0 = 196_608;

let wire: WireSystem;
before(async () => {
  wire = await WireSystem.start({
    GATEWAY_PG_AUTH: "passthrough",
    GATEWAY_PG_MAX_CONNECTIONS_PER_ROLE: String(PLACES),
  });
  const { cluster } = wire.system;
  for (const role of [CHECKED, TRUSTED])
    await cluster.query(HOME, `CREATE ROLE ${role} LOGIN PASSWORD '${PASSWORD}' IN ROLE app`);
  await demandPasswords(cluster, HOME, [CHECKED]);
});
after(() => wire[Symbol.asyncDispose]());

/** Connects from the address. */
class SocketFrom extends Socket {
  readonly #localAddress: string;

  constructor(localAddress: string) {
    super();
    this.#localAddress = localAddress;
  }

  // How the driver calls it.
  override connect(...[port, host]: unknown[]): this {
    return super.connect({ port: Number(port), host: String(host), localAddress: this.#localAddress });
  }
}

/** The role of the session, or the error. */
async function logIn(
  role: string,
  password: string,
  from = GATEWAYS_HOST,
): Promise<string | pg.DatabaseError> {
  const url = new URL(wire.system.pgUrl(HOME, role));
  url.password = password;
  const client = new pg.Client({
    connectionString: url.href,
    stream: () => new SocketFrom(from),
  });
  client.on("error", () => undefined);
  try {
    await client.connect();
    const { rows } = await client.query<{ role: string }>("SELECT session_user AS role");
    return rows[0]?.role ?? "";
  } catch (cause) {
    assert.ok(cause instanceof pg.DatabaseError, String(cause));
    return cause;
  } finally {
    await client.end();
  }
}

/** A client that the server has asked for a password, and that does not answer. */
async function silent(role: string): Promise<WireClient> {
  const url = wire.system.pgUrl(HOME, role);
  const client = await WireClient.dial(url);
  const database = new URL(url).pathname.slice(1);
  client.send(writeStartup(VERSION_3_0, new Map(Object.entries({ user: role, database }))));
  assert.equal((await client.next()).type, "R");
  return client;
}

/** The error of a log-in that fails. */
async function refused(role: string, password: string, from: string): Promise<pg.DatabaseError> {
  const error = await logIn(role, password, from);
  assert.ok(error instanceof pg.DatabaseError, `${role} logs in from ${from}`);
  return error;
}

it("the server's check of the password decides, wherever the client is", async () => {
  for (const from of [GATEWAYS_HOST, OTHER_HOST]) {
    assert.equal(await logIn(CHECKED, PASSWORD, from), CHECKED);
    assert.equal((await refused(CHECKED, "wrong", from)).code, "28P01");
  }
});

it("where the server asks for no password, a client of another host is refused, with what to do", async () => {
  const { code, message } = await refused(TRUSTED, PASSWORD, OTHER_HOST);
  assert.equal(code, "28000");
  assert.match(message, /pg_hba\.conf must demand/);
});

it("a client of the gateway's host has a session: the server would trust it as well", async () => {
  assert.equal(await logIn(TRUSTED, "any"), TRUSTED);
});

it("clients that never answer the server take no places of their role", async () => {
  const clients = await Promise.all(Array.from({ length: PLACES }, () => silent(CHECKED)));
  assert.equal(await logIn(CHECKED, PASSWORD), CHECKED);
  for (const client of clients) client.end();
});

it("a role has no more sessions than its limit, and the right password alone takes a place", async () => {
  await wire.empty();
  const url = new URL(wire.system.pgUrl(HOME, CHECKED));
  url.password = PASSWORD;
  const pool = new pg.Pool({ connectionString: url.href, max: PLACES });
  const clients = await Promise.all(Array.from({ length: PLACES }, () => pool.connect()));
  assert.equal((await refused(CHECKED, "wrong", OTHER_HOST)).code, "28P01");
  const { code, message } = await refused(CHECKED, PASSWORD, OTHER_HOST);
  assert.equal(code, "53300");
  assert.match(message, /GATEWAY_PG_MAX_CONNECTIONS_PER_ROLE/);
  for (const client of clients) client.release();
  await pool.end();
  await wire.empty();
  assert.equal(await logIn(CHECKED, PASSWORD), CHECKED);
});

it("the server waits for few clients at a time: one more displaces the oldest", async () => {
  const oldest = await silent(CHECKED);
  const others = await Promise.all(Array.from({ length: ASKED_MAX - 1 }, () => silent(CHECKED)));
  assert.equal(oldest.isClosed, false);
  assert.equal(await logIn(CHECKED, PASSWORD), CHECKED);
  const [error] = await oldest.until("E");
  assert.match(error?.bytes.toString() ?? "", /53300/);
  await oldest.closed();
  assert.equal(others.filter(({ isClosed }) => isClosed).length, 0);
  for (const client of others) client.end();
});
