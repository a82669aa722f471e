// Runs the parts one after the other on one system, or one of them; the last one leaves the primary
// dead.
import { availableParallelism, loadavg } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { BenchSystem } from "./bench-system.ts";
import type { CommitOrders } from "./commits-process.ts";
import { Helper } from "./helper.ts";
import { measureIdle } from "./idle.ts";
import { measureLedger } from "./ledger.ts";
import { measureMarkLatency } from "./mark-latency.ts";
import { measureReconciliation } from "./reconciliation.ts";
import type { Measured, Parts } from "./results.ts";
import { measureStreams } from "./streams.ts";

export interface Sizes {
  readonly settleMs: number;
  readonly idleMs: number;
  readonly rate: number;
  readonly rounds: number;
  readonly roundMs: number;
  readonly warmUpMs: number;
  readonly streams: number;
  readonly streamsRate: number;
  readonly streamsMs: number;
  readonly pending: number;
  readonly advancedOver: number;
  readonly reconciled: number;
}

export const FULL: Sizes = {
  settleMs: 10_000,
  idleMs: 12_000,
  rate: 1_000,
  rounds: 5,
  roundMs: 3_000,
  warmUpMs: 3_000,
  streams: 2_000,
  streamsRate: 200,
  streamsMs: 10_000,
  pending: 1_000_000,
  advancedOver: 100_000,
  reconciled: 100_000,
};

type Say = (what: string) => void;

export interface Manner {
  readonly say: Say;
  /** Folder for processor profiles of the trackers. */
  readonly profile?: string | undefined;
}

/** Parts that can be measured alone. */
export const PARTS = ["serving", "ledger", "failover"] as const;
export type Part = (typeof PARTS)[number];

const MEASURE = { serving: measureServing, ledger: measureFull, failover: measureFailover } as const;

export function measureAll(sizes: Sizes, manner: Manner): Promise<Parts & Measured> {
  return measureOn(manner, async (system) => ({
    ...(await measureServing(system, sizes, manner.say)),
    ...(await measureFull(system, sizes, manner.say)),
    ...(await measureFailover(system, sizes, manner.say)),
  }));
}

export function measurePart(part: Part, sizes: Sizes, manner: Manner): Promise<Measured> {
  return measureOn<Partial<Parts>>(manner, (system) => MEASURE[part](system, sizes, manner.say));
}

async function measureOn<T>(
  { profile }: Manner,
  measure: (system: BenchSystem) => Promise<T>,
): Promise<T & Pick<Measured, "load_average">> {
  const before = loadavg()[0] ?? Number.NaN;
  await using system = await BenchSystem.start(profile);
  const measured = await measure(system);
  const after = loadavg()[0] ?? Number.NaN;
  return { ...measured, load_average: { cores: availableParallelism(), before, after } };
}

async function measureFull(system: BenchSystem, sizes: Sizes, say: Say): Promise<Pick<Parts, "ledger">> {
  say(`${String(sizes.pending)} pending in one ledger`);
  return { ledger: await measureLedger(system, sizes) };
}

/** Leaves the primary dead. */
async function measureFailover(
  system: BenchSystem,
  sizes: Sizes,
  say: Say,
): Promise<Pick<Parts, "reconciliation">> {
  say(`${String(sizes.reconciled)} pending, and the primary is lost`);
  const tracker = await system.startTracker("tracker-after-failover");
  const transactions = sizes.reconciled;
  const reconciliation = await measureReconciliation({ system, tracker }, { transactions });
  await system.stop(tracker);
  return { reconciliation };
}

/** What one tracker and one gateway do while all is well. */
async function measureServing(
  system: BenchSystem,
  sizes: Sizes,
  say: Say,
): Promise<Pick<Parts, "idle" | "mark_latency" | "streams">> {
  const name = "tracker";
  const tracker = await system.startTracker(name);
  const gateway = await system.startGateway([tracker.url]);
  using commits = new Helper<CommitOrders>(new URL("./commits-process.ts", import.meta.url));
  await commits.ask("open", { gateway: gateway.url, tracker: tracker.url });
  const parts = { system, commits, tracker: { name, url: tracker.url, pid: tracker.pid } };
  say(`${String(sizes.rate)} commits per second`);
  const mark_latency = await measureMarkLatency(parts, sizes);
  // Only now: code that has not run often is slow, and a tracker that has been up for a while is
  // what idles.
  say("idle");
  await pause(sizes.settleMs);
  const idle = await measureIdle(system, parts.tracker, sizes.idleMs);
  say(`${String(sizes.streams)} streams`);
  const streams = await measureStreams(parts, {
    streams: sizes.streams,
    rate: sizes.streamsRate,
    durationMs: sizes.streamsMs,
  });
  await commits.ask("close", undefined);
  await system.stop(gateway);
  await system.stop(tracker);
  return { idle, mark_latency, streams };
}
