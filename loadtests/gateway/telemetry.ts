// `make bench-telemetry`: the same transaction through three gateways on one primary, with one
// tracker: telemetry off, on as it is by default (traces, metrics and logs by OTLP, one transaction
// in a hundred), and with every transaction traced. They take turns.
// Options: --quick (seconds, no bar), --rounds N, --seconds S (of a window), --clients N,
// --only-cost (of a trace by itself).
// Exit codes: 0 when the bar is met or --quick ran through, 1 when it is missed or the benchmark
// failed.
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { readOptions } from "@highwater/lab-tools/process";
import { record } from "../record.ts";
import { type Bar, bar, reportOf } from "../rounds/bars.ts";
import { cellsOf, compared } from "../rounds/figures.ts";
import { readTimes, TIME_OPTIONS } from "../rounds/times.ts";
import { REFUSALS_MAX, type Subject, takeTurns } from "../rounds/turns.ts";
import { Bench } from "./bench.ts";
import { BenchSystem } from "./bench-system.ts";
import { COLUMNS } from "./results.ts";
import { traceCost } from "./trace-cost.ts";
import { SELECT, UPDATE } from "./workload.ts";

const FULL = { rounds: 8, firstWarmUpS: 8, warmUpS: 0.5, windowS: 2 };
/** The share of its throughput that the gateway must keep. */
const KEPT_MIN = 0.95;
/** As the service's own. */
const DEFAULT_RATIO = 0.01;
const MANY = 200_000;
/** The standard's minute would fall into a few windows only, and weigh on them alone. */
const METRICS_MS = "10000";

const { values } = readOptions(import.meta.filename, {
  options: {
    ...TIME_OPTIONS,
    clients: { type: "string", default: "64" },
    "only-cost": { type: "boolean" },
  },
});
const times = readTimes(values, FULL);
const clients = Number(values.clients);
if (!(clients >= 1 && clients <= 256)) throw new Error("--clients is from 1 to 256");

/** A collector that takes everything and does nothing with it. */
async function startSink(): Promise<{ url: string; bytes: () => Record<string, number>; close: () => void }> {
  const bytes: Record<string, number> = {};
  const server = createServer((request, response) => {
    const signal = request.url ?? "";
    request.on("data", (chunk: Buffer) => (bytes[signal] = (bytes[signal] ?? 0) + chunk.length));
    request.on("end", () => response.end());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${String(port)}`,
    bytes: () => ({ ...bytes }),
    close: () => server.close(),
  };
}

const NAMES = ["off", "on", "every"] as const;
type Name = (typeof NAMES)[number];

async function run(system: BenchSystem): Promise<readonly Bar[]> {
  const bench = new Bench(system, times);
  const sink = await startSink();
  try {
    const on = {
      OTEL_EXPORTER_OTLP_ENDPOINT: sink.url,
      OTEL_METRIC_EXPORT_INTERVAL: METRICS_MS,
    };
    const env: Record<Name, Record<string, string>> = {
      off: {},
      on,
      every: { ...on, OTEL_TRACES_SAMPLER: "always_on" },
    };
    const workload = clients === 1 ? "1 client" : `${values.clients} clients`;
    const subjects: Subject[] = [];
    for (const row of NAMES) {
      const gateway = await system.startGateway(row, { env: env[row] });
      const target = {
        kind: "gateway",
        url: gateway.url,
        statements: [UPDATE, SELECT],
        ack: "commit",
      } as const;
      subjects.push(bench.connections({ workload, row, clients }, target, gateway));
    }
    const turns = await takeTurns(subjects, {
      rounds: times.rounds,
      refusalsMax: values.quick ? 0 : REFUSALS_MAX,
      say: (what) => console.error(`… ${what}`),
    });
    await bench.check();
    const ratio = (of: Name, figure: string): number => compared(turns, { workload, of, to: "off", figure });
    const kept = ratio("on", "per_second");
    const ratios = {
      "throughput, on to off": kept,
      "throughput, every transaction traced to off": ratio("every", "per_second"),
      "gateway's processor, on to off": ratio("on", "gateway µs"),
      "gateway's processor, every transaction traced to off": ratio("every", "gateway µs"),
    };
    const bars = values.quick
      ? []
      : [
          bar(`${workload}: on keeps at least ${String(KEPT_MIN)} of the throughput`, kept, {
            min: KEPT_MIN,
          }),
        ];
    const result = { cells: cellsOf(turns), ratios, bars, turns };
    const bytes_sent = sink.bytes();
    if (!values.quick) record("telemetry", { settings: times, trace_cpu_us, bytes_sent, ...result });
    console.log(`bytes sent: ${JSON.stringify(bytes_sent)}`);
    console.log(reportOf(result, COLUMNS));
    return bars;
  } finally {
    bench.close();
    sink.close();
  }
}

/** The sink runs in a process of its own, so that its work does not count. */
async function costs(): Promise<Record<Exclude<Name, "off"> | "never", number>> {
  const sink = await startSinkProcess();
  try {
    return {
      never: await traceCost(0, MANY, sink.url),
      on: await traceCost(DEFAULT_RATIO, MANY, sink.url),
      every: await traceCost(1, MANY / 10, sink.url),
    };
  } finally {
    sink.end();
  }
}

async function startSinkProcess(): Promise<{ url: string; end: () => void }> {
  const program = `require("http").createServer((q, r) => q.resume().on("end", () => r.end()))
    .listen(0, "127.0.0.1", function () { console.log(this.address().port); });
    process.stdin.resume().on("end", () => process.exit())`;
  const child = spawn(process.execPath, ["-e", program], { stdio: ["pipe", "pipe", "inherit"] });
  const port = await new Promise<string>((resolve, reject) => {
    child.once("error", reject);
    createInterface(child.stdout).once("line", resolve);
  });
  return { url: `http://127.0.0.1:${port}`, end: () => child.stdin.end() };
}

const trace_cpu_us = await costs();
console.log(`processor time of one transaction's trace, µs: ${JSON.stringify(trace_cpu_us)}`);
if (values["only-cost"] === true) process.exit(0);

let bars: readonly Bar[];
{
  await using system = await BenchSystem.start();
  bars = await run(system);
}
process.exit(bars.every(({ met }) => met) ? 0 : 1);
