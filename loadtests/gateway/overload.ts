// `make bench-overload`: ten times as many clients as the gateway has room for, none of which ever
// waits. How fast is the refusal, does memory stay flat, and is the service itself again when they
// have gone? Loopback only, bounded in time.
import { Agent, request } from "node:http";
import { makeUuidV7 } from "@highwater/protocol";
import { bar, verdictOf } from "../rounds/bars.ts";
import { quantile } from "../rounds/figures.ts";
import { residentKib } from "../tracker/streams.ts";
import { BenchSystem } from "./bench-system.ts";

const POOL = 16;
const QUEUE = 64;
const CLIENTS = 10 * (POOL + QUEUE);
const PHASE_MS = 5_000;
const REFUSAL_BAR_MS = 50;
/** Of memory, from the first to the last phase of overload. */
const GROWTH_BAR = 1.1;

interface Counted {
  committed: number;
  conflicts: number;
  refused: number;
  other: number;
  readonly refusedMs: number[];
}

interface Phase {
  readonly name: string;
  readonly clients: number;
  readonly committed_per_s: number;
  readonly refused_per_s: number;
  /** Neither committed, nor a conflict, nor a refusal that says when to come again. */
  readonly other: number;
  readonly refused_p50_ms: number | null;
  readonly refused_p99_ms: number | null;
  readonly resident_mib: number;
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

await using system = await BenchSystem.start();
const gateway = await system.startGateway("overloaded", {
  env: { GATEWAY_POOL_SIZE: String(POOL), GATEWAY_POOL_QUEUE: String(QUEUE) },
});
const url = new URL("/v1/transactions", gateway.url);
const phases: Phase[] = [];
for (const [name, clients] of [
  ["warm", POOL],
  ["sustained", (POOL + QUEUE) / 2],
  ["overload 1", CLIENTS],
  ["overload 2", CLIENTS],
  ["overload 3", CLIENTS],
  ["after", (POOL + QUEUE) / 2],
] as const) {
  const { committed, refused, other, refusedMs } = await load(url, clients, PHASE_MS);
  const seconds = PHASE_MS / 1_000;
  refusedMs.sort((a, b) => a - b);
  const refusedAt = (share: number): number | null =>
    refused === 0 ? null : Math.round(10 * quantile(refusedMs, share)) / 10;
  const phase: Phase = {
    name,
    clients,
    committed_per_s: Math.round(committed / seconds),
    refused_per_s: Math.round(refused / seconds),
    other,
    refused_p50_ms: refusedAt(0.5),
    refused_p99_ms: refusedAt(0.99),
    resident_mib: Math.round((residentKib(gateway.pid) ?? Number.NaN) / 1_024),
  };
  phases.push(phase);
  console.log(JSON.stringify(phase));
}
await system.stop(gateway);
const of = (wanted: string): Phase | undefined => phases.find(({ name }) => name === wanted);
const first = of("overload 1")?.resident_mib ?? Number.NaN;
const { refused_p50_ms, resident_mib: last = Number.NaN } = of("overload 3") ?? {};
const unexpected = phases.reduce((sum, { other }) => sum + other, 0);
const bars = [
  bar(`p50 of a refusal in ms at most ${String(REFUSAL_BAR_MS)}`, refused_p50_ms ?? Number.NaN, {
    max: REFUSAL_BAR_MS,
  }),
  bar(
    `memory at the end of the overload at most ${String(GROWTH_BAR)} times that at its beginning`,
    last / first,
    { max: GROWTH_BAR },
  ),
  bar("unexpected answers at most 0", unexpected, { max: 0 }),
  bar("refusals a second afterwards at most 0", of("after")?.refused_per_s ?? Number.NaN, { max: 0 }),
];
console.log(bars.map(verdictOf).join("\n"));
process.exit(bars.every(({ met }) => met) ? 0 : 1);
