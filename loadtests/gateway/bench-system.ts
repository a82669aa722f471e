// What is measured: a primary and one replica without any relay between, a gateway, and later
// another one with a tracker.
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import type { ServiceProcess } from "@highwater/lab-system";
import type { LevelRule } from "@highwater/protocol";
import { MeasuredServices, ROLE } from "../measured-services.ts";
import { profileEnv } from "../profile.ts";
import { SETUP, TOTAL } from "./workload.ts";

// One region, because the dev cluster connects regions by a relay, and nodes of one region
// directly.
const REGION = "here";
const PRIMARY = "primary";
const REPLICA = "replica";
const LEVELS: Record<string, LevelRule> = { disk: { primary: true }, zone: { replicas: 1, outside: "zone" } };

export class BenchSystem implements AsyncDisposable {
  readonly #cluster: Cluster;
  readonly #services: MeasuredServices;

  private constructor(cluster: Cluster) {
    this.#cluster = cluster;
    this.#services = new MeasuredServices(cluster);
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
      await system.#services.prepare(PRIMARY, [...SETUP, `GRANT SELECT, UPDATE ON bench TO ${ROLE}`]);
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
    return this.#services.postmaster(PRIMARY);
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
    const tracker = withTracker ? (await this.startTracker()).url : (options.tracker ?? "");
    return this.#services.start("gateway", name, {
      GATEWAY_NAME: name,
      GATEWAY_REGION: REGION,
      GATEWAY_TRACKERS: tracker,
      HIGHWATER_TOPOLOGY: await this.#services.topology(LEVELS),
      ...profileEnv(profile),
      ...env,
    });
  }

  async startTracker(): Promise<ServiceProcess> {
    return this.#services.start("tracker", "tracker", {
      TRACKER_NAME: "tracker",
      TRACKER_REGION: REGION,
      TRACKER_LEDGER: this.#services.fileOf("ledger.sqlite"),
      HIGHWATER_TOPOLOGY: await this.#services.topology(LEVELS),
    });
  }

  /** Whether commits with `synchronous_commit=on` wait for the replica. */
  setSynchronous(on: boolean): Promise<void> {
    return this.#services.setSynchronous(PRIMARY, REPLICA, on);
  }

  /** How many transactions have changed the table. */
  async total(): Promise<number> {
    return Number((await this.#cluster.query(PRIMARY, TOTAL))[0]?.["total"]);
  }

  /** Ends one service, so that it can write down what it has to. */
  stop(service: ServiceProcess): Promise<void> {
    return this.#services.stop(service);
  }

  async close(): Promise<void> {
    await this.#services[Symbol.asyncDispose]();
    await this.#cluster.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
