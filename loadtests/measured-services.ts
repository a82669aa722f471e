// The services of a measured system beside its cluster, and what its clients need from the
// database.
import { readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Cluster } from "@highwater/lab-cluster";
import { type ServiceKind, ServiceProcess } from "@highwater/lab-system";
import { eventually } from "@highwater/lab-tools/process";
import type { LevelRule } from "@highwater/protocol";

/** Of direct clients, and of the gateway's transactions. */
export const ROLE = "app";
const START_TIMEOUT_MS = 60_000;

export class MeasuredServices implements AsyncDisposable {
  readonly #cluster: Cluster;
  readonly #running: ServiceProcess[] = [];

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  /** Makes the role and a folder for the services' files, then runs the statements. */
  async prepare(primary: string, statements: readonly string[]): Promise<void> {
    await mkdir(join(this.#cluster.dir, "services"), { recursive: true });
    const role = ["CREATE ROLE highwater_app NOLOGIN", `CREATE ROLE ${ROLE} LOGIN IN ROLE highwater_app`];
    for (const statement of [...role, ...statements]) await this.#cluster.query(primary, statement);
  }

  /** `from`: the place from which the services reach the node, if links are between them. */
  async topology(
    levels: Readonly<Record<string, LevelRule>>,
    from: (node: string) => string | undefined = () => undefined,
  ): Promise<string> {
    const nodes = await Promise.all(
      this.#cluster.nodes.map(async ({ id, region, zone }) => {
        const place = from(id);
        const options = place === undefined ? {} : { from: place };
        const url = await this.#cluster.connectionString(id, options);
        const appUrl = await this.#cluster.connectionString(id, { ...options, user: ROLE });
        return { id, region, zone, url, appUrl };
      }),
    );
    return JSON.stringify({ nodes, levels });
  }

  /** In the folder of the services' files. */
  fileOf(name: string): string {
    return join(this.#cluster.dir, "services", name);
  }

  /** Resolves when the service is ready. */
  async start(
    service: ServiceKind,
    name: string,
    env: Readonly<Record<string, string>>,
  ): Promise<ServiceProcess> {
    const logFile = this.fileOf(`${name}.log`);
    const started = await ServiceProcess.start({
      name,
      service,
      logFile,
      startTimeoutMs: START_TIMEOUT_MS,
      env,
    });
    this.#running.push(started);
    await eventually(`${name} is ready`, async () => (await fetch(`${started.url}/readyz`)).ok);
    return started;
  }

  /** Ends one service gracefully, so that it writes what it has to. */
  async stop(service: ServiceProcess): Promise<void> {
    this.#running.splice(this.#running.indexOf(service), 1);
    await service.stop();
  }

  /** The first process of a node's server. */
  postmaster(id: string): number {
    const dir = this.#cluster.nodes.find((node) => node.id === id)?.dataDir ?? "";
    return Number(readFileSync(join(dir, "postmaster.pid"), "latin1").split("\n")[0]);
  }

  /** Whether commits on the primary with `synchronous_commit=on` wait for its only replica. */
  async setSynchronous(primary: string, replica: string, on: boolean): Promise<void> {
    const names = on ? replica : "";
    await this.#cluster.query(primary, `ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
    await this.#cluster.query(primary, "SELECT pg_reload_conf()");
    const states = "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'";
    await eventually("the replica has taken its new part", async () => {
      const rows = await this.#cluster.query(primary, states);
      return rows.length === 1 && rows[0]?.["sync_state"] === (on ? "sync" : "async");
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const service of this.#running.splice(0).reverse()) await service.stop();
  }
}
