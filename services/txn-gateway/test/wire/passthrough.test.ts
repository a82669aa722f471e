// Goal: with `passthrough`, the server's own password check decides who has a session, and where the
// server makes none, only clients of the gateway's own host have one. Method: two roles, one of them
// trusted by pg_hba.conf, and clients from two addresses.
import assert from "node:assert/strict";
import { Socket } from "node:net";
import { after, before, it } from "node:test";
import { demandPasswords } from "@highwater/lab-cluster";
import pg from "pg";
import { HOME, WireSystem } from "./system.ts";

const GATEWAYS_HOST = "127.0.0.1";
const OTHER_HOST = "127.0.0.9";
const PASSWORD = "correct horse battery staple";
const [CHECKED, TRUSTED] = ["clerk", "ghost"] as const;

let wire: WireSystem;
before(async () => {
  wire = await WireSystem.start({ GATEWAY_PG_AUTH: "passthrough" });
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
