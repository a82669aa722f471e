// Thousands of streams at once while transactions commit. Measures the memory and processor time of
// a stream in the tracker, and the delay until the last stream receives a mark.
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { cpuOf, spentBetween } from "../rounds/cpu.ts";
import { quantile } from "../rounds/figures.ts";
import { acknowledgedAtMs, type Acknowledgements } from "./acknowledgements.ts";
import { type BenchSystem, LEVEL } from "./bench-system.ts";
import type { CommitOrders } from "./commits-process.ts";
import { Helper } from "./helper.ts";
import type { Receipts, StreamOrders } from "./stream-clients-process.ts";

export interface Streams {
  readonly streams: number;
  readonly commits_per_second: number;
  /** Marks that one stream received. */
  readonly marks_per_second: number;
  readonly tracker_cpu_core: number | null;
  readonly clients_cpu_core: number | null;
  readonly tracker_kib_per_stream: number | null;
  /** From the first stream that received a mark to each of them. */
  readonly p50_ms: number;
  readonly p99_ms: number;
  /** From the replica's acknowledgement at the primary to the stream whose promise it is. */
  readonly promise_p50_ms: number;
  readonly promise_p99_ms: number;
}

export interface StreamsOptions {
  readonly streams: number;
  readonly rate: number;
  readonly durationMs: number;
}

/** By then, memory that was needed only for opening has been given back. */
const SETTLE_MS = 1_000;
const POLL_MS = 100;
/**
 * The last marks are in flight: this long at least, and on a busy machine until every stream has
 * them.
 */
const TAIL_MS = 1_000;
const TAIL_LIMIT_MS = 60_000;

export async function measureStreams(
  parts: {
    readonly system: BenchSystem;
    readonly commits: Helper<CommitOrders>;
    readonly tracker: { readonly url: string; readonly pid: number | undefined };
  },
  { streams, rate, durationMs }: StreamsOptions,
): Promise<Streams> {
  const { system, commits, tracker } = parts;
  using clients = new Helper<StreamOrders>(new URL("./stream-clients-process.ts", import.meta.url));
  const without = residentKib(tracker.pid);
  await clients.ask("open", { tracker: tracker.url, count: streams });
  await pause(SETTLE_MS);
  const kib = perStream(without, residentKib(tracker.pid), streams);
  await clients.ask("take", undefined);
  await system.relay.ask("take", undefined);
  const read = { tracker: cpuOf(tracker.pid), clients: cpuOf(clients.pid) };
  const done = await commits.ask("run", { rate, durationMs, level: null }, durationMs);
  const cpu = {
    tracker: spentBetween(read.tracker, cpuOf(tracker.pid)),
    clients: spentBetween(read.clients, cpuOf(clients.pid)),
  };
  const overMs = performance.now();
  await pause(TAIL_MS);
  const last = { level: LEVEL, offset: Math.max(...done.offsets) };
  const tailMs = (): number => performance.now() - overMs;
  while (!(await clients.ask("haveReceived", last)) && tailMs() < TAIL_LIMIT_MS) await pause(POLL_MS);
  const watchedMs = done.elapsedMs + tailMs();
  const receipts = await clients.ask("take", undefined);
  const acknowledgements = await system.relay.ask("take", undefined);
  await clients.ask("close", undefined);
  const late = delaysOf(receipts);
  const promises = promiseDelays(receipts, { offsets: done.offsets, acknowledgements, streams });
  const core = (ms: number | null): number | null => (ms === null ? null : ms / done.elapsedMs);
  return {
    streams,
    commits_per_second: (1_000 * done.offsets.length) / done.elapsedMs,
    marks_per_second: (1_000 * receipts.atMs.length) / streams / watchedMs,
    tracker_cpu_core: core(cpu.tracker),
    clients_cpu_core: core(cpu.clients),
    tracker_kib_per_stream: kib,
    p50_ms: quantile(late, 0.5),
    p99_ms: quantile(late, 0.99),
    promise_p50_ms: quantile(promises, 0.5),
    promise_p99_ms: quantile(promises, 0.99),
  };
}

/** The delay of each receipt after the first of the same event, in ascending order. */
export function delaysOf({ events, atMs }: Receipts): Float64Array {
  const first = new Map<number, number>();
  for (const [at, event] of events.entries()) {
    const known = first.get(event);
    if (known === undefined || (atMs[at] ?? 0) < known) first.set(event, atMs[at] ?? 0);
  }
  return atMs.map((receivedMs, at) => receivedMs - (first.get(events[at] ?? 0) ?? receivedMs)).sort();
}

/** The streams hold the transactions' promises in turn. */
export function promiseDelays(
  receipts: Receipts,
  about: {
    readonly offsets: readonly number[];
    readonly acknowledgements: Acknowledgements;
    readonly streams: number;
  },
): number[] {
  const { offsets, acknowledgements, streams } = about;
  const received = Array.from({ length: streams }, (): { mark: number; atMs: number }[] => []);
  for (const [at, stream] of receipts.streams.entries()) {
    const mark = Number(receipts.marks.get(receipts.events[at] ?? 0)?.[LEVEL] ?? 0);
    received[stream]?.push({ mark, atMs: receipts.atMs[at] ?? 0 });
  }
  return offsets
    .map((offset, at) => {
      const ackMs = acknowledgedAtMs(acknowledgements, offset);
      const passed = received[at % streams]?.find(({ mark }) => mark >= offset);
      if (ackMs === null || passed === undefined)
        throw new Error(`the stream of the commit at ${String(offset)} never received it`);
      return passed.atMs - ackMs;
    })
    .sort((a, b) => a - b);
}

function perStream(before: number | null, after: number | null, streams: number): number | null {
  return before === null || after === null ? null : (after - before) / streams;
}

/** The process's share of the machine's memory; null where the system does not report it. */
export function residentKib(pid: number | undefined, what: "VmRSS" | "VmHWM" = "VmRSS"): number | null {
  if (pid === undefined) return null;
  try {
    const status = readFileSync(`/proc/${String(pid)}/status`, "latin1");
    return Number(new RegExp(`^${what}:\\s+(\\d+) kB$`, "m").exec(status)?.[1]);
  } catch {
    return null;
  }
}
