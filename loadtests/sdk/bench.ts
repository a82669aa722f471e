// The parts of the benchmark. Within a part the ways take turns, so that what disturbs the machine
// disturbs all of them.
import { cpuOf } from "../rounds/cpu.ts";
import { measured } from "../rounds/machine.ts";
import { Processes } from "../rounds/processes.ts";
import type { RoundTimes } from "../rounds/times.ts";
import { type Figures, type Subject, takeTurns, type Turn } from "../rounds/turns.ts";
import { PATHS, type ServiceState, type Way } from "./protocol.ts";
import { COMMITS, PROMISES, workloadOf } from "./results.ts";
import { ClientProcess, FixedService, type Language } from "./subject.ts";

const PROMISE_COUNT = 10_000;

export interface How extends RoundTimes {
  readonly refusalsMax: number;
  readonly say: (what: string) => void;
}

export async function measureAll(languages: readonly Language[], how: How): Promise<Turn[]> {
  using service = await FixedService.start();
  const turns: Turn[] = [];
  for (const language of languages)
    for (const subjectsOf of [commits, promises]) {
      using processes = new Processes<ClientProcess>();
      const of: ProcessOf = (way) => processes.of(way, () => new ClientProcess(language, way));
      turns.push(...(await takeTurns(subjectsOf(service.url, { language, of }, how), how)));
    }
  return turns;
}

type ProcessOf = (way: Way) => ReturnType<Processes<ClientProcess>["of"]>;

interface Clients {
  readonly language: Language;
  readonly of: ProcessOf;
}

function commits(url: string, { language, of }: Clients, { firstWarmUpS, warmUpS, windowS }: How): Subject[] {
  return Object.entries(COMMITS).flatMap(([part, { ways, concurrency }]) =>
    ways.map((row): Subject => {
      const measure = async (): ReturnType<Subject["measure"]> => {
        const { process, isNew } = of(row);
        const run = (seconds: number) => process.ask({ kind: "commit", url, seconds, concurrency });
        await run(isNew ? firstWarmUpS : warmUpS);
        return turnOf(process, async () => {
          const { committed, elapsedMs, cpuMs } = await run(windowS);
          return { per_second: (1_000 * committed) / elapsedMs, cpu_us: (1_000 * cpuMs) / committed };
        });
      };
      return { workload: workloadOf(language, part), row, measure };
    }),
  );
}

function promises(url: string, { language, of }: Clients): Subject[] {
  const keep = async (process: ClientProcess): Promise<Figures> => {
    const { questions: asked } = await stateOf(url);
    const { bytesEach } = await process.ask({ kind: "pend", url, count: PROMISE_COUNT });
    const { streams, questions } = await stateOf(url);
    const { elapsedMs, cpuMs } = await process.ask({ kind: "settle", url });
    // A promise that has waited for long is asked about: on a busy machine, some are.
    return {
      settle_ms: elapsedMs,
      settle_cpu_ms: cpuMs,
      bytes: bytesEach,
      streams,
      asked: questions - asked,
    };
  };
  return (["bare", "sdk"] as const).map((row) => {
    const measure = async (): ReturnType<Subject["measure"]> => {
      const { process, isNew } = of(row);
      if (isNew) await keep(process);
      return turnOf(process, () => keep(process));
    };
    return { workload: workloadOf(language, PROMISES), row, measure };
  });
}

async function turnOf(process: ClientProcess, run: () => Promise<Figures>): ReturnType<Subject["measure"]> {
  const { result: figures, machine } = await measured({ client: () => cpuOf(process.pid) }, run);
  return { figures, machine };
}

async function stateOf(url: string): Promise<ServiceState> {
  return (await (await fetch(`${url}${PATHS.state}`)).json()) as ServiceState;
}
