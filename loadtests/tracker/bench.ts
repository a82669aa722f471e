// Runs the parts one after the other on one system; the last of them leaves the primary dead.
import { availableParallelism, loadavg } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { BenchSystem } from "./bench-system.ts";
import type { CommitOrders } from "./commits-process.ts";
import { Helper } from "./helper.ts";
import { measureIdle } from "./idle.ts";
import { measureLedger } from "./ledger.ts";
import { measureMarkLatency } from "./mark-latency.ts";
import { measureReconciliation } from "./reconciliation.ts";
import type { Measured } from "./results.ts";
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

/** `profile`: folder for processor profiles of the trackers. */
export async function measureAll(sizes: Sizes, say: Say, profile?: string): Promise<Measured> {
  const before = loadavg()[0] ?? Number.NaN;
  await using system = await BenchSystem.start(profile);
  const served = await measureServing(system, sizes, say);
  say(`${String(sizes.pending)} pending in one ledger`);
  const ledger = await measureLedger(system, sizes);
  say(`${String(sizes.reconciled)} pending, and the primary is lost`);
  const tracker = await system.startTracker("tracker-after-failover");
  const transactions = sizes.reconciled;
  const reconciliation = await measureReconciliation({ system, trackerUrl: tracker.url }, { transactions });
  await system.stop(tracker);
  const after = loadavg()[0] ?? Number.NaN;
  const load_average = { cores: availableParallelism(), before, after };
  return { ...served, ledger, reconciliation, load_average };
}

/** What one tracker and one gateway do while all is well. */
async function measureServing(
  system: BenchSystem,
  sizes: Sizes,
  say: Say,
): Promise<Pick<Measured, "idle" | "mark_latency" | "streams">> {
  const name = "tracker";
  const tracker = await system.startTracker(name);
  const gateway = await system.startGateway(tracker);
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
