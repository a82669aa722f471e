// Runs the parts of the benchmark one after the other. Within a part the ways take turns, so that
// what disturbs the machine disturbs all of them.
import { loadavg } from "node:os";
import { BenchSystem } from "../gateway/bench-system.ts";
import { cpuOf, cpuOfServer, spentBetween } from "../rounds/cpu.ts";
import {
  type Committed,
  PATHS,
  type Pending,
  type ServiceState,
  type Settled,
  type Way,
} from "./protocol.ts";
import type { Batching, BatchSample, CommitSample, Measured, PromiseSample } from "./results.ts";
import { FixedService, type Language, Subject } from "./subject.ts";

export interface Sizes {
  readonly languages: readonly Language[];
  readonly rounds: number;
  /** Transactions of a segment. */
  readonly commits: number;
  /** The same where one takes several times as long. */
  readonly pythonCommits: number;
  readonly promises: number;
  readonly promiseRounds: number;
  readonly batchRounds: number;
  readonly batchCommits: number;
  readonly pythonBatchCommits: number;
}

export const FULL: Sizes = {
  languages: ["typescript", "python_async", "python_sync"],
  rounds: 5,
  commits: 1_000,
  pythonCommits: 200,
  promises: 10_000,
  promiseRounds: 3,
  batchRounds: 3,
  batchCommits: 3_000,
  pythonBatchCommits: 320,
};

const CONCURRENCY = [1, 64] as const;
const WAYS: readonly Way[] = ["bare", "sdk", "batched"];
/** What comes before the compiler has seen it all does not count. */
const WARM_UP_ROUNDS = 1;

type Progress = (what: string) => void;

/**
 * One process for each way: code that was optimized for one kind of client would be slower with
 * another.
 */
class Subjects {
  readonly #known = new Map<string, Subject>();

  of(language: Language, way: Way): Subject {
    const key = `${language} ${way}`;
    let subject = this.#known.get(key);
    if (subject === undefined) this.#known.set(key, (subject = new Subject(language, way)));
    return subject;
  }

  [Symbol.dispose](): void {
    for (const subject of this.#known.values()) subject.end();
  }
}

export async function measureAll(sizes: Sizes, progress: Progress): Promise<Measured> {
  const [before] = loadavg();
  const commits: CommitSample[] = [];
  const promises: PromiseSample[] = [];
  {
    using service = await FixedService.start();
    for (const language of sizes.languages) {
      progress(`${language}: processor time of a commit`);
      commits.push(...(await measureCommits(service.url, language, sizes)));
      progress(`${language}: ${String(sizes.promises)} promises, kept by one mark`);
      promises.push(...(await measurePromises(service.url, language, sizes)));
    }
  }
  progress("batches, on a real gateway");
  const batching = await measureBatching(sizes);
  const [after] = loadavg();
  return { commits, promises, batching, load_average: { before: before ?? 0, after: after ?? 0 } };
}

async function measureCommits(url: string, language: Language, sizes: Sizes): Promise<CommitSample[]> {
  using subjects = new Subjects();
  const samples: CommitSample[] = [];
  const count = language === "typescript" ? sizes.commits : sizes.pythonCommits;
  for (let round = 1 - WARM_UP_ROUNDS; round <= sizes.rounds; round++)
    for (const concurrency of CONCURRENCY)
      for (const way of WAYS) {
        // A batch of one is no batch.
        if (way === "batched" && concurrency === 1) continue;
        const order = { kind: "commit", url, count, concurrency } as const;
        const { cpuMs } = await subjects.of(language, way).ask(order);
        if (round >= 1) samples.push({ language, way, concurrency, round, cpuUs: (1_000 * cpuMs) / count });
      }
  return samples;
}

async function measurePromises(url: string, language: Language, sizes: Sizes): Promise<PromiseSample[]> {
  const samples: PromiseSample[] = [];
  using subjects = new Subjects();
  const asked = (await stateOf(url)).questions;
  for (let round = 0; round <= sizes.promiseRounds; round++)
    for (const way of ["bare", "sdk"] as const) {
      const subject = subjects.of(language, way);
      const pending: Pending = await subject.ask({ kind: "pend", url, count: sizes.promises });
      const { streams } = await stateOf(url);
      const settled: Settled = await subject.ask({ kind: "settle", url });
      if (round === 0) continue;
      const { bytesEach } = pending;
      const { elapsedMs, cpuMs } = settled;
      samples.push({ language, way, round, bytesEach, elapsedMs, cpuMs, streams });
    }
  // What has waited for long is asked about all the same: on a machine that is busy enough, that is
  // what some do here.
  const { questions } = await stateOf(url);
  if (questions !== asked) console.error(`${String(questions - asked)} promises were asked about`);
  return samples;
}

async function stateOf(url: string): Promise<ServiceState> {
  return (await (await fetch(`${url}${PATHS.state}`)).json()) as ServiceState;
}

/**
 * The same client with and without batches, against a gateway and a database that run what they are
 * sent.
 */
async function measureBatching(sizes: Sizes): Promise<Batching> {
  await using system = await BenchSystem.start();
  const gateway = await system.startGateway({ name: "gateway", withTracker: false });
  const samples: BatchSample[] = [];
  let committed = 0;
  for (const language of sizes.languages) {
    using subjects = new Subjects();
    const count = language === "typescript" ? sizes.batchCommits : sizes.pythonBatchCommits;
    for (let round = 0; round <= sizes.batchRounds; round++)
      for (const way of ["sdk", "batched"] as const) {
        const subject = subjects.of(language, way);
        const read = { gateway: cpuOf(gateway.pid), database: cpuOfServer(system.postmaster) };
        const done: Committed = await subject.ask({
          kind: "commit",
          url: gateway.url,
          count,
          concurrency: 64,
        });
        committed += count;
        const spent = {
          gateway: spentBetween(read.gateway, cpuOf(gateway.pid)) ?? Number.NaN,
          database: spentBetween(read.database, cpuOfServer(system.postmaster)) ?? Number.NaN,
        };
        if (round === 0) continue;
        samples.push({
          language,
          way,
          round,
          tps: (1_000 * count) / done.elapsedMs,
          clientCpuUs: (1_000 * done.cpuMs) / count,
          gatewayCpuUs: (1_000 * spent.gateway) / count,
          databaseCpuUs: (1_000 * spent.database) / count,
        });
      }
  }
  const total = await system.total();
  if (total !== committed)
    throw new Error(`${String(committed)} transactions have committed, and the table says ${String(total)}`);
  return samples;
}
