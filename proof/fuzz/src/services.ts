// One real gateway and one real tracker on a real one-node database, for all targets that need
// them.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { TemporaryFolder } from "@highwater/lab-tools/process";
import { type ServiceKind, ServiceProcess } from "@highwater/lab-system";
import { ROLE } from "../../wire/stage.ts";
import { type Services } from "./target.ts";

const NODE = "east";
const START_MS = 60_000;
const READY_MS = 60_000;
const LOOK_MS = 50;
const CONTENTS_KEYS = JSON.stringify([
  { kid: 1, validFrom: "2026-01-01T00:00:00Z", secret: "contents of fuzzing, 32 characters" },
]);

type Postgres = Pick<Services, "postgres" | "postgresAdmin" | "wire">;

export class RealServices {
  readonly urls: Services;
  readonly #processes: readonly ServiceProcess[];
  readonly #cluster: Cluster;
  readonly #folder: TemporaryFolder;

  private constructor(
    cluster: Cluster,
    { processes, postgres }: { processes: readonly ServiceProcess[]; postgres: Postgres },
    folder: TemporaryFolder,
  ) {
    const [tracker, gateway] = processes;
    this.urls = { gateway: gateway?.url ?? "", tracker: tracker?.url ?? "", ...postgres };
    this.#processes = processes;
    this.#cluster = cluster;
    this.#folder = folder;
  }

  static async start(): Promise<RealServices> {
    const temporary = await TemporaryFolder.make("highwater-fuzz-");
    const folder = temporary.path;
    const cluster = await startCluster({
      nodes: [{ id: NODE, region: NODE }],
      settings: { max_prepared_transactions: "10" },
    });
    const nodes = await Promise.all(
      cluster.nodes.map(async ({ id, region, zone }) => ({
        id,
        region,
        zone,
        url: await cluster.connectionString(id),
      })),
    );
    const topology = JSON.stringify({
      nodes,
      levels: { disk: { primary: true }, global: { regions: "all" } },
    });
    const start = (name: ServiceKind, env: Record<string, string>): Promise<ServiceProcess> =>
      ServiceProcess.start({
        name,
        service: name,
        startTimeoutMs: START_MS,
        logFile: join(folder, `${name}.log`),
        env: { HIGHWATER_TOPOLOGY: topology, HIGHWATER_CONTENTS_KEYS: CONTENTS_KEYS, ...env },
      });
    const tracker = await start("tracker", {
      TRACKER_NAME: "fuzz",
      TRACKER_REGION: NODE,
      TRACKER_LEDGER: join(folder, "ledger.sqlite"),
      // Made-up endpoints lead nowhere else.
      TRACKER_WEBHOOK_ALLOW: "127.0.0.1",
    });
    const pgPort = await cluster.reservePort();
    const gateway = await start("gateway", {
      GATEWAY_PG_PORT: String(pgPort),
      GATEWAY_PG_AUTH: "passthrough",
      GATEWAY_NAME: "fuzz",
      GATEWAY_REGION: NODE,
      GATEWAY_TRACKERS: tracker.url,
      GATEWAY_STATEMENT_TIMEOUT_MS: "2000",
    });
    const postgres = await cluster.connectionString(NODE, { user: ROLE });
    const wire = `postgresql://${ROLE}@127.0.0.1:${String(pgPort)}/${new URL(postgres).pathname.slice(1)}`;
    const postgresAdmin = await cluster.connectionString(NODE);
    const services = new RealServices(
      cluster,
      { processes: [tracker, gateway], postgres: { postgres, postgresAdmin, wire } },
      temporary,
    );
    await services.untilReady();
    return services;
  }

  async untilReady(): Promise<void> {
    for (const { url } of this.#processes) {
      const untilMs = performance.now() + READY_MS;
      while (!(await fetch(`${url}/readyz`)).ok) {
        if (performance.now() > untilMs) throw new Error(`${url} is not ready`);
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      }
    }
  }

  /** Errors in the services' logs, and services that have ended. */
  async faults(): Promise<string[]> {
    const faults: string[] = [];
    for (const process of this.#processes) {
      if (!process.running) faults.push(`${process.name} has ended`);
      const log = await readFile(process.logFile, "utf8");
      faults.push(...log.split("\n").filter((line) => line.includes('"level":"error"')));
    }
    return faults;
  }

  async close(): Promise<void> {
    for (const process of this.#processes) if (process.running) await process.stop();
    await this.#cluster.close();
    await this.#folder.remove();
  }
}
