// Samples every process, every ledger and the store's tables once a second.
import { fileMib, readEstablished, sampleHeap, sampleProcess, sampleServer } from "./host-sample.ts";
import { Recorder } from "./recorder.ts";
import type { SoakSystem } from "./soak-system.ts";
import type { ServiceProcess } from "@highwater/lab-system";

const EVERY_MS = 1_000;
const CALL_LIMIT_MS = 900;
const MEBIBYTE = 1_048_576;

const SESSIONS = `SELECT pg_is_in_recovery() AS is_replica, coalesce(json_object_agg(service, sessions), '{}') AS sessions
FROM (SELECT CASE split_part(application_name, ':', 2) WHEN 'tracker' THEN 'tracker-' || split_part(application_name, ':', 3)
    ELSE 'gateway-' || split_part(application_name, ':', 2) END AS service, count(*) AS sessions
  FROM pg_stat_activity WHERE application_name LIKE 'highwater:%' GROUP BY 1) AS by_service`;

const STORE = `SELECT
  (SELECT count(*) FROM highwater.receipt)::float8 AS receipts,
  (SELECT json_agg(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'highwater.receipt'::regclass) AS partitions,
  (SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'highwater.receipt'::regclass)::float8 AS receipt_bytes,
  (SELECT count(*) FROM highwater.event)::float8 AS events,
  pg_total_relation_size('highwater.event')::float8 AS event_bytes,
  (SELECT expired_n FROM highwater.event_counter)::float8 AS expired_event,
  (SELECT count(*) FROM highwater.webhook_delivery)::float8 AS deliveries,
  (SELECT count(*) FROM highwater.webhook_delivery WHERE status = 'pending')::float8 AS queued,
  (SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'pg_catalog'::regnamespace)::float8 AS catalog_bytes,
  (SELECT count(*) FROM highwater.epoch)::float8 AS epochs`;

/** The job library's table, which exists once the first tracker has opened the queue. */
const JOBS = "SELECT count(*)::float8 AS jobs FROM highwater_jobs.job";

interface StoreRow {
  readonly receipts: number;
  readonly partitions: readonly string[];
  readonly receipt_bytes: number;
  readonly events: number;
  readonly event_bytes: number;
  readonly expired_event: number;
  readonly deliveries: number;
  readonly queued: number;
  readonly catalog_bytes: number;
  readonly epochs: number;
}

export class Sampler {
  readonly recorder = new Recorder();
  readonly #soak: SoakSystem;
  readonly #stop = new AbortController();
  readonly #lives = new Map<string, { pid: number; life: number }>();
  readonly #partitionsSeen = new Set<string>();
  #partitions: readonly string[] = [];
  #eventsExpired = false;
  #running: Promise<void> = Promise.resolve();

  constructor(soak: SoakSystem) {
    this.#soak = soak;
  }

  /** Partitions of receipts that have existed and are dropped now. */
  get partitionsDropped(): number {
    return [...this.#partitionsSeen].filter((name) => !this.#partitions.includes(name)).length;
  }

  get eventsExpired(): boolean {
    return this.#eventsExpired;
  }

  start(): void {
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const nextMs = performance.now() + EVERY_MS;
      await this.sample();
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, nextMs - performance.now())));
    }
  }

  async sample(): Promise<void> {
    const { system } = this.#soak;
    const established = readEstablished();
    for (const service of this.#soak.services()) this.#sampleService(service, established);
    for (const region of system.regions)
      this.recorder.add("ledgerMib", region, fileMib(this.#soak.ledgerFile(region)));
    this.#sampleServers();
    await Promise.all([
      ...system.regions.flatMap((region) => [
        this.#readMetrics(system.tracker(region), "entries", region, "highwater_ledger_entries"),
        this.#readMetrics(
          system.gateway(region),
          "announcements",
          region,
          "highwater_gateway_announcement_queue_length",
        ),
      ]),
      this.#sampleStore(),
    ]);
  }

  #sampleService(service: ServiceProcess, established: ReadonlyMap<string, number>): void {
    const { name, pid, port } = service;
    if (pid === undefined || !service.running) return;
    const life = this.#lifeOf(name, pid);
    const process = sampleProcess(pid, port, established);
    const held = sampleHeap(this.#soak.heapDir, pid);
    this.recorder.add("resident", name, process?.residentMib, life);
    this.recorder.add("descriptors", name, process?.descriptors, life);
    this.recorder.add("sockets", name, process?.sockets, life);
    this.recorder.add("clients", name, process?.clients, life);
    this.recorder.add("heap", name, held === null ? null : held.heapBytes / MEBIBYTE, life);
    this.recorder.add("external", name, held === null ? null : held.externalBytes / MEBIBYTE, life);
  }

  #lifeOf(name: string, pid: number): number {
    const known = this.#lives.get(name);
    if (known?.pid === pid) return known.life;
    const life = known === undefined ? 0 : known.life + 1;
    this.#lives.set(name, { pid, life });
    return life;
  }

  /** All servers together, because the sessions move with the primary. */
  #sampleServers(): void {
    const samples = this.#soak.cluster.nodes.map(({ dataDir }) => sampleServer(dataDir));
    const all = samples.filter((sample) => sample !== null);
    if (all.length < samples.length) return;
    const sum = (of: (sample: (typeof all)[number]) => number): number =>
      all.reduce((total, sample) => total + of(sample), 0);
    this.recorder.add(
      "serverMemory",
      "all servers",
      sum(({ privateMib }) => privateMib),
    );
    this.recorder.add(
      "serverDescriptors",
      "all servers",
      sum(({ descriptors }) => descriptors),
    );
  }

  /** Adds up all labels. */
  async #readMetrics(
    service: ServiceProcess,
    metric: "entries" | "announcements",
    line: string,
    name: string,
  ): Promise<void> {
    try {
      const answer = await fetch(`${service.url}/metrics`, { signal: AbortSignal.timeout(CALL_LIMIT_MS) });
      const values = (await answer.text())
        .split("\n")
        .filter((text) => text.startsWith(`${name} `) || text.startsWith(`${name}{`))
        .map((text) => Number(text.slice(text.lastIndexOf(" "))));
      if (values.length === 0) throw new Error(`${service.name} has no metric ${name}`);
      this.recorder.add(
        metric,
        line,
        values.reduce((sum, value) => sum + value, 0),
      );
    } catch (cause) {
      if (service.running && cause instanceof Error && cause.message.includes("has no metric")) throw cause;
    }
  }

  /** A server that is down gives no values. */
  async #sampleStore(): Promise<void> {
    const { cluster } = this.#soak;
    const answers = await Promise.allSettled(
      cluster.nodes.map(async ({ id }) => ({ id, row: (await cluster.query(id, SESSIONS))[0] })),
    );
    const nodes = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
    if (nodes.length === cluster.nodes.length) this.#addSessions(nodes.map(({ row }) => row?.["sessions"]));
    const primary = nodes.find(({ row }) => row?.["is_replica"] === false);
    if (primary === undefined) return;
    try {
      const [row] = await cluster.query(primary.id, STORE);
      if (row !== undefined) this.#addStore(row as unknown as StoreRow);
      const [jobs] = await cluster.query(primary.id, JOBS);
      this.recorder.add("jobs", "done or waiting", Number(jobs?.["jobs"]));
    } catch {
      // The server is going down, or the queue does not exist yet.
    }
  }

  #addSessions(all: readonly unknown[]): void {
    const sums = new Map<string, number>();
    for (const sessions of all)
      for (const [service, count] of Object.entries(sessions as Record<string, number>))
        sums.set(service, (sums.get(service) ?? 0) + count);
    // A restarted service begins with an empty pool, which fills up again.
    for (const [service, count] of sums)
      this.recorder.add("connections", service, count, this.#lives.get(service)?.life);
  }

  #addStore(row: StoreRow): void {
    const { recorder } = this;
    recorder.add("receipts", "receipts", row.receipts);
    recorder.add("receiptMib", "receipts", row.receipt_bytes / MEBIBYTE);
    recorder.add("partitions", "partitions", row.partitions.length);
    recorder.add("events", "events", row.events);
    recorder.add("eventMib", "events", row.event_bytes / MEBIBYTE);
    recorder.add("deliveries", "deliveries", row.deliveries);
    recorder.add("queued", "pending", row.queued);
    recorder.add("catalogMib", "catalogs", row.catalog_bytes / MEBIBYTE);
    recorder.add("epochs", "epochs", row.epochs);
    for (const name of row.partitions) this.#partitionsSeen.add(name);
    this.#partitions = row.partitions;
    if (row.expired_event > 0) this.#eventsExpired = true;
  }
}
