// What is measured: a primary and one replica without any relay between, a tracker, and gateways.
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import type { ServiceProcess } from "@highwater/lab-system";
import { KEEPING } from "@highwater/lab-system/testing";
import type { LevelRule } from "@highwater/protocol";
import { MeasuredServices, ROLE } from "../measured-services.ts";
import { profileEnv } from "../profile.ts";
import { cpuOf, cpuOfServer } from "../rounds/cpu.ts";
import type { ProcessorTimes } from "../rounds/machine.ts";
import { LEVEL, SETUP, TOTAL } from "./workload.ts";

// One region, because the dev cluster connects regions by a relay, and nodes of one region
// directly.
const REGION = "here";
const PRIMARY = "primary";
const REPLICA = "replica";
const LEVELS: Record<string, LevelRule> = {
  disk: { primary: true },
  [LEVEL]: { replicas: 1, outside: "zone" },
};

export class BenchSystem implements AsyncDisposable {
  readonly #cluster: Cluster;
  readonly #services: MeasuredServices;
  #tracker: ServiceProcess | undefined;

  private constructor(cluster: Cluster) {
    this.#cluster = cluster;
    this.#services = new MeasuredServices(cluster);
  }

  /** `profile`: a folder for profiles of the services' processor time, written when they stop. */
  static async start(profile?: string): Promise<BenchSystem> {
    const cluster = await startCluster({
      nodes: [
        { id: PRIMARY, region: REGION, zone: "a" },
        { id: REPLICA, region: REGION, zone: "b" },
      ],
    });
    const system = new BenchSystem(cluster);
    try {
      await system.#services.prepare(PRIMARY, [...SETUP, `GRANT SELECT, UPDATE ON bench TO ${ROLE}`]);
      system.#tracker = await system.#services.start("tracker", "tracker", {
        TRACKER_NAME: "tracker",
        TRACKER_REGION: REGION,
        TRACKER_LEDGER: system.#services.fileOf("ledger.sqlite"),
        HIGHWATER_TOPOLOGY: await system.#services.topology(LEVELS),
        ...KEEPING,
        ...profileEnv(profile, "tracker"),
      });
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

  /** Of all processes but gateways. */
  get parts(): ProcessorTimes {
    const tracker = this.#tracker;
    const servers = { primary: PRIMARY, replica: REPLICA };
    return {
      tracker: () => cpuOf(tracker?.pid),
      ...Object.fromEntries(
        Object.entries(servers).map(([part, id]) => {
          const postmaster = this.#services.postmaster(id);
          return [part, () => cpuOfServer(postmaster)];
        }),
      ),
    };
  }

  /** Resolves when a transaction can be committed. */
  async startGateway(
    name: string,
    {
      profile,
      env,
    }: { readonly profile?: string | undefined; readonly env?: Readonly<Record<string, string>> } = {},
  ): Promise<ServiceProcess> {
    return this.#services.start("gateway", name, {
      GATEWAY_NAME: name,
      GATEWAY_REGION: REGION,
      GATEWAY_TRACKERS: this.#tracker?.url ?? "",
      HIGHWATER_TOPOLOGY: await this.#services.topology(LEVELS),
      ...KEEPING,
      ...profileEnv(profile, name),
      ...env,
    });
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
