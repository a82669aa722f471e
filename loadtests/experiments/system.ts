// What the experiments run on: a primary, a replica behind a link whose round trip can be set, a
// gateway and a tracker beside the primary. Clients are beside the primary too, as in the papers.
// Both sides of a comparison use this one database.
import { chmod } from "node:fs/promises";
import { type Cluster, type Row, startCluster } from "@highwater/lab-cluster";
import { PgBouncer } from "@highwater/lab-tools/postgres";
import { eventually, TemporaryFolder } from "@highwater/lab-tools/process";
import type { ServiceProcess } from "@highwater/lab-system";
import type { LevelRule } from "@highwater/protocol";
import { MeasuredServices, ROLE } from "../measured-services.ts";
import { profileEnv } from "../profile.ts";
import type { Addresses } from "./load/target.ts";

const HERE = "here";
const THERE = "there";
const PRIMARY = "primary";
const REPLICA = "replica";
/** Covers the loss of the place where the primary is: what a synchronous replica is for. */
export const LEVEL = "region";
export const DISK = "disk";
const LEVELS: Record<string, LevelRule> = {
  [DISK]: { primary: true },
  [LEVEL]: { replicas: 1, outside: "region" },
};
/** What 128 direct clients, the gateway's sessions and the services' own need. */
const SETTINGS = {
  max_connections: "300",
  shared_buffers: "256MB",
  max_wal_size: "4GB",
  // A checkpoint in the middle of one side's turn would be that side's bad luck.
  checkpoint_timeout: "1h",
  // What PostgreSQL's manual advises for serializable transactions (13.2.3): a sequential scan
  // locks its whole table against all others.
  random_page_cost: "1.0",
  cpu_tuple_cost: "0.05",
  max_pred_locks_per_transaction: "512",
  max_pred_locks_per_page: "32",
};
const POOLED_CLIENTS_MAX = 200;
/**
 * A hot row that is waited for behind other waits: stock PostgreSQL waits as long as it takes, and
 * so may the gateway.
 */
const GATEWAY_ENV = { GATEWAY_LOCK_TIMEOUT_MS: "60000", GATEWAY_STATEMENT_TIMEOUT_MS: "60000" };

export class ExperimentSystem implements AsyncDisposable {
  readonly #cluster: Cluster;
  readonly #services: MeasuredServices;
  #tracker: ServiceProcess | undefined;
  #gateway: ServiceProcess | undefined;
  #farGateway: ServiceProcess | undefined;
  /** Of PgBouncer. */
  #folder: TemporaryFolder | undefined;
  #roleSettings: Readonly<Record<string, string>> = {};
  #isSynchronous = false;
  #roundTripMs = 0;
  #wirePort: number | null = null;

  private constructor(cluster: Cluster) {
    this.#cluster = cluster;
    this.#services = new MeasuredServices(cluster);
  }

  /**
   * `profile`: a folder for profiles of the processor time of both services, written when they
   * stop.
   */
  static async start(
    options: {
      readonly profile?: string | undefined;
      readonly gatewayEnv?: Readonly<Record<string, string>> | undefined;
      /** The gateway also listens for clients of PostgreSQL, at `wireUrl()`. */
      readonly withWire?: boolean;
      /** Beside the replica there is a gateway, too. */
      readonly withFarGateway?: boolean | undefined;
      /** More of every server's settings. */
      readonly settings?: Readonly<Record<string, string>>;
    } = {},
  ): Promise<ExperimentSystem> {
    const cluster = await startCluster({
      nodes: [
        { id: PRIMARY, region: HERE },
        { id: REPLICA, region: THERE },
      ],
      roundTripMs: { [`${HERE}/${THERE}`]: 0 },
      settings: { ...SETTINGS, ...options.settings },
    });
    const system = new ExperimentSystem(cluster);
    try {
      await system.#services.prepare(PRIMARY, [`GRANT ALL ON SCHEMA public TO ${ROLE}`]);
      await system.#startServices(profileEnv(options.profile), {
        ...options.gatewayEnv,
        ...(options.withWire === true && (await system.#wireEnv())),
      });
      if (options.withFarGateway === true) await system.#startFarGateway(options.gatewayEnv ?? {});
      return system;
    } catch (cause) {
      await system.close();
      throw cause;
    }
  }

  /** The servers trust everybody here, and the gateway leaves the question to them. */
  async #wireEnv(): Promise<Record<string, string>> {
    this.#wirePort = await this.#cluster.reservePort();
    return { GATEWAY_PG_PORT: String(this.#wirePort), GATEWAY_PG_AUTH: "passthrough" };
  }

  async #startServices(
    env: Readonly<Record<string, string>>,
    gatewayEnv: Readonly<Record<string, string>>,
  ): Promise<void> {
    const topology = await this.#services.topology(LEVELS, () => HERE);
    this.#tracker = await this.#services.start("tracker", "tracker", {
      TRACKER_NAME: "tracker",
      TRACKER_REGION: HERE,
      HIGHWATER_TOPOLOGY: topology,
      ...env,
      TRACKER_LEDGER: this.#services.fileOf("ledger.sqlite"),
    });
    this.#gateway = await this.#services.start("gateway", "gateway", {
      GATEWAY_NAME: "gateway",
      GATEWAY_REGION: HERE,
      HIGHWATER_TOPOLOGY: topology,
      ...env,
      ...GATEWAY_ENV,
      ...gatewayEnv,
      GATEWAY_TRACKERS: this.#tracker.url,
    });
  }

  async #startFarGateway(env: Readonly<Record<string, string>>): Promise<void> {
    this.#farGateway = await this.#services.start("gateway", "gateway-far", {
      GATEWAY_NAME: "gateway-far",
      GATEWAY_REGION: THERE,
      HIGHWATER_TOPOLOGY: await this.#services.topology(LEVELS, () => THERE),
      ...GATEWAY_ENV,
      ...env,
      GATEWAY_TRACKERS: this.#tracker?.url ?? "",
    });
  }

  /**
   * As seen from beside the primary. Direct clients have the rights that the gateway's transactions
   * have.
   */
  async addresses(): Promise<Addresses> {
    return {
      gateway: this.#gateway?.url ?? "",
      farGateway: this.#farGateway?.url ?? "",
      pgbouncer: "",
      tracker: this.#tracker?.url ?? "",
      database: await this.#cluster.connectionString(PRIMARY, { user: ROLE }),
      level: LEVEL,
    };
  }

  /** Of the gateway's listener for clients of PostgreSQL. */
  async wireUrl(): Promise<string> {
    if (this.#wirePort === null) throw new Error("the gateway was started without a port for PostgreSQL");
    const url = new URL((await this.addresses()).database);
    url.port = String(this.#wirePort);
    return url.href;
  }

  /** In transaction mode, to the primary; the caller stops it. */
  async startPgBouncer(poolSize: number): Promise<PgBouncer> {
    if (this.#folder === undefined) {
      this.#folder = await TemporaryFolder.make("highwater-pgbouncer-");
      // Root's PgBouncer goes on as somebody else.
      await chmod(this.#folder.path, 0o755);
    }
    const port = await this.#cluster.reservePort();
    const { database } = await this.addresses();
    return PgBouncer.start({
      folder: this.#folder.path,
      port,
      database,
      poolSize,
      clients: POOLED_CLIENTS_MAX,
    });
  }

  /** The processes whose time is counted, by what they are. Of a server: its first process. */
  get processes(): {
    readonly services: Record<string, number | undefined>;
    readonly servers: Record<string, number>;
  } {
    return {
      services: {
        gateway: this.#gateway?.pid,
        ...(this.#farGateway !== undefined && { far_gateway: this.#farGateway.pid }),
        tracker: this.#tracker?.pid,
      },
      servers: {
        primary: this.#services.postmaster(PRIMARY),
        replica: this.#services.postmaster(REPLICA),
      },
    };
  }

  /** Of the link between the primary and its replica. */
  async setRoundTripMs(ms: number): Promise<void> {
    if (ms === this.#roundTripMs) return;
    this.#roundTripMs = ms;
    await this.#cluster.link(HERE, THERE).setRoundTripMs(ms);
  }

  /**
   * Whether commits with `synchronous_commit=on` wait for the replica. Highwater is measured
   * without.
   */
  async setSynchronous(on: boolean): Promise<void> {
    if (on === this.#isSynchronous) return;
    this.#isSynchronous = on;
    await this.#services.setSynchronous(PRIMARY, REPLICA, on);
  }

  /** Settings that sessions of direct clients begin with. */
  async setRole(settings: Readonly<Record<string, string>>): Promise<void> {
    for (const [name, value] of Object.entries(settings))
      if (this.#roleSettings[name] !== value)
        // Without the replica's answer, which may not come soon.
        await this.query(`SET synchronous_commit TO local; ALTER ROLE ${ROLE} SET ${name} = '${value}'`);
    this.#roleSettings = { ...this.#roleSettings, ...settings };
  }

  /**
   * Until the replica has all that the primary has: what one measurement has left is not the next
   * one's business.
   */
  async settle(): Promise<void> {
    const rows = await this.query("SELECT pg_current_wal_flush_lsn()::text AS lsn");
    const lsn = String(rows[0]?.["lsn"]);
    await eventually("the replica has caught up", async () => {
      const [row] = await this.query("SELECT replay_lsn >= $1::pg_lsn AS done FROM pg_stat_replication", [
        lsn,
      ]);
      return row?.["done"] === true;
    });
  }

  /** Tables that applications may use, whichever way they come. */
  async createTables(statements: readonly string[], names: readonly string[]): Promise<void> {
    await this.execute([
      ...statements,
      `GRANT ALL ON ${names.join(", ")} TO ${ROLE}`,
      ...names.map((name) => `VACUUM ANALYZE ${name}`),
      "CHECKPOINT",
    ]);
    await this.settle();
  }

  async execute(statements: readonly string[]): Promise<void> {
    for (const statement of statements) await this.query(statement);
  }

  /** Of a superuser, straight to the primary. */
  adminUrl(): Promise<string> {
    return this.#cluster.connectionString(PRIMARY);
  }

  /** As superuser, past everything that is measured. */
  query(sql: string, params?: readonly unknown[]): Promise<Row[]> {
    return this.#cluster.query(PRIMARY, sql, params);
  }

  async close(): Promise<void> {
    await this.#services[Symbol.asyncDispose]();
    await this.#cluster.close();
    await this.#folder?.remove();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
