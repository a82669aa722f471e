// The measured system: a primary and two replicas, each in a region of its own, that stream through
// the benchmark's own relay; trackers and a gateway, as the parts request them.
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import type { ServiceProcess } from "@highwater/lab-system";
import { DEFAULT_LEVELS } from "@highwater/protocol";
import { MeasuredServices, ROLE } from "../measured-services.ts";
import { profileEnv } from "../profile.ts";
import { Helper } from "./helper.ts";
import type { RelayOrders } from "./relay-process.ts";

export const PRIMARY = "east";
export const REPLICAS = ["west", "central"] as const;
export const LEVEL = "region";
/**
 * One way. It is long enough that a commit's token reaches its client before the first replica has
 * acknowledged.
 */
const LINK_DELAY_MS = 10;

/** The services' place for the dev cluster: as far from the replicas as the primary is. */
const SERVICES = "services";
/** No server gives up a stream whose acknowledgements are withheld for a while. */
const PATIENT = { wal_sender_timeout: "120s", wal_receiver_timeout: "120s" };

export class BenchSystem implements AsyncDisposable {
  readonly cluster: Cluster;
  readonly relay = new Helper<RelayOrders>(new URL("./relay-process.ts", import.meta.url));
  readonly #services: MeasuredServices;
  readonly #profile: string | undefined;

  private constructor(cluster: Cluster, profile: string | undefined) {
    this.cluster = cluster;
    this.#services = new MeasuredServices(cluster);
    this.#profile = profile;
  }

  /** `profile`: folder for a processor profile of every tracker, written when it stops. */
  static async start(profile?: string): Promise<BenchSystem> {
    const nodes = [PRIMARY, ...REPLICAS].map((id) => ({ id, region: id }));
    const roundTripMs = Object.fromEntries(REPLICAS.map((id) => [`${SERVICES}/${id}`, 2 * LINK_DELAY_MS]));
    const system = new BenchSystem(await startCluster({ nodes, roundTripMs, settings: PATIENT }), profile);
    try {
      await system.#services.prepare(PRIMARY, [
        "CREATE TABLE bench (n int NOT NULL)",
        `GRANT INSERT ON bench TO ${ROLE}`,
      ]);
      await system.#streamThroughRelay();
      return system;
    } catch (cause) {
      await system.close();
      throw cause;
    }
  }

  async #streamThroughRelay(): Promise<void> {
    const primary = this.cluster.nodes.find(({ id }) => id === PRIMARY);
    const target = { port: primary?.port ?? 0, delayMs: LINK_DELAY_MS };
    const port = await this.relay.ask("listen", target);
    for (const id of REPLICAS) {
      const source = `host=127.0.0.1 port=${String(port)} user=postgres application_name=${id} sslmode=disable gssencmode=disable`;
      await this.cluster.query(id, `ALTER SYSTEM SET primary_conninfo = '${source}'`);
      await this.cluster.query(id, "SELECT pg_reload_conf()");
    }
    await eventually("the replicas stream through the relay", async () => {
      const streaming = await this.relay.ask("streaming", undefined);
      return REPLICAS.every((id) => streaming.includes(id));
    });
    await this.cluster.waitForStreaming();
  }

  /** Directly to the primary, with the rights of the gateway's transactions. */
  appUrl(): Promise<string> {
    return this.cluster.connectionString(PRIMARY, { user: ROLE });
  }

  get postmaster(): number {
    return this.postmasterOf(PRIMARY);
  }

  postmasterOf(id: string): number {
    return this.#services.postmaster(id);
  }

  /**
   * Each name has a ledger of its own; one that was used before is opened again. Resolves when an
   * epoch has begun.
   */
  async startTracker(name: string, env: Readonly<Record<string, string>> = {}): Promise<ServiceProcess> {
    return this.#services.start("tracker", name, {
      TRACKER_NAME: name,
      TRACKER_REGION: REPLICAS[0],
      TRACKER_LEDGER: this.#services.fileOf(`${name}.sqlite`),
      HIGHWATER_TOPOLOGY: await this.#topology(),
      ...profileEnv(this.#profile, name),
      ...env,
    });
  }

  /** `trackers`: the addresses to which it announces; it follows the first one's marks. */
  async startGateway(trackers: readonly string[], name = "gateway"): Promise<ServiceProcess> {
    return this.#services.start("gateway", name, {
      GATEWAY_NAME: name,
      GATEWAY_REGION: PRIMARY,
      GATEWAY_TRACKERS: trackers.join(","),
      HIGHWATER_TOPOLOGY: await this.#topology(),
    });
  }

  /** Directly to the primary; to the replicas by links that can be cut. */
  #topology(): Promise<string> {
    return this.#services.topology(DEFAULT_LEVELS, (id) => (id === PRIMARY ? undefined : SERVICES));
  }

  /** Whether the services can ask the replicas, besides what the primary reports about them. */
  async setReplicasReachable(reachable: boolean): Promise<void> {
    for (const id of REPLICAS) {
      const link = this.cluster.link(SERVICES, id);
      await (reachable ? link.heal() : link.cut());
    }
  }

  /** Places the services where the node is. */
  moveServicesTo(id: string): Promise<void> {
    return this.cluster.link(SERVICES, id).setRoundTripMs(0);
  }

  /** Backends of the primary that belong to the service of this name. */
  async backendsOf(name: string): Promise<number[]> {
    const rows = await this.query(
      `SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'highwater:tracker:${name}%'`,
    );
    return rows.map((row) => Number(row["pid"]));
  }

  query(sql: string): ReturnType<Cluster["query"]> {
    return this.cluster.query(PRIMARY, sql);
  }

  /** Ends one service gracefully, so that it writes what it has to. */
  stop(service: ServiceProcess): Promise<void> {
    return this.#services.stop(service);
  }

  async close(): Promise<void> {
    await this.#services[Symbol.asyncDispose]();
    this.relay[Symbol.dispose]();
    await this.cluster.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
