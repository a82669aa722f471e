// Runs one way of one workload on the system of the experiments: through PgBouncer where the way
// says so, with the settings of the role, and against the tables' own count of what has committed.
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { requirePostgresProgram } from "@highwater/lab-tools/postgres";
import { runTool, TemporaryFolder } from "@highwater/lab-tools/process";
import { Client } from "pg";
import { ExperimentSystem } from "../experiments/system.ts";
import { cpuOf, cpuOfChildren, cpuOfServer, type Spent } from "../rounds/cpu.ts";
import { residentKib } from "../tracker/streams.ts";
import { type Ran, runPgbench } from "./pgbench.ts";
import type { Memory } from "./results.ts";
import { CREATE, TABLES, TRIES_MAX, type Way, type Workload } from "./workloads.ts";

const LINK_MS = 16;
/** For the idle connections, and all others. */
const CONNECTIONS_MAX = 1_200;
/** So many connect at a time, and the collector has so long for what connecting took. */
const CONNECTING = 20;
const SETTLED_MS = 5_000;
const ACTIVITY = `SELECT application_name, state, wait_event_type, wait_event, left(query, 80) AS query, count(*)
  FROM pg_stat_activity GROUP BY 1, 2, 3, 4, 5`;

export interface Times {
  readonly warmUpS: number;
  readonly windowS: number;
}

export class PgwireSystem implements AsyncDisposable {
  readonly #system: ExperimentSystem;
  readonly #folder: TemporaryFolder;

  private constructor(system: ExperimentSystem, folder: TemporaryFolder) {
    this.#system = system;
    this.#folder = folder;
  }

  /** `scale`: of pgbench's own tables. */
  static async start({
    scale,
    profile,
  }: {
    readonly scale: number;
    readonly profile: string | undefined;
  }): Promise<PgwireSystem> {
    const folder = await TemporaryFolder.make("highwater-pgwire-");
    const system = await ExperimentSystem.start({
      profile,
      withWire: true,
      settings: { max_connections: String(CONNECTIONS_MAX) },
      gatewayEnv: {
        GATEWAY_PG_MAX_CONNECTIONS: String(CONNECTIONS_MAX),
        GATEWAY_PG_MAX_CONNECTIONS_PER_ROLE: String(CONNECTIONS_MAX),
      },
    });
    const started = new PgwireSystem(system, folder);
    try {
      await system.createTables(CREATE, TABLES);
      const { database } = await system.addresses();
      const tables = ["-i", "-q", "-s", String(scale), database];
      const { code, output } = await runTool(requirePostgresProgram("pgbench"), tables, {
        cwd: folder.path,
        env: { PGOPTIONS: "-c synchronous_commit=off" },
      });
      if (code !== 0) throw new Error(`pgbench could not make its tables: ${output}`);
      await system.createTables([], ["pgbench_history"]);
      await system.setRoundTripMs(LINK_MS);
      return started;
    } catch (cause) {
      await started.close();
      throw cause;
    }
  }

  async measure(workload: Workload, way: Way, times: Times): Promise<Ran> {
    const system = this.#system;
    await system.setSynchronous(way.synchronous);
    await system.setRole({ default_transaction_isolation: workload.isolation });
    await system.settle();
    const script = join(this.#folder.path, "script.sql");
    if (!workload.script.startsWith("@")) await writeFile(script, workload.script);
    const { database } = await system.addresses();
    await using pool = way.poolSize === undefined ? null : await system.startPgBouncer(way.poolSize);
    const before = await this.#total(workload);
    const ran = await runPgbench(
      {
        clients: workload.clients,
        options: way.options,
        triesMax: TRIES_MAX,
        ...times,
        url: pool?.url ?? (way.via === "wire" ? await system.wireUrl() : database),
        script: workload.script.startsWith("@") ? workload.script : script,
        folder: this.#folder.path,
        activity: () => this.#activity(),
      },
      { ...this.#parts(), ...(pool !== null && { pgbouncer: () => cpuOfChildren(pool.guard) }) },
    );
    const there = (await this.#total(workload)) - before;
    if (workload.counting !== null && there !== ran.committed)
      throw new Error(
        `${workload.name}, ${way.row}: ${String(ran.committed)} have committed, and ${String(there)} are there`,
      );
    return ran;
  }

  async #activity(): Promise<string> {
    return JSON.stringify(await this.#system.query(ACTIVITY));
  }

  #parts(): Record<string, () => Spent> {
    const { services, servers } = this.#system.processes;
    return Object.fromEntries([
      ...Object.entries(services).map(([name, pid]) => [name, () => cpuOf(pid)] as const),
      ...Object.entries(servers).map(([name, pid]) => [name, () => cpuOfServer(pid)] as const),
    ]);
  }

  async #total({ counting }: Workload): Promise<number> {
    return counting === null ? 0 : Number((await this.#system.query(counting))[0]?.["total"]);
  }

  /** What idle connections take of the gateway's memory. Each has run one statement. */
  async measureMemory(connections: number): Promise<Memory> {
    const url = await this.#system.wireUrl();
    const { gateway } = this.#system.processes.services;
    const resident = (): number => (residentKib(gateway) ?? Number.NaN) / 1_024;
    const clients = Array.from({ length: connections }, () => new Client(url));
    try {
      await sleep(SETTLED_MS);
      const without = resident();
      for (let at = 0; at < connections; at += CONNECTING)
        await Promise.all(
          clients.slice(at, at + CONNECTING).map(async (client) => {
            await client.connect();
            await client.query("SELECT 1");
          }),
        );
      await sleep(SETTLED_MS);
      return { connections, gateway_mib: resident() - without };
    } finally {
      await Promise.all(clients.map((client) => client.end()));
    }
  }

  async close(): Promise<void> {
    await this.#system.close();
    await this.#folder.remove();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
