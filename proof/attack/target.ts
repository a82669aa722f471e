// The attacked system: three regions as `make up` starts them, with API keys, login roles with
// passwords, and two tenants. The operator's own connection checks the effect of attacks and takes
// no part in them.
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client } from "pg";
import { demandPasswords } from "@highwater/lab-cluster";
import { System } from "@highwater/lab-system";
import { KEEPING } from "@highwater/lab-system/testing";
import { eventually } from "@highwater/lab-tools/process";
import { placeOf, RawSession } from "../wire/session.ts";
import { Caller } from "./caller.ts";

interface Login {
  readonly role: string;
  readonly password: string;
}

/** Tenant acme has a read key and a write key; tenant crane has a write key. */
const READER: Login = { role: "acme_read", password: "acme reads" };
const WRITER: Login = { role: "acme_write", password: "acme writes" };
const OTHER: Login = { role: "crane_write", password: "crane writes" };
const LOGINS = [READER, WRITER, OTHER];

export class Target implements AsyncDisposable {
  readonly system: System;
  readonly primary: string;
  /** Acme's read key. */
  readonly reader: Caller;
  /** Acme's write key. */
  readonly writer: Caller;
  /** Crane's write key: the victim. */
  readonly other: Caller;

  private constructor(system: System, keys: { reader: string; writer: string; other: string }) {
    this.system = system;
    this.primary = system.cluster.nodes[0]?.id ?? "";
    this.reader = this.callerWith(keys.reader);
    this.writer = this.callerWith(keys.writer);
    this.other = this.callerWith(keys.other);
  }

  callerWith(key: string): Caller {
    const { regions } = this.system;
    const gateways = regions.map((region) => this.system.gateway(region).url);
    const trackers = regions.map((region) => this.system.tracker(region).url);
    return new Caller({ key, gateways, trackers });
  }

  /** Another write key of the tenant. */
  async keyOf(owner: "acme" | "crane", scopes: readonly string[]): Promise<Caller> {
    const name = `${owner}: ${scopes.join(", ")}`;
    return this.callerWith(await this.system.createKey({ name, owner, role: `${owner}_write`, scopes }));
  }

  /** Opens a session on the PostgreSQL port of the primary's region. Errors: the log-in's. */
  openSession(
    role: string,
    password: string,
    parameters: Readonly<Record<string, string>> = {},
  ): Promise<RawSession> {
    const place = placeOf(this.system.pgUrl(this.system.regions[0] ?? "", role));
    return RawSession.open({ ...place, password }, parameters);
  }

  static async start(): Promise<Target> {
    const passwords = Object.fromEntries(LOGINS.map(({ role, password }) => [role, password]));
    const system = await System.start({
      env: {
        GATEWAY_AUTH: "keys",
        // Long enough that a slow machine ends no attack and no victim.
        GATEWAY_IDLE_TIMEOUT_MS: "120000",
        GATEWAY_TOTAL_TIMEOUT_MS: "120000",
        TRACKER_AUTH: "keys",
        HIGHWATER_INTERNAL_SECRET: "a secret of the attacked cluster",
        ...KEEPING,
        GATEWAY_ROLE_PASSWORDS: JSON.stringify(passwords),
      },
    });
    try {
      await createRoles(system);
      const roles = LOGINS.map(({ role }) => role);
      for (const { id } of system.cluster.nodes) await demandPasswords(system.cluster, id, roles);
      const [reader = "", writer = "", other = ""] = await Promise.all([
        system.createKey({ name: "reader", owner: "acme", role: READER.role, scopes: ["read"] }),
        system.createKey({ name: "writer", owner: "acme", role: WRITER.role, scopes: ["read", "write"] }),
        system.createKey({ name: "other", owner: "crane", role: OTHER.role, scopes: ["read", "write"] }),
      ]);
      const target = new Target(system, { reader, writer, other });
      await target.other.mustCommit("CREATE TABLE crane.orders (id text PRIMARY KEY, item text)");
      await target.writer.mustCommit("CREATE TABLE acme.orders (id text PRIMARY KEY, item text)");
      await target.writer.mustCommit("GRANT SELECT ON acme.orders TO acme_read");
      return target;
    } catch (cause) {
      await system.close();
      throw cause;
    }
  }

  /** After a failover it is another than `primary`. */
  async primaryNow(): Promise<string> {
    const nodes = await this.system.cluster.status();
    return nodes.find(({ state }) => state === "primary")?.id ?? "";
  }

  /** Reads the database as its superuser. */
  look(sql: string, node = this.primary): Promise<Record<string, unknown>[]> {
    return this.system.cluster.query(node, sql);
  }

  async count(sql: string): Promise<number> {
    const [row] = await this.look(`SELECT count(*)::int AS n FROM (${sql}) counted`);
    return Number(row?.["n"]);
  }

  /** A plain SQL session with one of acme's roles, without services: a stranger with psql. */
  async psql(role: "reader" | "writer", node = this.primary): Promise<Client> {
    const { role: user, password } = role === "reader" ? READER : WRITER;
    const url = new URL(await this.system.cluster.connectionString(node, { user }));
    url.password = encodeURIComponent(password);
    const client = new Client({ connectionString: url.href });
    client.on("error", () => undefined);
    await client.connect();
    return client;
  }

  /** Runs the operator's command `keys`. Rejects when it fails. */
  async keysCommand(...args: string[]): Promise<string> {
    const command = join(import.meta.dirname, "../../services/txn-gateway/src/cli/keys/main.ts");
    const topology = this.system.topologyFile(this.system.regions[0] ?? "");
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ["--disable-warning=ExperimentalWarning", command, ...args],
      { env: { ...process.env, HIGHWATER_TOPOLOGY: `@${topology}` } },
    );
    return stdout;
  }

  /** The sum of a metric over all trackers. */
  async trackerMetric(name: string): Promise<number> {
    let sum = 0;
    for (const region of this.system.regions) {
      const text = await (await fetch(`${this.system.tracker(region).url}/metrics`)).text();
      for (const line of text.split("\n"))
        if (new RegExp(`^${name}(?:\\{[^}]*\\})? `).test(line)) sum += Number(line.split(" ").at(-1));
    }
    return sum;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.system.close();
  }
}

async function createRoles({ cluster }: System): Promise<void> {
  const [primary] = cluster.nodes;
  const password = (text: string): string => `'${text.replaceAll("'", "''")}'`;
  const statements = [
    `CREATE ROLE ${READER.role} LOGIN IN ROLE highwater_read PASSWORD ${password(READER.password)}`,
    ...[WRITER, OTHER].map(
      (login) => `CREATE ROLE ${login.role} LOGIN IN ROLE highwater_app PASSWORD ${password(login.password)}`,
    ),
    `CREATE SCHEMA acme AUTHORIZATION ${WRITER.role}`,
    `CREATE SCHEMA crane AUTHORIZATION ${OTHER.role}`,
    `GRANT USAGE ON SCHEMA acme TO ${READER.role}`,
  ];
  for (const sql of statements) await cluster.query(primary?.id ?? "", sql);
  // A replica that has not replayed the roles yet refuses every password.
  for (const { id } of cluster.nodes)
    await eventually(`${id} has the roles`, async () => {
      const [row] = await cluster.query(id, "SELECT FROM pg_namespace WHERE nspname = 'crane'");
      return row !== undefined;
    });
}
