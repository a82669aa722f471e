// `make bench-telemetry`: the same transaction through three gateways on one primary, with one
// tracker: telemetry off, on as it is by default (traces, metrics and logs by OTLP, one transaction
// in a hundred), and with every transaction traced. They take turns, each round in another order,
// so that what disturbs the machine disturbs all; a ratio compares neighbours of one round.
// Options: --rounds N, --seconds S (of a segment), --clients N (1, 8 or 64), --only-cost (of a
// trace by itself). Exit codes: 0 when the bar is met, 1 when it is missed or the benchmark failed.
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { readOptions } from "@highwater/lab-tools/process";
import { record } from "../record.ts";
import { median } from "../rounds/figures.ts";
import { Bench, type Subject } from "./bench.ts";
import { BenchSystem } from "./bench-system.ts";
import { traceCost } from "./trace-cost.ts";
import { CLIENTS as ALL_CLIENTS, type ClientCount, type Sample, tpsOf } from "./results.ts";
import { measureInRounds, readRounds } from "./rounds.ts";

/** The compiler has to see all of it, also on a machine that has other things to do. */
const WARM_UP_MS = 8_000;
/** The share of its throughput that the gateway must keep. */
const KEPT_MIN = 0.95;
/** As the service's own. */
const DEFAULT_RATIO = 0.01;
const MANY = 200_000;
/** The standard's minute would fall into a few segments only, and weigh on them alone. */
const METRICS_MS = "10000";

const { values } = readOptions(import.meta.filename, {
  options: {
    rounds: { type: "string", default: "8" },
    seconds: { type: "string", default: "2" },
    clients: { type: "string", default: "64" },
    "only-cost": { type: "boolean" },
  },
});
const asked = ALL_CLIENTS.find((clients) => String(clients) === values.clients);
if (asked === undefined) throw new Error(`--clients is one of ${ALL_CLIENTS.join(", ")}`);
const CLIENTS: readonly ClientCount[] = [asked];
const how = { ...readRounds(values), clientCounts: CLIENTS, warmUpMs: WARM_UP_MS };

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

function ratio(
  samples: readonly Sample[],
  of: Name,
  clients: ClientCount,
  value: (sample: Sample) => number,
) {
  const here = samples.filter((sample) => sample.clients === clients);
  return median(
    here.flatMap((sample) => {
      const off = here.find((each) => each.series === "off" && each.round === sample.round);
      return sample.series !== of || off === undefined ? [] : [value(sample) / value(off)];
    }),
  );
}

const cpuOf = ({ cpu, segment }: Sample): number => (1_000 * (cpu.gateway ?? Number.NaN)) / segment.committed;

async function run(system: BenchSystem): Promise<boolean> {
  const bench = new Bench(system);
  const sink = await startSink();
  try {
    const { url: tracker } = await system.startTracker();
    const on = {
      OTEL_EXPORTER_OTLP_ENDPOINT: sink.url,
      OTEL_METRIC_EXPORT_INTERVAL: METRICS_MS,
    };
    const env: Record<Name, Record<string, string>> = {
      off: {},
      on,
      every: { ...on, OTEL_TRACES_SAMPLER: "always_on" },
    };
    const subjects: Subject[] = [];
    for (const name of NAMES) {
      const { url, pid } = await system.startGateway({ name, withTracker: false, tracker, env: env[name] });
      subjects.push({ series: name, target: { kind: "gateway", url }, pid });
    }
    const samples = await measureInRounds(bench, subjects, how);
    await bench.check();
    const cells = Object.fromEntries(
      NAMES.map((name) => [
        name,
        Object.fromEntries(
          CLIENTS.map((clients) => {
            const own = samples.filter((sample) => sample.series === name && sample.clients === clients);
            const tps = Math.round(median(own.map(tpsOf)));
            return [`c${String(clients)}`, { tps, gateway_cpu_us: Math.round(median(own.map(cpuOf))) }];
          }),
        ),
      ]),
    );
    const ratios = Object.fromEntries(
      (["on", "every"] as const).map((name) => [
        name,
        Object.fromEntries(
          CLIENTS.map((clients) => [
            `c${String(clients)}`,
            { tps: ratio(samples, name, clients, tpsOf), cpu: ratio(samples, name, clients, cpuOf) },
          ]),
        ),
      ]),
    );
    const kept = ratio(samples, "on", CLIENTS[0] ?? 64, tpsOf);
    record("telemetry", {
      trace_cpu_us,
      ...cells,
      ratios,
      bytes_sent: sink.bytes(),
      bar: { kept, min: KEPT_MIN },
    });
    console.log(JSON.stringify({ ...cells, ratios, bytes_sent: sink.bytes() }, null, 1));
    const met = kept >= KEPT_MIN;
    console.log(
      `${met ? "met   " : "MISSED"} on keeps ${kept.toFixed(3)} of the throughput at ${values.clients} clients`,
    );
    return met;
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

let met: boolean;
{
  await using system = await BenchSystem.start();
  met = await run(system);
}
process.exit(met ? 0 : 1);
