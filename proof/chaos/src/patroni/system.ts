// The whole product beside a real Patroni: a member, a gateway and a tracker in each region, and
// one etcd for all. Owns the processes. Patroni decides which node is the primary, and the services
// find it.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Etcd, PatroniCluster, type PatroniSettings } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { APP_ROLE, SERVICE_ROLE, type ServiceKind, ServiceProcess, systemRoles } from "@highwater/lab-system";
import { type Endpoint } from "../parts.ts";

const START_LIMIT_MS = 90_000;
const READY_LIMIT_MS = 60_000;
const ASK_LIMIT_MS = 1_500;
const SCOPE = "shop";

export const MEMBERS = ["east", "west", "north"] as const;
export type Levels = Readonly<Record<string, unknown>>;

/**
 * Levels whose promises hold for every node that Patroni may promote with its recommended settings.
 */
export const KEPT_LEVELS: Levels = {
  disk: { primary: true },
  region: { synchronous: 1 },
  global: { regions: "all" },
};
/** Levels of a cluster without an HA manager, which count any replica. */
export const ANY_REPLICA_LEVELS: Levels = {
  disk: { primary: true },
  region: { replicas: 1, outside: "region" },
  global: { regions: "all" },
};

export interface PatroniSystemOptions {
  readonly settings: PatroniSettings;
  readonly levels: Levels;
  /** The level for exposure in trackers and gateways. Default: theirs. */
  readonly exposureLevel?: string;
  /** Regions that have services. Default: all. */
  readonly served?: readonly string[];
}

export class PatroniSystem {
  readonly etcd: Etcd;
  readonly patroni: PatroniCluster;
  readonly regions: readonly string[];
  readonly levels: readonly string[];
  readonly #options: PatroniSystemOptions;
  readonly #services = new Map<string, ServiceProcess>();

  private constructor(etcd: Etcd, patroni: PatroniCluster, options: PatroniSystemOptions) {
    this.etcd = etcd;
    this.patroni = patroni;
    this.regions = options.served ?? MEMBERS;
    this.levels = Object.keys(options.levels);
    this.#options = options;
  }

  static async start(options: PatroniSystemOptions): Promise<PatroniSystem> {
    const etcd = await Etcd.start();
    try {
      const { settings } = options;
      const patroni = await PatroniCluster.start({ etcd, scope: SCOPE, members: MEMBERS, settings });
      const system = new PatroniSystem(etcd, patroni, options);
      try {
        await mkdir(system.logs);
        for (const sql of systemRoles([])) await patroni.query((await patroni.leader()) ?? "", sql);
        await Promise.all(system.regions.map((region) => system.#start(region, "tracker")));
        await Promise.all(system.regions.map((region) => system.#start(region, "gateway")));
        await system.ready();
        return system;
      } catch (cause) {
        await system.close();
        throw cause;
      }
    } catch (cause) {
      await etcd.close();
      throw cause;
    }
  }

  get logs(): string {
    return join(this.patroni.dir, "services");
  }

  service(region: string, which: ServiceKind): ServiceProcess {
    const found = this.#services.get(`${which}-${region}`);
    if (found === undefined) throw new Error(`there is no ${which} in ${region}`);
    return found;
  }

  /** The own region first. */
  endpoints(from: string): Endpoint[] {
    const order = [from, ...this.regions.filter((region) => region !== from)];
    return order.map((region) => ({
      region,
      gateway: this.service(region, "gateway").url,
      tracker: this.service(region, "tracker").url,
    }));
  }

  /** Keeps its address and its data on disk. */
  async restart(region: string, which: ServiceKind): Promise<void> {
    const old = this.service(region, which);
    await old.stop();
    await this.#start(region, which, old.port);
  }

  /** Resumes stopped services and starts dead ones. */
  async revive(): Promise<void> {
    for (const region of this.regions)
      for (const which of ["tracker", "gateway"] as const) {
        const { pid, running } = this.service(region, which);
        if (running && pid !== undefined) process.kill(pid, "SIGCONT");
        else await this.restart(region, which);
      }
  }

  /** Waits until every service reports that it is ready. Resolves with the primary. */
  async ready(): Promise<string> {
    await this.patroni.settled();
    return eventually(
      "every service is ready and follows the leader",
      async () => {
        const leader = await this.patroni.leader();
        const answers = await Promise.all([...this.#services.values()].map(({ url }) => readiness(url)));
        const isReady = answers.every(
          ({ ok, primary }) => ok && (primary === undefined || primary === leader),
        );
        return isReady && leader;
      },
      READY_LIMIT_MS,
    );
  }

  async close(): Promise<void> {
    const running = [...this.#services.values()].filter((service) => service.running);
    for (const { pid } of running) if (pid !== undefined) process.kill(pid, "SIGCONT");
    await Promise.all(running.map((service) => service.stop()));
    await this.patroni.close();
    await this.etcd.close();
  }

  async #start(region: string, which: ServiceKind, port = 0): Promise<void> {
    const { patroni, etcd } = this;
    const nodes = MEMBERS.map((id) => ({
      id,
      region: id,
      zone: `${id}-a`,
      url: patroni.connectionString(id, SERVICE_ROLE),
      appUrl: patroni.connectionString(id, APP_ROLE),
    }));
    const prefix = which.toUpperCase();
    const trackers = [region, ...this.regions.filter((other) => other !== region)];
    const { levels, exposureLevel } = this.#options;
    const own: Record<string, string> =
      which === "tracker"
        ? {
            TRACKER_LEDGER: join(this.logs, `ledger-${region}.sqlite`),
            // Shorter than in production, so that the limits apply within a run of minutes.
            TRACKER_PUBLISH_PATIENCE_MS: "1000",
            TRACKER_INTENT_PATIENCE_MS: "20000",
          }
        : { GATEWAY_TRACKERS: trackers.map((other) => this.service(other, "tracker").url).join(",") };
    const started = await ServiceProcess.start({
      name: `${which}-${region}`,
      service: which,
      logFile: join(this.logs, `${which}-${region}.log`),
      startTimeoutMs: START_LIMIT_MS,
      env: {
        [`${prefix}_NAME`]: region,
        [`${prefix}_REGION`]: region,
        [`${prefix}_PORT`]: String(port),
        HIGHWATER_TOPOLOGY: JSON.stringify({ nodes, levels }),
        HIGHWATER_AUTHORITY: "lease",
        HIGHWATER_LEASE_ETCD: etcd.url,
        HIGHWATER_LEASE_SCOPE: SCOPE,
        ...(exposureLevel === undefined ? {} : { [`${prefix}_EXPOSURE_LEVEL`]: exposureLevel }),
        ...own,
      },
    });
    this.#services.set(`${which}-${region}`, started);
  }
}

async function readiness(url: string): Promise<{
  readonly ok: boolean;
  /** Set for a tracker. */
  readonly primary?: string;
  /** Levels that wait for the HA manager, with the reason. */
  readonly waiting?: Readonly<Record<string, string>>;
}> {
  try {
    const response = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(ASK_LIMIT_MS) });
    const body = (await response.json()) as { primary?: string; waiting?: Record<string, string> };
    return { ...body, ok: response.ok };
  } catch {
    return { ok: false };
  }
}
