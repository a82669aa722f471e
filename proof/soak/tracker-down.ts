// One tracker is down for minutes while the others work at full load. When it is back, it must have
// a verdict for every transaction of that time, and clients of the other trackers must not have
// noticed.
import { setTimeout as pause } from "node:timers/promises";
import type { Bar } from "../../loadtests/rounds/bars.ts";
import { median } from "../../loadtests/rounds/figures.ts";
import { Helper } from "../../loadtests/tracker/helper.ts";
import { ifThere, residentMib } from "./host-sample.ts";
import { SoakSystem } from "./soak-system.ts";
import { bar } from "./steady.ts";
import { LEVEL } from "./table.ts";
import type { TokenOrders, Volley } from "./tokens-process.ts";
import { countVerdicts } from "./verdicts.ts";

export interface TrackerDownOptions {
  readonly dir: string;
  readonly downS: number;
  readonly rate: number;
  /** Seconds before the tracker goes down and after it is back. */
  readonly marginS: number;
}

export interface TrackerDown {
  readonly rate: number;
  readonly offered: number;
  readonly committed: number;
  readonly committedPerS: number;
  readonly refused: Volley["refused"];
  readonly other: Volley["other"];
  readonly downS: number;
  readonly committedWhileDown: number;
  /**
   * From the tracker's start until it answers, until its marks cover all earlier commits, and until
   * the gateways have sent it all announcements of that time.
   */
  readonly readyMs: number;
  readonly marksMs: number;
  readonly announcementsMs: number;
  readonly verdicts: Readonly<Record<string, number>>;
  readonly verdictsMs: number;
  /** The gateway's announcements for the tracker at its return, and the gateway's memory. */
  readonly keptAnnouncements: number;
  readonly gatewayMib: { readonly before: number; readonly down: number; readonly back: number };
  readonly others: readonly {
    readonly region: string;
    readonly durableP50Ms: { readonly before: number; readonly down: number; readonly back: number };
    readonly durableP99Ms: { readonly before: number; readonly down: number; readonly back: number };
  }[];
  readonly bars: readonly Bar[];
}

const CONNECTIONS = 64;
const TAIL_MS = 120_000;
const LIMIT_MS = 120_000;
const POLL_MS = 20;
/**
 * The median of a running tracker may rise by this factor while another one is down or comes back.
 */
const DISTURBED_FACTOR = 2;
const DISTURBED_MS = 25;

export async function runTrackerDown(options: TrackerDownOptions): Promise<TrackerDown> {
  await using soak = await SoakSystem.start(options.dir);
  // Awaited, because the system would be closed at once otherwise.
  return await measureTrackerDown(soak, options);
}

export async function measureTrackerDown(
  soak: SoakSystem,
  { downS, rate, marginS }: Omit<TrackerDownOptions, "dir">,
): Promise<TrackerDown> {
  const { system } = soak;
  const [, victim = "", ...rest] = system.regions;
  const others = [soak.home, ...rest];
  using load = new Helper<TokenOrders>(new URL("./tokens-process.ts", import.meta.url));
  const gateway = system.gateway(soak.home).url;
  const trackers = others.map((region) => system.tracker(region).url);
  await load.ask("open", { gateway, trackers, connections: CONNECTIONS, before: null });
  const durationMs = 1_000 * (downS + 2 * marginS);
  const startedMs = performance.now();
  const loading = load.ask("run", { rate, durationMs }, durationMs + TAIL_MS);
  loading.catch(() => undefined);
  await pause(1_000 * marginS);
  const killedMs = performance.now() - startedMs;
  const memory = { before: gatewayMib(soak), down: 0, back: 0 };
  await system.tracker(victim).kill();
  await pause(1_000 * downS);
  memory.down = gatewayMib(soak);
  const keptAnnouncements = Math.max(...(await queueLengths(soak)));
  const backMs = performance.now();
  const goal = await markOf(system.tracker(soak.home).url);
  await system.restartService(victim, "tracker");
  const { url } = system.tracker(victim);
  const readyMs = (await moment(async () => (await fetch(`${url}/readyz`)).ok)) - backMs;
  const marksMs = (await moment(async () => (await markOf(url)) >= goal)) - backMs;
  const announcementsMs = (await moment(() => hasNothingOld(soak, rate))) - backMs;
  const volley = await loading;
  memory.back = gatewayMib(soak);
  await load.ask("close", undefined);
  const { verdicts, tookMs } = await countVerdicts(url, volley.tokens);
  const phases = { killedMs, backMs: backMs - startedMs };
  const measured = {
    rate,
    offered: volley.offered,
    committed: volley.tokens.length,
    committedPerS: (1_000 * volley.tokens.length) / volley.elapsedMs,
    refused: volley.refused,
    other: volley.other,
    downS: (phases.backMs - killedMs) / 1_000,
    committedWhileDown: Math.round((volley.tokens.length * (phases.backMs - killedMs)) / volley.elapsedMs),
    readyMs,
    marksMs,
    announcementsMs,
    verdicts,
    verdictsMs: tookMs,
    keptAnnouncements,
    gatewayMib: memory,
    others: others.map((region, at) => delaysOf(region, volley.durable[at] ?? [], phases)),
  };
  return { ...measured, bars: barsOf(measured) };
}

/** The newest mark of the level; 0 while there is none. */
async function markOf(tracker: string): Promise<bigint> {
  const answer = await fetch(`${tracker}/v1/durability/marks`);
  const { marks } = (await answer.json()) as { marks: { levels: Record<string, string> } | null };
  return BigInt(marks?.levels[LEVEL] ?? 0);
}

/** The gateway keeps at most as many announcements for a tracker as one second of commits. */
async function hasNothingOld(soak: SoakSystem, rate: number): Promise<boolean> {
  const lengths = await queueLengths(soak);
  return lengths.length > 0 && lengths.every((length) => length <= rate);
}

/** Announcements that wait in the gateway, by tracker. */
async function queueLengths(soak: SoakSystem): Promise<number[]> {
  const answer = await fetch(`${soak.system.gateway(soak.home).url}/metrics`);
  const lines = (await answer.text()).matchAll(
    /^highwater_gateway_announcement_queue_length\{[^}]*\} (\d+)$/gm,
  );
  return [...lines].map(([, length]) => Number(length));
}

function gatewayMib(soak: SoakSystem): number {
  const pid = soak.system.gateway(soak.home).pid ?? 0;
  return ifThere(() => residentMib(pid)) ?? Number.NaN;
}

/** When the condition first held. */
async function moment(holds: () => Promise<boolean>): Promise<number> {
  const untilMs = performance.now() + LIMIT_MS;
  while (performance.now() < untilMs) {
    if (await holds().catch(() => false)) return performance.now();
    await pause(POLL_MS);
  }
  return Number.POSITIVE_INFINITY;
}

function delaysOf(
  region: string,
  durable: Volley["durable"][number],
  { killedMs, backMs }: { readonly killedMs: number; readonly backMs: number },
): TrackerDown["others"][number] {
  const phase = (from: number, to: number): number[] =>
    durable.flatMap(({ atMs, tookMs }) => (atMs >= from && atMs < to ? [tookMs] : [])).sort((a, b) => a - b);
  const [before, down, back] = [phase(0, killedMs), phase(killedMs, backMs), phase(backMs, Infinity)];
  const p99 = (sorted: readonly number[]): number => sorted[Math.floor(0.99 * sorted.length)] ?? Number.NaN;
  return {
    region,
    durableP50Ms: { before: median(before), down: median(down), back: median(back) },
    durableP99Ms: { before: p99(before), down: p99(down), back: p99(back) },
  };
}

function barsOf(measured: Omit<TrackerDown, "bars">): Bar[] {
  const { committed, verdicts, other, others } = measured;
  const odd = Object.values(other).reduce((sum, each) => sum + each, 0);
  return [
    bar(
      `durable by the tracker that was down, of ${String(committed)}`,
      verdicts["durable"] ?? 0,
      verdicts["durable"] === committed && committed > 0,
    ),
    bar("answers that were neither a commit nor a refusal", odd, odd === 0),
    bar("catches up, in ms", Math.round(measured.announcementsMs), Number.isFinite(measured.announcementsMs)),
    ...others.flatMap(({ region, durableP50Ms: p50 }) =>
      (["down", "back"] as const).map((phase) => {
        const limit = DISTURBED_FACTOR * p50.before + DISTURBED_MS;
        const what = `median to a promise by ${region} while it is ${phase}, in ms, at most ${limit.toFixed(0)}`;
        return bar(what, Math.round(p50[phase]), p50[phase] <= limit);
      }),
    ),
  ];
}
