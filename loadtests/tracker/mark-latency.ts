// How long after a replica's acknowledgement arrived at the primary a client's promise is resolved,
// and what that costs the tracker and the database. The same for PostgreSQL's own synchronous
// replication over the same link.
import { quantile } from "../rounds/figures.ts";
import { median } from "../rounds/figures.ts";
import { cpuOf, cpuOfBackends, type Spent, spentBetween } from "../rounds/cpu.ts";
import { type Acknowledgements, acknowledgedAtMs } from "./acknowledgements.ts";
import { type BenchSystem, LEVEL, REPLICAS } from "./bench-system.ts";
import type { CommitOrders, Commits } from "./commits-process.ts";
import type { Helper } from "./helper.ts";

interface LatencyRound {
  readonly per_second: number;
  readonly p50_ms: number;
  readonly p99_ms: number;
  readonly acknowledgements_per_second: number;
  /**
   * Processor milliseconds of the tracker, and of the primary's backends that it asks, for 1,000
   * commits.
   */
  readonly tracker_cpu_ms: number | null;
  readonly asked_backends_cpu_ms: number | null;
}

interface SynchronousRound {
  readonly per_second: number;
  readonly p50_ms: number;
  readonly p99_ms: number;
}

export interface MarkLatency {
  readonly offered_per_second: number;
  readonly commits: number;
  /** Medians over the rounds. */
  readonly per_second: number;
  readonly p50_ms: number;
  readonly p99_ms: number;
  readonly tracker_cpu_ms_per_1000_commits: number | null;
  readonly asked_backends_cpu_ms_per_1000_commits: number | null;
  readonly rounds: readonly LatencyRound[];
  readonly synchronous_replication: SynchronousRound & { readonly rounds: readonly SynchronousRound[] };
  readonly p50_to_synchronous_replication: number;
}

export interface LatencyOptions {
  readonly rate: number;
  readonly rounds: number;
  readonly roundMs: number;
  readonly warmUpMs: number;
}

/**
 * A few acknowledgements may still be on their way when the last promise has been resolved by
 * another.
 */
const EXTRA_COMMIT_MS = 100;

export async function measureMarkLatency(
  parts: {
    readonly system: BenchSystem;
    readonly commits: Helper<CommitOrders>;
    readonly tracker: { readonly name: string; readonly pid: number | undefined };
  },
  { rate, rounds, roundMs, warmUpMs }: LatencyOptions,
): Promise<MarkLatency> {
  const { system, commits, tracker } = parts;
  const url = await system.appUrl();
  const measured: LatencyRound[] = [];
  const synchronous: SynchronousRound[] = [];
  await commits.ask("run", { rate, durationMs: warmUpMs, level: LEVEL }, warmUpMs);
  let count = 0;
  for (let round = 0; round < rounds; round++) {
    const backends = await system.backendsOf(tracker.name);
    await system.relay.ask("take", undefined);
    const read = { tracker: cpuOf(tracker.pid), backends: cpuOfBackends(backends) };
    const done = await commits.ask("run", { rate, durationMs: roundMs, level: LEVEL }, roundMs);
    const spent = (before: Spent, after: Spent): number | null => {
      const ms = spentBetween(before, after);
      return ms === null ? null : (1_000 * ms) / done.offsets.length;
    };
    const cpu = {
      tracker_cpu_ms: spent(read.tracker, cpuOf(tracker.pid)),
      asked_backends_cpu_ms: spent(read.backends, cpuOfBackends(backends)),
    };
    const acknowledgements = await system.relay.ask("take", undefined);
    count += done.offsets.length;
    measured.push({ ...roundOf(done, acknowledgements), ...cpu });
    await setSynchronous(system, true);
    synchronous.push(await measureSynchronous(parts, url, { rate, roundMs }));
    await setSynchronous(system, false);
  }
  const middle = (of: (round: LatencyRound) => number | null): number | null => {
    const known = measured.flatMap((round) => of(round) ?? []);
    return known.length === 0 ? null : median(known);
  };
  const p50 = median(measured.map((round) => round.p50_ms));
  const engine = {
    per_second: median(synchronous.map((round) => round.per_second)),
    p50_ms: median(synchronous.map((round) => round.p50_ms)),
    p99_ms: median(synchronous.map((round) => round.p99_ms)),
  };
  return {
    offered_per_second: rate,
    commits: count,
    per_second: median(measured.map((round) => round.per_second)),
    p50_ms: p50,
    p99_ms: median(measured.map((round) => round.p99_ms)),
    tracker_cpu_ms_per_1000_commits: middle((round) => round.tracker_cpu_ms),
    asked_backends_cpu_ms_per_1000_commits: middle((round) => round.asked_backends_cpu_ms),
    rounds: measured,
    synchronous_replication: { ...engine, rounds: synchronous },
    p50_to_synchronous_replication: p50 / engine.p50_ms,
  };
}

/** Each commit against the first acknowledgement that covers it. */
export function latenciesOf(
  offsets: readonly number[],
  receivedMs: readonly number[],
  acknowledgements: Acknowledgements,
): number[] {
  return offsets
    .map((offset, at) => {
      const ackMs = acknowledgedAtMs(acknowledgements, offset);
      const received = receivedMs[at];
      if (ackMs === null || received === undefined)
        throw new Error(
          `no replica acknowledged the commit at ${String(offset)}, and its promise was resolved`,
        );
      return received - ackMs;
    })
    .sort((a, b) => a - b);
}

function roundOf(
  { offsets, durableMs, elapsedMs }: Commits,
  acknowledgements: Acknowledgements,
): Omit<LatencyRound, "tracker_cpu_ms" | "asked_backends_cpu_ms"> {
  const latencies = latenciesOf(offsets, durableMs, acknowledgements);
  return {
    per_second: (1_000 * offsets.length) / elapsedMs,
    p50_ms: quantile(latencies, 0.5),
    p99_ms: quantile(latencies, 0.99),
    acknowledgements_per_second: (1_000 * acknowledgements.flushed.length) / elapsedMs,
  };
}

async function measureSynchronous(
  { system, commits }: { readonly system: BenchSystem; readonly commits: Helper<CommitOrders> },
  url: string,
  { rate, roundMs }: { readonly rate: number; readonly roundMs: number },
): Promise<SynchronousRound> {
  await system.relay.ask("take", undefined);
  const done = await commits.ask("runSynchronous", { url, rate, durationMs: roundMs }, roundMs);
  await new Promise((resolve) => setTimeout(resolve, EXTRA_COMMIT_MS));
  const acknowledgements = await system.relay.ask("take", undefined);
  // The log's end before the commit record: what covers the record is above it.
  const latencies = latenciesOf(
    done.offsets.map((offset) => offset + 1),
    done.answeredMs,
    acknowledgements,
  );
  return {
    per_second: (1_000 * done.offsets.length) / done.elapsedMs,
    p50_ms: quantile(latencies, 0.5),
    p99_ms: quantile(latencies, 0.99),
  };
}

/**
 * Whether commits with `synchronous_commit=on` wait for a replica of another region, as the level
 * does.
 */
async function setSynchronous(system: BenchSystem, on: boolean): Promise<void> {
  const names = on ? `ANY 1 (${REPLICAS.join(", ")})` : "";
  await system.query(`ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
  await system.query("SELECT pg_reload_conf()");
  const deadlineMs = performance.now() + 60_000;
  for (;;) {
    const rows = await system.query("SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'");
    if (rows.length === REPLICAS.length && rows.every((row) => (row["sync_state"] === "quorum") === on))
      return;
    if (performance.now() > deadlineMs) throw new Error("the replicas did not take their new part");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
