// Runs one measurement at a time on the system: requests the load, counts what commits in the
// window, measures what it cost each process, and compares the tables with the answers.
import { setTimeout as sleep } from "node:timers/promises";
import { cpuOf, cpuOfChildren, cpuOfServer, type Spent } from "../rounds/cpu.ts";
import { machineBetween, readMachine } from "../rounds/machine.ts";
import { Processes } from "../rounds/processes.ts";
import type { Subject } from "../rounds/turns.ts";
import { figuresOf } from "./figures.ts";
import { Generator } from "./load/generator.ts";
import { SYNCHRONOUS } from "./load/target.ts";
import type { Group } from "./load/worker.ts";
import { countOf, type Workload } from "./load/workload.ts";
import type { ExperimentSystem } from "./system.ts";

/** Conditions: the values on a figure's axes. */
export type Labels = Readonly<Record<string, string | number>>;

export interface Measurement {
  /** Rows under the same conditions are compared with each other. */
  readonly conditions: Labels;
  readonly row: string;
  /** Of the row: its values on a figure's axes. */
  readonly labels?: Labels;
  readonly linkMs: number;
  readonly groups: readonly Group[];
  /** One of the few rows that the page is judged by: their windows are longer. */
  readonly isHeadline?: boolean;
  /** The level of safe transactions. Default: the system's own. */
  readonly level?: string;
  /** How long PostgreSQL waits for other commits before it flushes. Default: 0. */
  readonly commitDelayUs?: number;
  /** The kind that is counted where jobs have steps. Default: all kinds together. */
  readonly whole?: string;
  /** What the experiment does behind the window, in seconds. */
  readonly behindS?: number;
}

export interface Times {
  readonly warmUpS: number;
  readonly windowS: number;
}

type Measured = Awaited<ReturnType<Subject["measure"]>>;

const COUNTED: ReadonlySet<string> = new Set(["update", "insert"] satisfies Workload["kind"][]);

/** The name of a workload in turns, cells and tables. */
export function workloadOf(conditions: Labels): string {
  return Object.entries(conditions)
    .map(([name, value]) =>
      typeof value === "number" ? `${name.replaceAll("_", " ")} ${String(value)}` : value,
    )
    .join(", ");
}

export class Bench {
  readonly #system: ExperimentSystem;
  readonly #generators = new Processes<Generator>();
  /** By the statement that counts. */
  readonly #committed = new Map<string, number>();
  #seed = 1;

  constructor(system: ExperimentSystem) {
    this.#system = system;
  }

  get system(): ExperimentSystem {
    return this.#system;
  }

  async measure(measurement: Measurement, { warmUpS, windowS }: Times): Promise<Measured> {
    const { groups, linkMs, level, whole } = measurement;
    const system = this.#system;
    await system.setRoundTripMs(linkMs);
    await system.setSynchronous(groups.some(({ way }) => SYNCHRONOUS.has(way)));
    const pooled = groups.find(({ way }) => way === "pgbouncer_on");
    await system.setRole({
      commit_delay: String(measurement.commitDelayUs ?? 0),
      // Sessions of a role that begins with `serializable` cannot read at a replica.
      default_transaction_isolation: pooled?.isolation ?? "read committed",
    });
    await system.settle();
    await using pool = pooled === undefined ? null : await system.startPgBouncer(pooled.connections ?? 1);
    const addresses = {
      ...(await system.addresses()),
      ...(pool !== null && { pgbouncer: pool.url }),
      ...(level !== undefined && { level }),
    };
    const generator = this.#generatorFor(groups);
    await generator.open(groups, addresses, this.#seed++);
    const parts = {
      ...this.#parts(generator),
      ...(pool !== null && { pgbouncer: () => cpuOfChildren(pool.guard) }),
    };
    const running = generator.run(1_000 * warmUpS, 1_000 * windowS);
    const [before, after] = await Promise.all([
      sleep(1_000 * warmUpS).then(() => readMachine(parts)),
      sleep(1_000 * (warmUpS + windowS)).then(() => readMachine(parts)),
      running,
    ]);
    const found = await running;
    await generator.close();
    for (const { name, workload } of groups) {
      const counting = COUNTED.has(workload.kind) ? countOf(workload as Workload) : null;
      if (counting === null) continue;
      const committed = found[name]?.committedInAll ?? Number.NaN;
      this.#committed.set(counting, (this.#committed.get(counting) ?? 0) + committed);
    }
    return {
      figures: figuresOf(found, { row: measurement.row, whole }),
      machine: machineBetween(before, after),
    };
  }

  #generatorFor(groups: readonly Group[]): Generator {
    const [kind = ""] = /^(?:direct|pooled|pgbouncer|sdk)/.exec(groups[0]?.way ?? "") ?? [];
    return this.#generators.of(kind, () => new Generator()).process;
  }

  #parts(generator: Generator): Record<string, () => Spent> {
    const { services, servers } = this.#system.processes;
    return Object.fromEntries([
      ...Object.entries(services).map(([name, pid]) => [name, () => cpuOf(pid)] as const),
      ...Object.entries(servers).map(([name, pid]) => [name, () => cpuOfServer(pid)] as const),
      ["generator", () => cpuOf(generator.pid)] as const,
    ]);
  }

  /**
   * The tables count their changes: every transaction that was called committed is there, and none
   * ran twice.
   */
  async check(): Promise<void> {
    for (const [counting, committed] of this.#committed) {
      const total = Number((await this.#system.query(counting))[0]?.["total"]);
      if (total !== committed)
        throw new Error(`${String(committed)} have committed, and ${String(total)} are there: ${counting}`);
    }
  }

  close(): void {
    this.#generators[Symbol.dispose]();
  }
}
