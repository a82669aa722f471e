// Goal: with `passthrough`, the server's own password check decides who has a session, and where the
// server makes none, only clients of the gateway's own host have one. Method: two roles, one of them
// trusted by pg_hba.conf, and clients from two addresses.
import assert from "node:assert/strict";
import { chmod, readFile, writeFile } from "node:fs/promises";
import { connect, Socket } from "node:net";
import { join } from "node:path";
import { after, before, it } from "node:test";
import pg from "pg";
import { eventually } from "@highwater/lab-system/testing";
import { WireClient, type WireError } from "./client.ts";
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
  const file = join(cluster.nodes.find(({ id }) => id === HOME)?.dataDir ?? "", "pg_hba.conf");
  await writeFile(file, `host all ${CHECKED} all scram-sha-256\n${await readFile(file, "utf8")}`);
  await chmod(file, 0o644);
  await cluster.query(HOME, "SELECT pg_reload_conf()");
  await eventually(
    "the server asks for the password",
    async () => (await logIn(CHECKED, "wrong")) !== CHECKED,
  );
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

/** The role of the session, or the code of the error. */
async function logIn(role: string, password: string, from = GATEWAYS_HOST): Promise<string> {
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
    return (cause as { code?: string }).code ?? String(cause);
  } finally {
    await client.end();
  }
}

it("the server's check of the password decides, wherever the client is", async () => {
  for (const from of [GATEWAYS_HOST, OTHER_HOST]) {
    assert.equal(await logIn(CHECKED, PASSWORD, from), CHECKED);
    assert.equal(await logIn(CHECKED, "wrong", from), "28P01");
  }
});

it("where the server asks for no password, a client of another host is refused, with what to do", async () => {
  const url = new URL(wire.system.pgUrl(HOME, TRUSTED));
  const socket = connect({ host: url.hostname, port: Number(url.port), localAddress: OTHER_HOST });
  const client = WireClient.over(socket);
  await assert.rejects(
    client.start(url.href, { password: PASSWORD }),
    ({ code, message }: WireError) => code === "28000" && /pg_hba\.conf must demand/.test(message),
  );
  assert.equal(await logIn(TRUSTED, PASSWORD, OTHER_HOST), "28000");
});

it("a client of the gateway's host has a session: the server would trust it as well", async () => {
  assert.equal(await logIn(TRUSTED, "any"), TRUSTED);
});
