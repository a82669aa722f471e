// The real system of three regions as a site that tests can break and repair. It knows which node
// is the primary, what is down, and how a client reaches each service. Every client stands outside
// the regions, so its links to them can be cut separately.
import {
  trackerViews,
  type Endpoint,
  type TrackerView,
  type ServiceProcess,
  System,
} from "@highwater/lab-system";

/**
 * The clients' locations: requests and streams use different links, so that either can be cut
 * alone.
 */
const CLIENT = { gateway: "client", tracker: "client-streams" } as const;
const STREAMING_LIMIT_MS = 60_000;
const AGREED_LIMIT_MS = 60_000;
/** The level to wait for where a scenario names none. */
const LEVEL = "region";
const POLL_MS = 20;

/** Trackers judge ended epochs soon. */
const ENVIRONMENT = {
  GATEWAY_IDLE_TIMEOUT_MS: "20000",
  TRACKER_PUBLISH_PATIENCE_MS: "300",
};

export type ServiceName = "gateway" | "tracker";

export interface Description {
  /** The primary's region first, as in a client's list. */
  readonly endpoints: readonly Endpoint[];
  readonly regions: readonly string[];
  /** The database node that is the primary; each region has one, of the region's name. */
  readonly primary: string;
  /** The primary's address, as superuser. */
  readonly database: string;
  /** The wire of the gateway in the primary's region, for role `app`. */
  readonly wire: string;
}

export class Site implements AsyncDisposable {
  readonly system: System;
  #primary: string;
  readonly #dead = new Set<string>();
  /** Nodes that are down in a region that is up. */
  readonly #deadNodes = new Set<string>();
  readonly #pausedPids = new Set<number>();

  private constructor(system: System) {
    this.system = system;
    this.#primary = system.regions[0] ?? "";
  }

  static async start(env: Readonly<Record<string, string>> = {}): Promise<Site> {
    return new Site(await System.start({ env: { ...ENVIRONMENT, ...env } }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#continueAll();
    await this.system.close();
  }

  get regions(): readonly string[] {
    return this.system.regions;
  }

  get primary(): string {
    return this.#primary;
  }

  get #others(): string[] {
    return this.regions.filter((region) => region !== this.#primary);
  }

  /**
   * A region by its name, or as `primary`, `replica 1` or `replica 2`: a test need not know where
   * the primary is.
   */
  region(name: string): string {
    const [first = "", second = ""] = this.#others;
    const roles: Readonly<Record<string, string>> = {
      primary: this.#primary,
      "replica 1": first,
      "replica 2": second,
    };
    const region = roles[name] ?? name;
    if (!this.regions.includes(region)) throw new Error(`there is no region ${name}`);
    return region;
  }

  async describe(): Promise<Description> {
    const [gateways, trackers] = await Promise.all([
      this.system.endpoints(CLIENT.gateway),
      this.system.endpoints(CLIENT.tracker),
    ]);
    const endpoints = [this.#primary, ...this.#others].map((region) => ({
      region,
      gateway: gateways.find((each) => each.region === region)?.gateway ?? "",
      tracker: trackers.find((each) => each.region === region)?.tracker ?? "",
    }));
    const database = await this.system.cluster.connectionString(this.#primary);
    const wire = this.system.pgUrl(this.#primary);
    return { endpoints, regions: this.regions, primary: this.#primary, database, wire };
  }

  query(sql: string, node = this.#primary): Promise<Readonly<Record<string, unknown>>[]> {
    return this.system.cluster.query(node, sql);
  }

  /**
   * From now on nothing leaves the primary's region for these regions; clients reach all of them as
   * before.
   */
  async hold(regions: readonly string[] = this.#others): Promise<void> {
    for (const region of regions) await this.system.cluster.link(this.#primary, region).cut();
  }

  /**
   * The primary's region is lost, and the most advanced replica (or the named one) is promoted:
   * commits that were held are lost. With `alone` the other replica is down as well, so that a
   * promise that it kept is broken. Every tracker must have seen the promise before then, because a
   * promise that only one tracker published goes with its region.
   * Resolves when gateways commit again, and every tracker that runs follows the new primary.
   */
  async failover(options: { to?: string; alone?: boolean } = {}): Promise<void> {
    const { cluster } = this.system;
    const old = this.#primary;
    if (options.alone === true) await this.#isObserved();
    await this.system.killRegion(old);
    this.#dead.add(old);
    const left = this.regions.filter((region) => !this.#dead.has(region));
    const to = options.to ?? (await cluster.mostAdvancedReplica(left));
    if (options.alone === true)
      for (const node of left.filter((each) => each !== to)) {
        await cluster.kill(node);
        this.#deadNodes.add(node);
      }
    if (this.#deadNodes.delete(to)) await cluster.start(to);
    await cluster.promote(to, { reason: "a test" });
    this.#primary = to;
    await this.system.ready();
    await this.#isFollowed();
  }

  /** The database of a region is down; its services continue with the others. */
  async crash(region: string): Promise<void> {
    await this.system.cluster.kill(region);
    this.#deadNodes.add(region);
  }

  /**
   * Waits until every tracker publishes at least the current mark of the primary's tracker. At
   * other levels only one of them may have seen a last mark. Rejects if the primary's tracker
   * publishes no mark: its promises are unknown then.
   */
  async #isObserved(): Promise<void> {
    const primary = this.#primary;
    const mark = await this.#markOf(primary);
    await this.#trackersAgree(
      `the mark of ${LEVEL}`,
      ({ node, marks }) => node === primary && (marks?.[LEVEL] ?? -1n) >= mark,
    );
  }

  /**
   * Waits for a tracker that is not ready yet; one that was stopped or paused will not answer by
   * itself.
   */
  async #markOf(region: string): Promise<bigint> {
    const about = `the mark of ${LEVEL} by the tracker of ${region}`;
    const deadlineMs = performance.now() + AGREED_LIMIT_MS;
    for (;;) {
      if (!this.#isAwake(region))
        throw new Error(`${about} is not known: it was stopped or paused; start or continue it first`);
      const [view] = await trackerViews(this.system, [region]);
      const mark = view?.node === this.#primary ? view.marks?.[LEVEL] : undefined;
      if (mark !== undefined) return mark;
      if (performance.now() > deadlineMs)
        throw await this.system
          .tracker(region)
          .failure(`does not say the mark of ${LEVEL} within ${String(AGREED_LIMIT_MS)} ms`);
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  /** Whether the region's tracker can answer. */
  #isAwake(region: string): boolean {
    const { running, pid } = this.system.tracker(region);
    return running && pid !== undefined && !this.#pausedPids.has(pid);
  }

  async #isFollowed(): Promise<void> {
    const primary = this.#primary;
    await this.#trackersAgree(`the reign of ${primary}`, ({ node }) => node === primary);
  }

  /**
   * Resolves when the view of each tracker that can answer passes; rejects at the limit, naming the
   * regions whose views do not.
   */
  async #trackersAgree(about: string, passes: (view: TrackerView) => boolean): Promise<void> {
    const awake = this.regions.filter((region) => this.#isAwake(region));
    const deadlineMs = performance.now() + AGREED_LIMIT_MS;
    for (;;) {
      const others = (await trackerViews(this.system, awake)).filter((view) => !passes(view));
      if (others.length === 0) return;
      const regions = others.map(({ region }) => region).join(", ");
      if (performance.now() > deadlineMs) throw new Error(`${about}: not known in ${regions}`);
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  /**
   * A clean restart of the primary: a new epoch that loses nothing. Gateways find it by themselves.
   */
  async restart(): Promise<void> {
    await this.system.cluster.restart(this.#primary);
  }

  async stopService(region: string, service: ServiceName): Promise<void> {
    await this.#service(region, service).kill();
  }

  async startService(region: string, service: ServiceName): Promise<void> {
    if (!this.#service(region, service).running) await this.system.restartService(region, service);
  }

  /** The service keeps its place and its open connections, and sends nothing. */
  pauseService(region: string, service: ServiceName): void {
    const { pid } = this.#service(region, service);
    if (pid === undefined) throw new Error(`the ${service} of ${region} has no process`);
    process.kill(pid, "SIGSTOP");
    this.#pausedPids.add(pid);
  }

  continueService(region: string, service: ServiceName): void {
    const { pid } = this.#service(region, service);
    if (pid === undefined || !this.#pausedPids.delete(pid)) return;
    process.kill(pid, "SIGCONT");
  }

  /**
   * The clients' link to a service: `reset` ends its connections and refuses new ones, `blackhole`
   * drops what is sent.
   */
  async cutClients(region: string, service: ServiceName, mode: "reset" | "blackhole"): Promise<void> {
    await this.system.cluster.link(CLIENT[service], region).cut({ mode });
  }

  async healClients(region: string, service: ServiceName): Promise<void> {
    await this.system.cluster.link(CLIENT[service], region).heal();
  }

  /** Heals every link. */
  async heal(): Promise<void> {
    await this.system.cluster.healAll();
  }

  /** Restores the state of the start, except for the data and for which node is the primary. */
  async mend(): Promise<void> {
    this.#continueAll();
    await this.heal();
    for (const region of [...this.#dead]) {
      await this.system.reviveRegion(region);
      this.#dead.delete(region);
    }
    for (const node of [...this.#deadNodes]) {
      await this.system.cluster.rejoin(node);
      this.#deadNodes.delete(node);
    }
    for (const region of this.regions)
      for (const service of ["tracker", "gateway"] as const) await this.startService(region, service);
    await this.system.cluster.waitForStreaming(undefined, { timeoutMs: STREAMING_LIMIT_MS });
    await this.system.ready();
  }

  #continueAll(): void {
    for (const pid of this.#pausedPids) {
      try {
        process.kill(pid, "SIGCONT");
      } catch {
        // It was killed meanwhile.
      }
    }
    this.#pausedPids.clear();
  }

  #service(region: string, service: ServiceName): ServiceProcess {
    return service === "gateway" ? this.system.gateway(region) : this.system.tracker(region);
  }
}
