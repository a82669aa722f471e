// The rows that benchmarks of the gateway measure in turns: who is asked for load, what it cost
// each process, and whether the table agrees at the end.
import type { ServiceProcess } from "@highwater/lab-system";
import { cpuOf } from "../rounds/cpu.ts";
import { measured } from "../rounds/machine.ts";
import { Processes } from "../rounds/processes.ts";
import type { Times } from "../rounds/times.ts";
import type { Subject } from "../rounds/turns.ts";
import type { Way } from "../sdk/protocol.ts";
import { ClientProcess, type Language } from "../sdk/subject.ts";
import type { BenchSystem } from "./bench-system.ts";
import { Generator, type Target } from "./generator.ts";

/** What came of some seconds of load. */
interface Ran {
  readonly committed: number;
  /** Attempts that were refused for a conflict and repeated. */
  readonly conflicts: number;
  readonly elapsedMs: number;
  readonly p50Ms?: number;
  readonly p99Ms?: number;
}

interface Clients {
  readonly pid: number | undefined;
  run(seconds: number): Promise<Ran>;
}

export class Bench {
  readonly #system: BenchSystem;
  readonly #times: Times;
  readonly #generators = new Processes<Generator>();
  readonly #sdks = new Processes<ClientProcess>();
  #committed = 0;

  constructor(system: BenchSystem, times: Times) {
    this.#system = system;
    this.#times = times;
  }

  /** Clients that each have a connection of their own and one transaction under way. */
  connections(
    { workload, row, clients }: { readonly workload: string; readonly row: string; readonly clients: number },
    target: Target,
    gateway?: ServiceProcess,
  ): Subject {
    const measure = async (): ReturnType<Subject["measure"]> => {
      const { process: generator, isNew } = this.#generators.of(row, () => new Generator());
      this.#committed += await generator.open(target, clients);
      const run = (seconds: number): Promise<Ran> => generator.run(1_000 * seconds);
      const turn = await this.#measure({ pid: generator.pid, run }, isNew, gateway);
      await generator.close();
      return turn;
    };
    return { workload, row, measure };
  }

  /** An SDK in one process with so many transactions under way. */
  sdk(
    { workload, row, clients }: { readonly workload: string; readonly row: string; readonly clients: number },
    { language, way }: { readonly language: Language; readonly way: Way },
    gateway: ServiceProcess,
  ): Subject {
    const measure = (): ReturnType<Subject["measure"]> => {
      const { process: sdk, isNew } = this.#sdks.of(row, () => new ClientProcess(language, way));
      const run = (seconds: number): Promise<Ran> =>
        sdk.ask({ kind: "commit", url: gateway.url, seconds, concurrency: clients });
      return this.#measure({ pid: sdk.pid, run }, isNew, gateway);
    };
    return { workload, row, measure };
  }

  async #measure(
    clients: Clients,
    isNew: boolean,
    gateway: ServiceProcess | undefined,
  ): ReturnType<Subject["measure"]> {
    const parts = {
      ...(gateway !== undefined && { gateway: () => cpuOf(gateway.pid) }),
      ...this.#system.parts,
      client: () => cpuOf(clients.pid),
    };
    const { firstWarmUpS, warmUpS, windowS } = this.#times;
    this.#committed += (await clients.run(isNew ? firstWarmUpS : warmUpS)).committed;
    const { result, machine } = await measured(parts, () => clients.run(windowS));
    this.#committed += result.committed;
    return { figures: figuresOf(result), machine };
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
    this.#generators[Symbol.dispose]();
    this.#sdks[Symbol.dispose]();
  }
}

function figuresOf({ committed, conflicts, elapsedMs, p50Ms, p99Ms }: Ran): Record<string, number> {
  return {
    per_second: (1_000 * committed) / elapsedMs,
    ...(p50Ms !== undefined && { p50_ms: p50Ms }),
    ...(p99Ms !== undefined && { p99_ms: p99Ms }),
    failed_tries: conflicts / Math.max(1, committed + conflicts),
  };
}
