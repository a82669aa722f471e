// What the experiments run on: a primary, a replica behind a link whose round trip can be set, a
// gateway and a tracker beside the primary. Clients are beside the primary too, as in the papers.
// Both sides of a comparison use this one database.
import { readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type Cluster, type Row, startCluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { type ServiceKind, ServiceProcess } from "@highwater/lab-system";
import type { LevelRule } from "@highwater/protocol";
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
export const ROLE = "app";
const START_TIMEOUT_MS = 60_000;
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
/**
 * A hot row that is waited for behind other waits: stock PostgreSQL waits as long as it takes, and
 * so may the gateway.
 */
const GATEWAY_ENV = { GATEWAY_LOCK_TIMEOUT_MS: "60000", GATEWAY_STATEMENT_TIMEOUT_MS: "60000" };

export class ExperimentSystem implements AsyncDisposable {
  readonly #cluster: Cluster;
  readonly #services: ServiceProcess[] = [];
  #isSynchronous = false;
  #roundTripMs = 0;
  #wirePort: number | null = null;

  private constructor(cluster: Cluster) {
    this.#cluster = cluster;
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
      await mkdir(join(cluster.dir, "services"), { recursive: true });
      await system.#makeRole();
      await system.#startServices(profileEnv(options.profile), {
        ...options.gatewayEnv,
        ...(options.withWire === true && (await system.#wireEnv())),
      });
      return system;
    } catch (cause) {
      await system.close();
      throw cause;
    }
  }

  async #makeRole(): Promise<void> {
    await this.execute([
      "CREATE ROLE highwater_app NOLOGIN",
      `CREATE ROLE ${ROLE} LOGIN IN ROLE highwater_app`,
      `GRANT ALL ON SCHEMA public TO ${ROLE}`,
    ]);
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
    const nodes = await Promise.all(
      this.#cluster.nodes.map(async ({ id, region, zone }) => ({
        id,
        region,
        zone,
        url: await this.#cluster.connectionString(id, { from: HERE }),
        appUrl: await this.#cluster.connectionString(id, { from: HERE, user: ROLE }),
      })),
    );
    const topology = JSON.stringify({ nodes, levels: LEVELS });
    const tracker = await this.#startService("tracker", {
      TRACKER_NAME: "tracker",
      TRACKER_REGION: HERE,
      HIGHWATER_TOPOLOGY: topology,
      ...env,
      TRACKER_LEDGER: join(this.#cluster.dir, "services", "ledger.sqlite"),
    });
    const gateway = await this.#startService("gateway", {
      GATEWAY_NAME: "gateway",
      GATEWAY_REGION: HERE,
      HIGHWATER_TOPOLOGY: topology,
      ...env,
      ...GATEWAY_ENV,
      ...gatewayEnv,
      GATEWAY_TRACKERS: tracker.url,
    });
    for (const { name, url } of [tracker, gateway])
      await eventually(`the ${name} is ready`, async () => (await fetch(`${url}/readyz`)).ok);
  }

  async #startService(service: ServiceKind, env: Readonly<Record<string, string>>): Promise<ServiceProcess> {
    const started = await ServiceProcess.start({
      name: service,
      service,
      logFile: join(this.#cluster.dir, "services", `${service}.log`),
      startTimeoutMs: START_TIMEOUT_MS,
      env,
    });
    this.#services.push(started);
    return started;
  }

  /**
   * As seen from beside the primary. Direct clients have the rights that the gateway's transactions
   * have.
   */
  async addresses(): Promise<Addresses> {
    const [tracker, gateway] = this.#services;
    return {
      gateway: gateway?.url ?? "",
      tracker: tracker?.url ?? "",
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

  /** One that no server of the system takes. */
  reservePort(): Promise<number> {
    return this.#cluster.reservePort();
  }

  /** The processes whose time is counted, by what they are. Of a server: its first process. */
  get processes(): {
    readonly services: Record<string, number | undefined>;
    readonly servers: Record<string, number>;
  } {
    const [tracker, gateway] = this.#services;
    return {
      services: { gateway: gateway?.pid, tracker: tracker?.pid },
      servers: { primary: this.#postmaster(PRIMARY), replica: this.#postmaster(REPLICA) },
    };
  }

  #postmaster(id: string): number {
    const dir = this.#cluster.nodes.find((node) => node.id === id)?.dataDir ?? "";
    return Number(readFileSync(join(dir, "postmaster.pid"), "latin1").split("\n")[0]);
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
    await this.execute([
      `ALTER SYSTEM SET synchronous_standby_names = '${on ? REPLICA : ""}'`,
      "SELECT pg_reload_conf()",
    ]);
    await eventually("the replica has taken its new part", async () => {
      const rows = await this.query("SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'");
      return rows.length === 1 && rows[0]?.["sync_state"] === (on ? "sync" : "async");
    });
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
    for (const service of this.#services.splice(0).reverse()) await service.stop();
    await this.#cluster.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
