// What is measured: a primary and one replica without any relay between, a gateway, and later
// another one with a tracker.
import { readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { type ServiceKind, ServiceProcess } from "@highwater/lab-system";
import type { LevelRule } from "@highwater/protocol";
import { profileEnv } from "../profile.ts";
import { SETUP, TOTAL } from "./workload.ts";

// One region, because the dev cluster connects regions by a relay, and nodes of one region
// directly.
const REGION = "here";
const PRIMARY = "primary";
const REPLICA = "replica";
const LEVELS: Record<string, LevelRule> = { disk: { primary: true }, zone: { replicas: 1, outside: "zone" } };
const ROLE = "app";
const START_TIMEOUT_MS = 60_000;

export class BenchSystem implements AsyncDisposable {
  readonly #cluster: Cluster;
  readonly #services: ServiceProcess[] = [];

  private constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  static async start(): Promise<BenchSystem> {
    const cluster = await startCluster({
      nodes: [
        { id: PRIMARY, region: REGION, zone: "a" },
        { id: REPLICA, region: REGION, zone: "b" },
      ],
    });
    const system = new BenchSystem(cluster);
    try {
      await mkdir(join(cluster.dir, "services"), { recursive: true });
      for (const statement of [
        "CREATE ROLE highwater_app NOLOGIN",
        `CREATE ROLE ${ROLE} LOGIN IN ROLE highwater_app`,
        ...SETUP,
        `GRANT SELECT, UPDATE ON bench TO ${ROLE}`,
      ])
        await system.#query(statement);
      return system;
    } catch (cause) {
      await system.close();
      throw cause;
    }
  }

  /** Straight to the primary, and with the rights that the gateway's transactions have. */
  appUrl(): Promise<string> {
    return this.#cluster.connectionString(PRIMARY, { user: ROLE });
  }

  get postmaster(): number {
    const dir = this.#cluster.nodes.find((node) => node.id === PRIMARY)?.dataDir ?? "";
    return Number(readFileSync(join(dir, "postmaster.pid"), "latin1").split("\n")[0]);
  }

  /** Resolves when a transaction can be committed. */
  async startGateway(options: {
    readonly name: string;
    readonly withTracker: boolean;
    /** Of one that runs already, instead. */
    readonly tracker?: string;
    /** Folder for a profile of its processor time, written when it stops. */
    readonly profile?: string;
    readonly env?: Readonly<Record<string, string>>;
  }): Promise<ServiceProcess> {
    const { name, withTracker, profile, env } = options;
    const topology = await this.#topology();
    const tracker = withTracker ? await this.startTracker(topology) : null;
    const gateway = await this.#startService("gateway", name, {
      GATEWAY_NAME: name,
      GATEWAY_REGION: REGION,
      GATEWAY_TRACKERS: tracker?.url ?? options.tracker ?? "",
      HIGHWATER_TOPOLOGY: topology,
      ...profileEnv(profile),
      ...env,
    });
    await eventually("the gateway is ready", async () => (await fetch(`${gateway.url}/readyz`)).ok);
    return gateway;
  }

  async startTracker(topology?: string): Promise<ServiceProcess> {
    return this.#startService("tracker", "tracker", {
      TRACKER_NAME: "tracker",
      TRACKER_REGION: REGION,
      TRACKER_LEDGER: join(this.#cluster.dir, "services", "ledger.sqlite"),
      HIGHWATER_TOPOLOGY: topology ?? (await this.#topology()),
    });
  }

  async #startService(
    service: ServiceKind,
    name: string,
    env: Readonly<Record<string, string>>,
  ): Promise<ServiceProcess> {
    const started = await ServiceProcess.start({
      name,
      service,
      logFile: join(this.#cluster.dir, "services", `${name}.log`),
      startTimeoutMs: START_TIMEOUT_MS,
      env,
    });
    this.#services.push(started);
    return started;
  }

  async #topology(): Promise<string> {
    const nodes = await Promise.all(
      this.#cluster.nodes.map(async ({ id, region, zone }) => ({
        id,
        region,
        zone,
        url: await this.#cluster.connectionString(id),
        appUrl: await this.#cluster.connectionString(id, { user: ROLE }),
      })),
    );
    return JSON.stringify({ nodes, levels: LEVELS });
  }

  /** Whether commits with `synchronous_commit=on` wait for the replica. */
  async setSynchronous(on: boolean): Promise<void> {
    await this.#query(`ALTER SYSTEM SET synchronous_standby_names = '${on ? REPLICA : ""}'`);
    await this.#query("SELECT pg_reload_conf()");
    await eventually("the replica has taken its new part", async () => {
      const rows = await this.#query("SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'");
      return rows.length === 1 && rows[0]?.["sync_state"] === (on ? "sync" : "async");
    });
  }

  /** How many transactions have changed the table. */
  async total(): Promise<number> {
    return Number((await this.#query(TOTAL))[0]?.["total"]);
  }

  #query(sql: string): ReturnType<Cluster["query"]> {
    return this.#cluster.query(PRIMARY, sql);
  }

  /** Ends one service, so that it can write down what it has to. */
  async stop(service: ServiceProcess): Promise<void> {
    this.#services.splice(this.#services.indexOf(service), 1);
    await service.stop();
  }

  async close(): Promise<void> {
    for (const service of this.#services.splice(0).reverse()) await service.stop();
    await this.#cluster.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
