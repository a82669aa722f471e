// Runs segments one at a time: who is asked for load, what it cost each process, and whether the
// table agrees at the end.
import type { BenchSystem } from "./bench-system.ts";
import { cpuOf, cpuOfServer, type Spent, spentBetween } from "../rounds/cpu.ts";
import { Generator, type Target } from "./generator.ts";
import type { ClientCount, Sample } from "./results.ts";

export interface Subject {
  readonly series: string;
  readonly target: Target;
  /** Of the gateway process. */
  readonly pid?: number | undefined;
}

export class Bench {
  readonly #system: BenchSystem;
  readonly #postmaster: number;
  readonly #generators = new Map<string, Generator>();
  #committed = 0;

  constructor(system: BenchSystem) {
    this.#system = system;
    this.#postmaster = system.postmaster;
  }

  async run(
    subject: Subject,
    { round, clients, durationMs }: { round: number; clients: ClientCount; durationMs: number },
  ): Promise<Sample> {
    const { series, target } = subject;
    const generator = this.#generatorOf(series);
    const synchronous = target.kind === "direct" && target.synchronousCommit === "on";
    if (synchronous) await this.#system.setSynchronous(true);
    this.#committed += await generator.open(target, clients);
    const read = { gateway: cpuOf(subject.pid), generator: cpuOf(generator.pid), database: this.#database() };
    const segment = await generator.run(durationMs);
    const cpu = {
      gateway: spentBetween(read.gateway, cpuOf(subject.pid)),
      generator: spentBetween(read.generator, cpuOf(generator.pid)),
      database: spentBetween(read.database, this.#database()),
    };
    this.#committed += segment.committed;
    await generator.close();
    if (synchronous) await this.#system.setSynchronous(false);
    return { round, series, clients, segment, cpu };
  }

  /**
   * One process for each series: code that has been optimized for one kind of client would be
   * slower with another.
   */
  #generatorOf(series: string): Generator {
    let generator = this.#generators.get(series);
    if (generator === undefined) this.#generators.set(series, (generator = new Generator()));
    return generator;
  }

  #database(): Spent {
    return cpuOfServer(this.#postmaster);
  }

  /**
   * The table counts what has changed it: nothing was called committed that was not, and nothing
   * ran twice.
   */
  async check(): Promise<void> {
    const total = await this.#system.total();
    if (total !== this.#committed)
      throw new Error(
        `${String(this.#committed)} transactions have committed, and the table says ${String(total)}`,
      );
  }

  close(): void {
    for (const generator of this.#generators.values()) generator.end();
  }
}
