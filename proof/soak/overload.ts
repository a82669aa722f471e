// Offers ten times the load that the gateway can take; for a part of that time nothing becomes
// durable. The gateway must refuse the excess, every acknowledged transaction must get its verdict,
// and afterwards everything must be as before.
import { setTimeout as pause } from "node:timers/promises";
import type { ServiceProcess } from "@highwater/lab-system";
import type { Bar } from "../../loadtests/rounds/bars.ts";
import { Helper } from "../../loadtests/tracker/helper.ts";
import { ifThere, residentMib, sampleHeap } from "./host-sample.ts";
import { newId } from "../../loadtests/gateway/http-client.ts";
import { SoakSystem } from "./soak-system.ts";
import { bar } from "./steady.ts";
import type { TokenOrders, Volley } from "./tokens-process.ts";
import { countVerdicts } from "./verdicts.ts";

export interface OverloadOptions {
  readonly dir: string;
  readonly calmS: number;
  readonly overloadS: number;
}

interface Phase {
  readonly name: string;
  readonly offeredPerS: number;
  readonly committedPerS: number;
  readonly refused: Volley["refused"];
  readonly other: Volley["other"];
  readonly commitP50Ms: number;
  readonly commitP99Ms: number;
  readonly refusedP50Ms: number;
  readonly refusedP99Ms: number;
  readonly gatewayMib: number | null;
  readonly gatewayHeapMib: number | null;
}

export interface Overload {
  readonly sustainablePerS: number;
  readonly phases: readonly Phase[];
  readonly retryAfterMissing: number;
  readonly retryAfterSeen: number;
  /** Acknowledged transactions of all phases. */
  readonly acknowledged: number;
  readonly applied: number;
  /** Each tracker's verdicts on all acknowledged transactions, by region. */
  readonly verdicts: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly restarts: number;
  readonly bars: readonly Bar[];
}

/** How long a transaction holds its session, like one that has more work. */
const WORK = "SELECT pg_sleep(0.02)";
const POOL = 8;
const QUEUE = 64;
/** Reached only while nothing becomes durable. */
const EXPOSED_MAX = 150;
const CONNECTIONS = 600;
const TIMES = 10;
/** The share of the planned load that has to be offered; below it the generator is the limit. */
const OFFERED_SHARE_MIN = 0.9;
const RAMP_FIRST = 100;
const RAMP_STEP_MS = 2_000;
const RAMP_GROWTH = 1.5;
const RAMP_MAX = 2_000;
const REFUSED_SHARE_MAX = 0.01;
const RAMP_P99_MS = 500;
const TAIL_MS = 60_000;
/** The load generator and the service share two cores. */
const RECOVERED_FACTOR = 2;
const RECOVERED_MS = 20;
const HEAP_MIB = 16;
const MEBIBYTE = 1_048_576;
const PROBE_EVERY_MS = 100;

export async function runOverload({ dir, calmS, overloadS }: OverloadOptions): Promise<Overload> {
  await using soak = await SoakSystem.start(dir, {
    env: {
      GATEWAY_POOL_SIZE: String(POOL),
      GATEWAY_POOL_QUEUE: String(QUEUE),
      GATEWAY_EXPOSURE_TRANSACTIONS: String(EXPOSED_MAX),
    },
  });
  using load = new Helper<TokenOrders>(new URL("./tokens-process.ts", import.meta.url));
  const gateway = soak.system.gateway(soak.home);
  await load.ask("open", { gateway: gateway.url, trackers: [], connections: CONNECTIONS, before: WORK });
  const pids = soak.services().map(({ pid }) => pid);
  const volleys: Volley[] = [];
  const fire = async (rate: number, durationMs: number): Promise<Volley> => {
    const volley = await load.ask("run", { rate, durationMs }, durationMs + TAIL_MS);
    volleys.push(volley);
    return volley;
  };
  const sustainable = await ramp(fire);
  const phases: Phase[] = [];
  const calmly = async (name: string): Promise<void> => {
    phases.push(phaseOf(name, await fire(sustainable / 2, 1_000 * calmS), soak, gateway));
  };
  await calmly("before");
  const probe = new RefusalProbe(gateway.url);
  probe.start();
  const cutting = cutMiddle(soak, 1_000 * overloadS);
  const flood = await fire(TIMES * sustainable, 1_000 * overloadS);
  phases.push(phaseOf("overload", flood, soak, gateway));
  await cutting;
  await probe.stop();
  await calmly("just after");
  await calmly("after");
  await load.ask("close", undefined);
  const tokens = volleys.flatMap((volley) => volley.tokens);
  const verdicts: Record<string, Readonly<Record<string, number>>> = {};
  for (const region of soak.system.regions)
    verdicts[region] = (await countVerdicts(soak.system.tracker(region).url, tokens)).verdicts;
  const measured = {
    sustainablePerS: sustainable,
    phases,
    retryAfterMissing: probe.missing,
    retryAfterSeen: probe.seen,
    acknowledged: tokens.length + probe.committed,
    applied: await soak.total(soak.home),
    verdicts,
    restarts: soak.services().filter(({ pid, running }) => !running || !pids.includes(pid)).length,
  };
  return { ...measured, bars: barsOf(measured, tokens.length) };
}

/** The highest rate of a short ramp without refusals and with short waits. */
async function ramp(fire: (rate: number, durationMs: number) => Promise<Volley>): Promise<number> {
  let best = 0;
  for (let rate = RAMP_FIRST; rate <= RAMP_MAX; rate *= RAMP_GROWTH) {
    const volley = await fire(rate, RAMP_STEP_MS);
    const share = 1 - volley.tokens.length / volley.offered;
    if (share > REFUSED_SHARE_MAX || volley.commitMs.p99 > RAMP_P99_MS) break;
    best = rate;
  }
  if (best === 0) throw new Error(`not even ${String(RAMP_FIRST)} transactions a second are sustainable`);
  return best;
}

/**
 * Cuts the primary's region off in the middle third of the overload, so that nothing becomes
 * durable.
 */
async function cutMiddle(soak: SoakSystem, overloadMs: number): Promise<void> {
  await pause(overloadMs / 3);
  await soak.cluster.isolate(soak.home);
  await pause(overloadMs / 3);
  await soak.cluster.healAll();
}

/** Checks that refusals have the header, too. The load itself reads only bodies. */
class RefusalProbe {
  readonly #url: string;
  readonly #stop = new AbortController();
  #running: Promise<void> = Promise.resolve();
  seen = 0;
  missing = 0;
  committed = 0;

  constructor(gateway: string) {
    this.#url = `${gateway}/v1/transactions`;
  }

  start(): void {
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const statements = [{ sql: "UPDATE soak SET n = n + 1 WHERE id = 1" }];
      const answer = await fetch(this.#url, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ id: newId(), isolation: "read committed", statements }),
      });
      await answer.text();
      if (answer.status === 200) this.committed++;
      else if (Number(answer.headers.get("retry-after")) >= 1) this.seen++;
      else this.missing++;
      await pause(PROBE_EVERY_MS);
    }
  }
}

function phaseOf(name: string, volley: Volley, soak: SoakSystem, gateway: ServiceProcess): Phase {
  const perS = (count: number): number => (1_000 * count) / volley.elapsedMs;
  const pid = gateway.pid ?? 0;
  const held = sampleHeap(soak.heapDir, pid);
  return {
    name,
    offeredPerS: perS(volley.offered),
    committedPerS: perS(volley.tokens.length),
    refused: volley.refused,
    other: volley.other,
    commitP50Ms: volley.commitMs.p50,
    commitP99Ms: volley.commitMs.p99,
    refusedP50Ms: volley.refusedMs.p50,
    refusedP99Ms: volley.refusedMs.p99,
    gatewayMib: ifThere(() => residentMib(pid)),
    gatewayHeapMib: held === null ? null : held.heapBytes / MEBIBYTE,
  };
}

function barsOf(measured: Omit<Overload, "bars">, acknowledgedCount: number): Bar[] {
  const { phases, sustainablePerS, verdicts } = measured;
  const [before, overload, after] = ["before", "overload", "after"].map((name) =>
    phases.find((phase) => phase.name === name),
  );
  if (before === undefined || overload === undefined || after === undefined) return [bar("phases", 0, false)];
  const odd = phases.flatMap(({ other }) => Object.values(other)).reduce((sum, each) => sum + each, 0);
  const heap = (after.gatewayHeapMib ?? Number.NaN) - (before.gatewayHeapMib ?? Number.NaN);
  const latency = RECOVERED_FACTOR * before.commitP50Ms + RECOVERED_MS;
  const refusedAfter = Object.values(after.refused).reduce((sum, each) => sum + each, 0);
  const times = overload.offeredPerS / sustainablePerS;
  return [
    bar("services that crashed", measured.restarts, measured.restarts === 0),
    bar("times the sustainable rate offered", round(times), times >= OFFERED_SHARE_MIN * TIMES),
    bar("answers that were neither a commit nor a refusal that says when to come again", odd, odd === 0),
    bar(
      "refusals without Retry-After",
      measured.retryAfterMissing,
      measured.retryAfterMissing === 0 && measured.retryAfterSeen > 0,
    ),
    ...["overloaded", "exposure_limit"].map((code) => {
      const count = overload.refused[code] ?? 0;
      return bar(`refused as ${code}`, count, count > 0);
    }),
    ...Object.entries(verdicts).map(([region, said]) =>
      bar(
        `durable by ${region}, of ${String(acknowledgedCount)} acknowledged`,
        said["durable"] ?? 0,
        said["durable"] === acknowledgedCount,
      ),
    ),
    bar(
      `applied, of ${String(measured.acknowledged)} acknowledged`,
      measured.applied,
      measured.applied === measured.acknowledged,
    ),
    bar("refusals after it", refusedAfter, refusedAfter === 0),
    bar(
      `median latency after it in ms, at most ${latency.toFixed(0)}`,
      round(after.commitP50Ms),
      after.commitP50Ms <= latency,
    ),
    bar(`heap after it above that before in MiB, at most ${String(HEAP_MIB)}`, round(heap), heap <= HEAP_MIB),
  ];
}

const round = (value: number): number => Math.round(10 * value) / 10;
