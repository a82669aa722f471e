// `make bench-overload`: ten times as many clients as the gateway has room for, none of which ever
// waits. How fast is the refusal, does memory stay flat, and is the service itself again when they
// have gone? Loopback only, bounded in time.
// Options: --quick (seconds, no bars), --seconds S (of a phase).
// Exit codes: 0 when the bars are met or --quick ran through, 1 when one is missed or the benchmark
// failed.
import { Agent, request } from "node:http";
import { readOptions } from "@highwater/lab-tools/process";
import { makeUuidV7 } from "@highwater/protocol";
import { record } from "../record.ts";
import { type Bar, bar, reportOf } from "../rounds/bars.ts";
import { cpuOf } from "../rounds/cpu.ts";
import { cellsOf, compared, figureOf, middleOf, quantile } from "../rounds/figures.ts";
import { measured } from "../rounds/machine.ts";
import { readTimes, TIME_OPTIONS } from "../rounds/times.ts";
import { type Figures, REFUSALS_MAX, type Subject, takeTurns, type Turn } from "../rounds/turns.ts";
import { residentKib } from "../tracker/streams.ts";
import { BenchSystem } from "./bench-system.ts";

const FULL = { rounds: 1, firstWarmUpS: 0, warmUpS: 0, windowS: 5 };
const POOL = 16;
const QUEUE = 64;
const WORKLOAD = "overload";
/** Clients of each phase, in their order. */
const PHASES = {
  warm: POOL,
  sustained: (POOL + QUEUE) / 2,
  "overload 1": 10 * (POOL + QUEUE),
  "overload 2": 10 * (POOL + QUEUE),
  "overload 3": 10 * (POOL + QUEUE),
  after: (POOL + QUEUE) / 2,
};
const REFUSAL_BAR_MS = 50;
/** Of memory, from the first to the last phase of overload. */
const GROWTH_BAR = 1.1;
const COLUMNS = {
  figures: ["per_second", "refused_per_second", "other", "refused_p50_ms", "refused_p99_ms", "resident_mib"],
  parts: ["gateway", "tracker", "primary", "replica"],
};

const { values } = readOptions(import.meta.filename, {
  options: { quick: TIME_OPTIONS.quick, seconds: TIME_OPTIONS.seconds },
});
const times = readTimes(values, FULL);

interface Counted {
  committed: number;
  conflicts: number;
  refused: number;
  /** Neither committed, nor a conflict, nor a refusal that says when to come again. */
  other: number;
  readonly refusedMs: number[];
}

function post(url: URL, agent: Agent): Promise<{ status: number; retryAfter: boolean }> {
  const body = JSON.stringify({
    id: makeUuidV7(Date.now(), crypto.getRandomValues(new Uint8Array(10))),
    statements: [
      { sql: "UPDATE bench SET n = n + 1 WHERE id = $1", params: [Math.ceil(Math.random() * 10_000)] },
    ],
  });
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const sent = request(url, { method: "POST", agent, headers }, (response) => {
      response.resume();
      response.on("end", () => {
        const retryAfter = response.headers["retry-after"] !== undefined;
        resolve({ status: response.statusCode ?? 0, retryAfter });
      });
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

/** So many clients for so long, each with one request after the other. */
async function load(url: URL, clients: number, durationMs: number): Promise<Counted> {
  const agent = new Agent({ keepAlive: true, maxSockets: clients });
  const counted: Counted = { committed: 0, conflicts: 0, refused: 0, other: 0, refusedMs: [] };
  const untilMs = performance.now() + durationMs;
  const client = async (): Promise<void> => {
    while (performance.now() < untilMs) {
      const startedMs = performance.now();
      const { status, retryAfter } = await post(url, agent);
      if (status === 200) counted.committed++;
      else if (status === 409) counted.conflicts++;
      else if (status === 503 && retryAfter) {
        counted.refused++;
        counted.refusedMs.push(performance.now() - startedMs);
      } else counted.other++;
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
  agent.destroy();
  return counted;
}

function figuresOf({ committed, refused, other, refusedMs }: Counted, seconds: number): Figures {
  refusedMs.sort((a, b) => a - b);
  return {
    per_second: committed / seconds,
    refused_per_second: refused / seconds,
    other,
    ...(refused > 0 && {
      refused_p50_ms: quantile(refusedMs, 0.5),
      refused_p99_ms: quantile(refusedMs, 0.99),
    }),
  };
}

function barsOf(turns: readonly Turn[]): Bar[] {
  const of = (row: string, figure: string): number =>
    middleOf(turns, { workload: WORKLOAD, row }, (turn) => figureOf(turn, figure));
  const growth = { workload: WORKLOAD, of: "overload 3", to: "overload 1", figure: "resident_mib" };
  // Also in turns that were refused.
  const unexpected = turns.reduce((sum, turn) => sum + figureOf(turn, "other"), 0);
  return [
    bar(`p50 of a refusal in ms at most ${String(REFUSAL_BAR_MS)}`, of("overload 3", "refused_p50_ms"), {
      max: REFUSAL_BAR_MS,
    }),
    bar(
      `memory at the end of the overload at most ${String(GROWTH_BAR)} times that at its beginning`,
      compared(turns, growth),
      { max: GROWTH_BAR },
    ),
    bar("unexpected answers at most 0", unexpected, { max: 0 }),
    bar("refusals a second afterwards at most 0", of("after", "refused_per_second"), { max: 0 }),
  ];
}

async function run(system: BenchSystem): Promise<boolean> {
  const gateway = await system.startGateway("overloaded", {
    env: { GATEWAY_POOL_SIZE: String(POOL), GATEWAY_POOL_QUEUE: String(QUEUE) },
  });
  const url = new URL("/v1/transactions", gateway.url);
  const parts = { gateway: () => cpuOf(gateway.pid), ...system.parts };
  const subjects = Object.entries(PHASES).map(([row, clients]): Subject => {
    const measure = async (): ReturnType<Subject["measure"]> => {
      const { result, machine } = await measured(parts, () => load(url, clients, 1_000 * times.windowS));
      const resident_mib = (residentKib(gateway.pid) ?? Number.NaN) / 1_024;
      return { figures: { ...figuresOf(result, machine.seconds), resident_mib }, machine };
    };
    return { workload: WORKLOAD, row, measure };
  });
  const turns = await takeTurns(subjects, {
    // Phases follow on each other: a second round would go backwards.
    rounds: 1,
    refusalsMax: values.quick ? 0 : REFUSALS_MAX,
    say: (what) => console.error(`… ${what}`),
  });
  const bars = values.quick ? [] : barsOf(turns);
  const result = { cells: cellsOf(turns), ratios: {}, bars, turns };
  if (!values.quick) record("overload", { settings: times, ...result });
  console.log(reportOf(result, COLUMNS));
  return bars.every(({ met }) => met);
}

let met: boolean;
{
  await using system = await BenchSystem.start();
  met = await run(system);
}
process.exit(met ? 0 : 1);
