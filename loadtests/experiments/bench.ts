// Runs one measurement at a time on the system: requests the load, counts what commits in the
// window, measures what it cost each process, and compares the tables with the answers.
import { cpus } from "node:os";
import { cpuOf, cpuOfServer, type Spent, spentBetween } from "../rounds/cpu.ts";
import { Generator } from "./load/generator.ts";
import type { Addresses } from "./load/target.ts";
import type { KindStats } from "./load/window.ts";
import type { Group } from "./load/worker.ts";
import { countOf, type Workload } from "./load/workload.ts";
import type { ExperimentSystem } from "./system.ts";

/** The conditions of a measurement: the values on a figure's axes. */
export type Labels = Readonly<Record<string, string | number>>;

/**
 * Cores that were busy meanwhile, by process. `rest`: the rest of the machine, including the link's
 * relay.
 */
export type Cores = Readonly<Record<string, number>>;

export interface Sample extends KindStats {
  readonly labels: Labels;
  readonly round: number;
  readonly subject: string;
  readonly group: string;
  readonly kind: string;
  readonly cores: Cores;
}

export interface Measurement {
  readonly labels: Labels;
  readonly round: number;
  readonly linkMs: number;
  readonly groups: readonly Group[];
  readonly warmUpMs: number;
  readonly durationMs: number;
  /** The level of safe transactions. Default: the system's own. */
  readonly level?: string;
}

const TABLED: ReadonlySet<string> = new Set(["update", "insert"] satisfies Workload["kind"][]);

export class Bench {
  readonly #system: ExperimentSystem;
  readonly #addresses: Addresses;
  /**
   * One process for direct clients and one for the gateway's: code that is optimized for one would
   * be slower with the other.
   */
  readonly #generators = new Map<string, Generator>();
  /** By the statement that counts. */
  readonly #committed = new Map<string, number>();
  #seed = 1;

  private constructor(system: ExperimentSystem, addresses: Addresses) {
    this.#system = system;
    this.#addresses = addresses;
  }

  static async of(system: ExperimentSystem): Promise<Bench> {
    return new Bench(system, await system.addresses());
  }

  get system(): ExperimentSystem {
    return this.#system;
  }

  async measure(measurement: Measurement): Promise<Sample[]> {
    const { groups, linkMs, warmUpMs, durationMs } = measurement;
    const system = this.#system;
    await system.setRoundTripMs(linkMs);
    await system.setSynchronous(groups.some(({ subject }) => subject === "direct_on"));
    await system.settle();
    const generator = this.#generatorFor(groups);
    const addresses = {
      ...this.#addresses,
      ...(measurement.level !== undefined && { level: measurement.level }),
    };
    await generator.open(groups, addresses, this.#seed++);
    const before = this.#spent(generator);
    const found = await generator.run(warmUpMs, durationMs);
    const cores = coresBetween(before, this.#spent(generator));
    await generator.close();
    for (const { name, workload } of groups) {
      const counting = TABLED.has(workload.kind) ? countOf(workload as Workload) : null;
      if (counting === null) continue;
      const committed = found[name]?.committedInAll ?? Number.NaN;
      this.#committed.set(counting, (this.#committed.get(counting) ?? 0) + committed);
    }
    const { labels, round } = measurement;
    return groups.flatMap(({ name, subject }) =>
      Object.entries(found[name]?.kinds ?? {}).map(([kind, stats]) => ({
        labels,
        round,
        subject,
        group: name,
        kind,
        cores,
        ...stats,
      })),
    );
  }

  #generatorFor(groups: readonly Group[]): Generator {
    const key = groups.some(({ subject }) => subject.startsWith("direct")) ? "direct" : "gateway";
    let generator = this.#generators.get(key);
    if (generator === undefined) this.#generators.set(key, (generator = new Generator()));
    return generator;
  }

  #spent(generator: Generator): SpentAll {
    const { services, servers } = this.#system.processes;
    return {
      atMs: performance.now(),
      busyMs: busyMs(),
      parts: {
        ...mapped(services, cpuOf),
        ...mapped(servers, cpuOfServer),
        generator: cpuOf(generator.pid),
      },
    };
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
    for (const generator of this.#generators.values()) generator.end();
  }
}

interface SpentAll {
  readonly atMs: number;
  readonly busyMs: number;
  readonly parts: Readonly<Record<string, Spent>>;
}

function coresBetween(before: SpentAll, after: SpentAll): Cores {
  const elapsedMs = after.atMs - before.atMs;
  const parts = Object.keys(before.parts).map((part): [string, number] => {
    const spent = spentBetween(before.parts[part] ?? new Map(), after.parts[part] ?? new Map()) ?? 0;
    return [part, spent / elapsedMs];
  });
  const known = parts.reduce((sum, [, cores]) => sum + cores, 0);
  const rest = Math.max(0, (after.busyMs - before.busyMs) / elapsedMs - known);
  return Object.fromEntries([...parts, ["rest", rest]]);
}

function mapped<In, Out>(values: Readonly<Record<string, In>>, map: (value: In) => Out): Record<string, Out> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, map(value)]));
}

/** The busy time of all cores, by any process. */
function busyMs(): number {
  return cpus().reduce((sum, { times }) => sum + times.user + times.nice + times.sys + times.irq, 0);
}
