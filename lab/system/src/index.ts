// The whole product on one machine: a dev cluster with a gateway and a tracker in every region,
// each a real process, and all connections between regions through the cluster's delayed links. For
// demos, tests and experiments; never for production.
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Cluster, type ClusterOptions, startCluster } from "@highwater/lab-cluster";
import type { EdgeGateway } from "@highwater/edge";
import { DEFAULT_LEVELS, type Topology } from "@highwater/protocol";
import { protectStatements } from "@highwater/store";
import { createKey, type KeyOptions, revokeKey } from "./api-keys.ts";
import { EDGE_ADDRESS, type EdgeChanges, edgeNode, type EdgePorts, RegionEdge } from "./edge.ts";
import { APP_ROLE, DATABASE, ownRoleStatement, SERVICE_ROLE, systemRoles } from "./roles.ts";
import { type ServiceKind, type ServiceOptions, ServiceProcess } from "./service-process.ts";

export { type Cluster } from "@highwater/lab-cluster";
export { type KeyOptions, ownRole } from "./api-keys.ts";
export { programFile } from "./bundle.ts";
export { type EdgeChanges, RegionEdge } from "./edge.ts";
export { type TrackerView, trackerViews } from "./tracker-views.ts";
export { APP_ROLE, SERVICE_ROLE, systemRoles } from "./roles.ts";
export { type ServiceKind, ServiceProcess } from "./service-process.ts";

export interface SystemOptions {
  readonly cluster?: ClusterOptions;
  readonly levels?: Topology["levels"];
  /** Additional environment of every service. */
  readonly env?: Readonly<Record<string, string>>;
  /** The first of the services' fixed ports. Default: free ports. */
  readonly portBase?: number;
  /** Trackers reach the nodes over links of their own, from trackerLocation(), which can be cut. */
  readonly hasTrackerLinks?: boolean;
  /** The same for gateways, from gatewayLocation(). */
  readonly hasGatewayLinks?: boolean;
  /**
   * Trackers log in with their own roles, trackerRole(), which become the services' role, so that
   * one can be refused alone.
   */
  readonly hasTrackerRoles?: boolean;
  /** Trackers ask every replica itself, instead of using the primary's view of its streams. */
  readonly asksReplicas?: boolean;
}

/** Where a region's tracker is, for links: `cluster.link(trackerLocation(region), region)`. */
export function trackerLocation(region: string): string {
  return `tracker-${region}`;
}

export function gatewayLocation(region: string): string {
  return `gateway-${region}`;
}

export function trackerRole(region: string): string {
  return `tracker_${region.replaceAll("-", "_")}`;
}

export interface Endpoint {
  readonly region: string;
  readonly gateway: string;
  readonly tracker: string;
  /** The port for PostgreSQL clients. */
  readonly postgres?: string;
}

interface GatewayPlace {
  readonly region: string;
  readonly port: number;
  readonly postgresPort: number;
  readonly postgresReadPort: number;
}

interface Region {
  gateway: ServiceProcess;
  tracker: ServiceProcess;
  /** Gateways in addition to the first. */
  readonly moreGateways: ServiceProcess[];
  edge?: { now: RegionEdge; readonly changes: EdgeChanges };
}

/** A busy machine starts slowly. */
const START_TIMEOUT_MS = 180_000;
const READY_TIMEOUT_MS = 180_000;
const ASK_LIMIT_MS = 5_000;
const POLL_MS = 50;

export class System implements AsyncDisposable {
  readonly cluster: Cluster;
  readonly regions: readonly string[];
  readonly #options: SystemOptions;
  readonly #services = new Map<string, Region>();
  /** All processes that were started, including ended ones. */
  readonly #processes: ServiceProcess[] = [];
  readonly #relays = new Map<string, Promise<string>>();
  /** By gateway name: its region, and its ports, which it keeps. */
  readonly #gateways = new Map<string, GatewayPlace>();
  #administered: Promise<void> = Promise.resolve();

  private constructor(cluster: Cluster, options: SystemOptions) {
    this.cluster = cluster;
    this.#options = options;
    this.regions = [...new Set(cluster.nodes.map((node) => node.region))];
  }

  /** Starts everything; resolves when a transaction can be committed through every gateway. */
  static async start(options: SystemOptions = {}): Promise<System> {
    const cluster = await startCluster(options.cluster);
    const system = new System(cluster, options);
    try {
      await system.#administer(
        systemRoles(options.hasTrackerRoles === true ? system.regions.map(trackerRole) : []),
      );
      await mkdir(join(cluster.dir, "services"), { recursive: true });
      for (const region of system.regions) await system.#place(region, region);
      const trackers = await allStarted(system.regions.map((region, at) => system.#startTracker(region, at)));
      const gateways = await allStarted(
        system.regions.map((region) => system.#startGateway(region, trackers)),
      );
      for (const [at, region] of system.regions.entries()) {
        const [tracker, gateway] = [trackers[at], gateways[at]];
        if (tracker !== undefined && gateway !== undefined)
          system.#services.set(region, { tracker, gateway, moreGateways: [] });
      }
      await system.ready();
      return system;
    } catch (cause) {
      await system.close();
      throw cause;
    }
  }

  gateway(region: string): ServiceProcess {
    return this.#of(region).gateway;
  }

  tracker(region: string): ServiceProcess {
    return this.#of(region).tracker;
  }

  /** All gateways of the region, the first one first. */
  gateways(region: string): readonly ServiceProcess[] {
    const { gateway, moreGateways } = this.#of(region);
    return [gateway, ...moreGateways];
  }

  /** Every tracker, or every gateway. */
  services(which: ServiceKind): ServiceProcess[] {
    return this.regions.flatMap((region) =>
      which === "tracker" ? [this.tracker(region)] : this.gateways(region),
    );
  }

  /**
   * Adds a gateway to the region, with its own name, that knows all others; they do not know it.
   * Resolves when it is ready.
   */
  async addGateway(region: string): Promise<ServiceProcess> {
    const { moreGateways } = this.#of(region);
    const name = `${region}-${String(moreGateways.length + 2)}`;
    const trackers = this.regions.map((each) => this.#of(each).tracker);
    await this.#place(name, region);
    const gateway = await this.#startGateway(name, trackers);
    moreGateways.push(gateway);
    await this.ready();
    return gateway;
  }

  /**
   * For PostgreSQL clients: the URL of the gateway with this name, the region's or an added one's.
   */
  pgUrl(gateway: string, role = APP_ROLE): string {
    return pgUrl(this.#gateways.get(gateway)?.postgresPort, gateway, role);
  }

  /** The same for reads, at the replica of the gateway's region if there is one. */
  pgReadUrl(gateway: string, role = APP_ROLE): string {
    return pgUrl(this.#gateways.get(gateway)?.postgresReadPort, gateway, role);
  }

  /** For PostgreSQL clients, through the region's edge, which has to run. */
  edgePgUrl(region: string, role = APP_ROLE): string {
    return pgUrl(this.edge(region)?.ports.postgresPort, `edge of ${region}`, role);
  }

  edgePgReadUrl(region: string, role = APP_ROLE): string {
    return pgUrl(this.edge(region)?.ports.postgresReadPort, `edge of ${region}`, role);
  }

  /** The region's edge, if one was started. */
  edge(region: string): RegionEdge | undefined {
    return this.#of(region).edge?.now;
  }

  /**
   * Starts an Envoy in front of the region, for all services that there are now. It is stopped with
   * the system.
   */
  async startEdge(region: string, changes: EdgeChanges = {}): Promise<RegionEdge> {
    const at = this.regions.indexOf(region);
    const services = this.#of(region);
    const order = [region, ...this.regions.filter((each) => each !== region)];
    const regions = await Promise.all(
      order.map(async (name) => {
        const { gateway, tracker, moreGateways } = this.#of(name);
        return {
          name,
          gateways: await Promise.all(
            [gateway, ...moreGateways].map((each) => this.#edgeGateway(region, name, each)),
          ),
          trackers: [edgeNode(nameOf(tracker), await this.#reach(region, name, tracker))],
        };
      }),
    );
    const ports: EdgePorts = services.edge?.now.ports ?? {
      port: await this.#port(at, 3),
      postgresPort: await this.#port(at, 6),
      postgresReadPort: await this.#port(at, 7),
    };
    await services.edge?.now.stop();
    const now = await RegionEdge.start(
      {
        folder: join(this.cluster.dir, "services", `edge-${region}`),
        // Kept short, because a socket's path has a small limit.
        adminSocket: join(this.cluster.dir, `edge-${region}.sock`),
        ports,
        regions,
      },
      changes,
    );
    services.edge = { now, changes };
    return now;
  }

  async #edgeGateway(from: string, to: string, gateway: ServiceProcess): Promise<EdgeGateway> {
    const name = nameOf(gateway);
    const postgres = async (url: string): Promise<number> => {
      const port = Number(new URL(url).port);
      return Number(new URL(await this.#reach(from, to, { url, port }, EDGE_ADDRESS)).port);
    };
    return {
      ...edgeNode(name, await this.#reach(from, to, gateway)),
      postgresPort: await postgres(this.pgUrl(name)),
      postgresReadPort: await postgres(this.pgReadUrl(name)),
    };
  }

  #of(region: string): Region {
    const found = this.#services.get(region);
    if (found === undefined) throw new Error(`there is no region ${region}`);
    return found;
  }

  /**
   * The file with nodes and levels for the region's services, which also notice later changes of
   * it.
   */
  topologyFile(region: string): string {
    return join(this.cluster.dir, "services", `topology-${region}.json`);
  }

  /**
   * Gives the running services of a region other levels. A restarted service has those of the
   * system's options again.
   */
  async changeLevels(region: string, levels: Topology["levels"]): Promise<void> {
    const file = this.topologyFile(region);
    for (const path of [file, `${file}.tracker`].filter(existsSync)) {
      const topology = JSON.parse(await readFile(path, "utf8")) as Topology;
      await writeFile(path, JSON.stringify({ ...topology, levels }, null, 2));
    }
  }

  /** Makes an API key, for a system whose services run with `GATEWAY_AUTH` and `TRACKER_AUTH`. */
  async createKey(options: KeyOptions): Promise<string> {
    if (options.role === undefined) await this.#administer([ownRoleStatement(options)]);
    // Now a reader's role exists, and only a superuser can revoke from PUBLIC what it must not do.
    if (!options.scopes.includes("write")) await this.#administer(protectStatements(SERVICE_ROLE));
    return createKey(this.topologyFile(this.regions[0] ?? ""), options);
  }

  revokeKey(key: string): Promise<void> {
    return revokeKey(this.topologyFile(this.regions[0] ?? ""), key);
  }

  /**
   * The addresses of all gateways as a place sees them, each with its region's tracker, own region
   * first. Links to others are delayed and can be cut.
   */
  async endpoints(from: string): Promise<Endpoint[]> {
    const order = [from, ...this.regions.filter((region) => region !== from)].filter((region) =>
      this.#services.has(region),
    );
    return Promise.all(
      order.flatMap((region) =>
        this.gateways(region).map(async (gateway) => ({
          region,
          gateway: await this.#reach(from, region, gateway),
          tracker: await this.#reach(from, region, this.tracker(region)),
          postgres: await this.#reachPostgres(from, region, nameOf(gateway)),
        })),
      ),
    );
  }

  async #reachPostgres(from: string, to: string, gateway: string): Promise<string> {
    const url = new URL(this.pgUrl(gateway));
    const reached = await this.#reach(from, to, { url: url.href, port: Number(url.port) });
    url.port = new URL(reached).port;
    return url.href;
  }

  /** `localAddress`: from which a relay connects to the service. */
  async #reach(
    from: string,
    to: string,
    service: Pick<ServiceProcess, "url" | "port">,
    localAddress?: string,
  ): Promise<string> {
    if (from === to) return service.url;
    const key = `${from}>${to}:${String(service.port)} ${localAddress ?? ""}`;
    let relay = this.#relays.get(key);
    if (relay === undefined) {
      relay = this.cluster
        .relay({ from, to, port: service.port, ...(localAddress !== undefined && { localAddress }) })
        .then(({ port }) => `${new URL(service.url).protocol}//127.0.0.1:${String(port)}`);
      this.#relays.set(key, relay);
    }
    return relay;
  }

  /** Waits until every running gateway reports that it can commit. */
  async ready(): Promise<void> {
    const deadline = performance.now() + READY_TIMEOUT_MS;
    for (const { gateway, tracker, moreGateways } of this.#services.values()) {
      for (const service of [tracker, gateway, ...moreGateways]) {
        while (service.running && !(await isReady(service.url))) {
          if (performance.now() > deadline)
            throw await service.failure(`is not ready within ${String(READY_TIMEOUT_MS)} ms`);
          await new Promise((resolve) => setTimeout(resolve, POLL_MS));
        }
      }
    }
  }

  /** Kills a whole region at once: its nodes, gateways, tracker and edge. */
  async killRegion(region: string): Promise<void> {
    const { tracker, edge } = this.#of(region);
    const nodes = this.cluster.nodes.filter((node) => node.region === region);
    await Promise.all([
      ...this.gateways(region).map((gateway) => gateway.kill()),
      ...[tracker.kill(), edge?.now.stop()],
      ...nodes.map((node) => this.cluster.kill(node.id)),
    ]);
  }

  /**
   * Brings a lost region back: nodes as fresh copies of the primary, services with their data on
   * disk. Resolves when its nodes stream and its services have started. Rejects at once if the
   * link to the primary is cut: they could not follow it.
   */
  async reviveRegion(region: string): Promise<void> {
    for (const { state, region: other } of await this.cluster.status())
      if (state === "primary" && other !== region && (await this.cluster.link(region, other).isCut()))
        throw new Error(`${region} is cut off from the primary in ${other}: heal the links first`);
    const nodes = this.cluster.nodes.filter((node) => node.region === region).map((node) => node.id);
    await Promise.all([
      Promise.all(nodes.map((id) => this.cluster.rejoin(id))).then(() =>
        this.cluster.waitForStreaming(nodes),
      ),
      // The tracker first, because the gateway announces to it.
      this.restartService(region, "tracker").then(() => this.restartService(region, "gateway")),
    ]);
    const { edge, moreGateways } = this.#of(region);
    // Added gateways do not come back, so the edge must not look for them.
    moreGateways.splice(0, Infinity, ...moreGateways.filter((gateway) => gateway.running));
    if (edge !== undefined) await this.startEdge(region, edge.changes);
  }

  /** Restarts the region's gateway or tracker, at the same address and with its data on disk. */
  restartService(region: string, which: ServiceKind): Promise<void> {
    return this.restart(this.#of(region)[which]);
  }

  /** The same for any service of the system, also an added gateway. */
  async restart(service: ServiceProcess): Promise<void> {
    const found = [...this.#services].find(([region, { tracker }]) =>
      [tracker, ...this.gateways(region)].includes(service),
    );
    if (found === undefined) throw new Error(`${service.name} is no service of the system`);
    const [region, services] = found;
    await service.stop();
    if (service === services.tracker) {
      const at = this.regions.indexOf(region);
      services.tracker = await this.#startTracker(region, at, service.port);
      return;
    }
    const trackers = this.regions.map((name) => this.#of(name).tracker);
    const started = await this.#startGateway(nameOf(service), trackers);
    if (service === services.gateway) services.gateway = started;
    else services.moreGateways.splice(services.moreGateways.indexOf(service), 1, started);
  }

  async close(): Promise<void> {
    const regions = [...this.#services.values()];
    await Promise.all(regions.map(async ({ edge }) => edge?.now.stop()));
    const running = this.#processes.filter((service) => service.running);
    await Promise.all(running.map((service) => service.stop()));
    await this.cluster.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /**
   * Runs statements as superuser on the first primary. One after another, because concurrent
   * changes of a function's rights fail.
   */
  #administer(statements: readonly string[]): Promise<void> {
    const [primary] = this.cluster.nodes;
    const turn = this.#administered.then(async () => {
      for (const statement of statements) await this.cluster.query(primary?.id ?? "", statement);
    });
    this.#administered = turn.catch(() => undefined);
    return turn;
  }

  async #topologyFile(region: string, isTracker = false): Promise<string> {
    const { hasTrackerLinks, hasGatewayLinks, hasTrackerRoles } = this.#options;
    const hasOwnLink = (isTracker ? hasTrackerLinks : hasGatewayLinks) === true;
    const location = isTracker ? trackerLocation(region) : gatewayLocation(region);
    const reach = (url: string): Promise<string> =>
      hasOwnLink ? this.#overLink(location, region, url) : Promise.resolve(url);
    const hasOwnRole = isTracker && hasTrackerRoles === true;
    const user = hasOwnRole ? trackerRole(region) : SERVICE_ROLE;
    const nodes = await Promise.all(
      this.cluster.nodes.map(async (node) => ({
        id: node.id,
        region: node.region,
        zone: node.zone,
        url: await reach(await this.cluster.connectionString(node.id, { from: region, user })),
        appUrl: await reach(await this.cluster.connectionString(node.id, { from: region, user: APP_ROLE })),
        ...(this.#options.asksReplicas === true && { replication: { ask: true as const } }),
      })),
    );
    const topology: Topology = { nodes, levels: this.#options.levels ?? DEFAULT_LEVELS };
    const isOwn = isTracker && (hasOwnLink || hasOwnRole);
    const file = isOwn ? `${this.topologyFile(region)}.tracker` : this.topologyFile(region);
    await writeFile(file, JSON.stringify(topology, null, 2));
    return file;
  }

  async #overLink(from: string, region: string, url: string): Promise<string> {
    const reached = new URL(url);
    const relay = await this.#reach(from, region, { url, port: Number(reached.port) });
    reached.port = new URL(relay).port;
    return reached.href;
  }

  /**
   * A port that the service keeps while it is down, because others may call it and it may start
   * again.
   */
  async #port(at: number, offset: number): Promise<number> {
    const { portBase } = this.#options;
    return portBase === undefined ? this.cluster.reservePort() : portBase + 10 * at + offset;
  }

  async #start(options: Omit<ServiceOptions, "logFile" | "startTimeoutMs">): Promise<ServiceProcess> {
    const clock = await this.cluster.clocks?.environment(options.name);
    const started = await ServiceProcess.start({
      ...options,
      env: { ...options.env, ...clock },
      logFile: join(this.cluster.dir, "services", `${options.name}.log`),
      startTimeoutMs: START_TIMEOUT_MS,
    });
    this.#processes.push(started);
    return started;
  }

  async #startTracker(region: string, at: number, port?: number): Promise<ServiceProcess> {
    // Its own region's first.
    const gateways = [
      ...(await this.#gatewaysSeenFrom(region, ({ region: to }) => to === region)),
      ...(await this.#gatewaysSeenFrom(region, ({ region: to }) => to !== region)),
    ];
    return this.#start({
      name: `tracker-${region}`,
      service: "tracker",
      env: {
        TRACKER_NAME: region,
        TRACKER_REGION: region,
        TRACKER_PORT: String(port ?? (await this.#port(at, 1))),
        TRACKER_LEDGER: join(this.cluster.dir, "services", `ledger-${region}.sqlite`),
        TRACKER_GATEWAYS: gateways.join(","),
        HIGHWATER_TOPOLOGY: `@${await this.#topologyFile(region, true)}`,
        ...this.#options.env,
      },
    });
  }

  /** Reserves the ports of a gateway. */
  async #place(name: string, region: string): Promise<void> {
    const at = this.regions.indexOf(region);
    const port = (offset: number): Promise<number> =>
      name === region ? this.#port(at, offset) : this.cluster.reservePort();
    const [main, postgresPort, postgresReadPort] = [await port(0), await port(4), await port(5)];
    this.#gateways.set(name, { region, port: main, postgresPort, postgresReadPort });
  }

  /** URLs of gateways, as the services of a region reach them. */
  #gatewaysSeenFrom(
    region: string,
    isWanted: (place: GatewayPlace, name: string) => boolean,
  ): Promise<string[]> {
    const scheme = this.#options.env?.["HIGHWATER_TLS_CERTIFICATE"] === undefined ? "http" : "https";
    const wanted = [...this.#gateways].filter(([name, place]) => isWanted(place, name));
    return Promise.all(
      wanted.map(([, { region: to, port }]) =>
        this.#reach(region, to, { url: `${scheme}://127.0.0.1:${String(port)}`, port }),
      ),
    );
  }

  async #startGateway(name: string, trackers: readonly ServiceProcess[]): Promise<ServiceProcess> {
    const place = this.#gateways.get(name);
    if (place === undefined) throw new Error(`the gateway ${name} has no ports`);
    const { region, port, postgresPort, postgresReadPort } = place;
    const order = [this.regions.indexOf(region), ...this.regions.keys()].filter(
      (index, position, all) => all.indexOf(index) === position,
    );
    const urls = await Promise.all(
      order.map(async (index) => {
        const [tracker, to] = [trackers[index], this.regions[index]];
        return tracker === undefined || to === undefined ? "" : this.#reach(region, to, tracker);
      }),
    );
    return this.#start({
      name: `gateway-${name}`,
      service: "gateway",
      env: {
        GATEWAY_NAME: name,
        GATEWAY_REGION: region,
        GATEWAY_PORT: String(port),
        GATEWAY_PG_PORT: String(postgresPort),
        GATEWAY_PG_READ_PORT: String(postgresReadPort),
        GATEWAY_PG_PROXIES: EDGE_ADDRESS,
        GATEWAY_PEERS: (await this.#gatewaysSeenFrom(region, (_, other) => other !== name)).join(","),
        GATEWAY_TRACKERS: urls.filter((url) => url !== "").join(","),
        HIGHWATER_TOPOLOGY: `@${await this.#topologyFile(region)}`,
        ...this.#options.env,
      },
    });
  }
}

/** As GATEWAY_NAME and TRACKER_NAME. */
function nameOf({ name }: ServiceProcess): string {
  return name.replace(/^(gateway|tracker)-/, "");
}

function pgUrl(port: number | undefined, place: string, role: string): string {
  if (port === undefined) throw new Error(`no PostgreSQL port: ${place}`);
  return `postgresql://${role}@127.0.0.1:${String(port)}/${DATABASE}`;
}

/**
 * Waits for all, so that started ones can be stopped. Errors: one error with the messages of all
 * failures.
 */
async function allStarted(starting: readonly Promise<ServiceProcess>[]): Promise<ServiceProcess[]> {
  const ended = await Promise.allSettled(starting);
  const faults = ended.flatMap((each) => (each.status === "rejected" ? [each.reason as Error] : []));
  if (faults.length > 0) throw new Error(faults.map(({ message }) => message).join("\n"));
  return Promise.all(starting);
}

async function isReady(url: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(ASK_LIMIT_MS) });
    await response.arrayBuffer();
    return response.ok;
  } catch {
    return false;
  }
}
