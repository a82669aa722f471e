// What stands for RDS: the dev cluster with the parameters of the rendered groups, a master user with the rights that RDS gives
// it, and on every node a certificate for the very name under which services know it. Only the cluster's own superuser gets in
// without TLS and a password.
import { chown, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import pg from "pg";
import { type Authority, makeAuthority } from "@highwater/lab-tools/process/certificate";
import { type Rendered, type RenderedDatabase } from "../rendered.ts";

/** As the dev cluster has it between its own regions. */
const ROUND_TRIPS_MS = { "us-east-1/us-west-2": 62, "us-east-1/eu-west-1": 76, "us-west-2/eu-west-1": 138 };
/** What the dev cluster itself needs, and then what the parameter `rds.force_ssl` and its neighbours mean. */
const HBA = `host all postgres 127.0.0.0/8 trust
host replication postgres 127.0.0.0/8 trust
hostssl all all 127.0.0.0/8 scram-sha-256
`;
const RELOAD_LIMIT_MS = 60_000;

export class Databases {
  readonly cluster: Cluster;
  /** The region whose node is the primary at first. */
  readonly home: string;
  readonly authority: Authority;
  readonly #rendered: Rendered;
  readonly #masterPassword: string;

  private constructor(cluster: Cluster, rendered: Rendered, home: string, masterPassword: string) {
    this.cluster = cluster;
    this.home = home;
    this.authority = makeAuthority("Highwater's stand-in for RDS");
    this.#rendered = rendered;
    this.#masterPassword = masterPassword;
  }

  static async start(rendered: Rendered, masterPassword: string): Promise<Databases> {
    const regions = Object.entries(rendered.regions);
    const primaries = regions.filter(([, { database }]) => !database.isReplica).map(([region]) => region);
    const [home = ""] = primaries;
    if (primaries.length !== 1)
      throw new Error(`there should be one primary, not ${String(primaries.length)}`);
    const order = [home, ...regions.map(([region]) => region).filter((region) => region !== home)];
    const settings = order.map((region) => stockParameters(rendered.regions[region]?.database));
    if (new Set(settings.map((each) => JSON.stringify(each))).size !== 1)
      throw new Error("the nodes' parameters differ: each may have to be the primary");
    const cluster = await startCluster({
      nodes: order.map((region) => ({ id: region, region })),
      settings: settings[0] ?? {},
      roundTripMs: ROUND_TRIPS_MS,
    });
    const databases = new Databases(cluster, rendered, home, masterPassword);
    try {
      await databases.#makeMaster();
      for (const region of order) await databases.secure(region);
      return databases;
    } catch (cause) {
      await cluster.close();
      throw cause;
    }
  }

  /** Its certificate, and who may come in; to be done again for a node that was made anew. */
  async secure(region: string): Promise<void> {
    const { cluster, authority } = this;
    const node = cluster.nodes.find(({ id }) => id === region);
    if (node === undefined) throw new Error(`there is no node ${region}`);
    const { certificate, key } = authority.issue(this.#database(region).host);
    const { uid, gid } = await stat(node.dataDir);
    for (const [name, text] of Object.entries({
      "server.crt": certificate,
      "server.key": key,
      "pg_hba.conf": HBA,
    })) {
      const file = join(node.dataDir, name);
      await writeFile(file, text, { mode: 0o600 });
      await chown(file, uid, gid);
    }
    await cluster.query(region, "ALTER SYSTEM SET ssl = on");
    await cluster.query(region, "SELECT pg_reload_conf()");
    await eventually(
      `${region}: the server takes up its certificate`,
      async () => (await cluster.query(region, "SHOW ssl"))[0]?.["ssl"] === "on",
      RELOAD_LIMIT_MS,
    );
  }

  #database(region: string): RenderedDatabase {
    const found = this.#rendered.regions[region]?.database;
    if (found === undefined) throw new Error(`there is no region ${region}`);
    return found;
  }

  /** As RDS makes it: no superuser, but it may make roles, pass on what RDS's own role has, and owns the database. */
  async #makeMaster(): Promise<void> {
    const { user, database } = this.#database(this.home);
    if (user === null || database === null) throw new Error("the primary has neither a user nor a database");
    const [master, name] = [pg.escapeIdentifier(user), pg.escapeIdentifier(database)];
    const statements = [
      `CREATE ROLE ${master} LOGIN CREATEROLE CREATEDB NOSUPERUSER PASSWORD ${pg.escapeLiteral(this.#masterPassword)}`,
      `GRANT pg_monitor, pg_signal_backend TO ${master} WITH ADMIN OPTION`,
      ...(database === "app" ? [] : [`CREATE DATABASE ${name}`]),
      `ALTER DATABASE ${name} OWNER TO ${master}`,
    ];
    for (const statement of statements) await this.cluster.query(this.home, statement);
  }
}

function stockParameters(database: RenderedDatabase | undefined): Record<string, string> {
  return Object.fromEntries(
    Object.entries(database?.parameters ?? {}).filter(([name]) => !name.startsWith("rds.")),
  );
}
