// From what the parts have measured to the result: the bars, the table, and which bar is missed.
import type { Bar } from "../gateway/results.ts";
import type { Idle } from "./idle.ts";
import type { Ledger } from "./ledger.ts";
import type { MarkLatency } from "./mark-latency.ts";
import type { Reconciliation } from "./reconciliation.ts";
import type { Streams } from "./streams.ts";

export interface Measured {
  readonly idle: Idle;
  readonly mark_latency: MarkLatency;
  readonly streams: Streams;
  readonly ledger: Ledger;
  readonly reconciliation: Reconciliation;
  /** Of the machine: what other work there was. */
  readonly load_average: { readonly cores: number; readonly before: number; readonly after: number };
}

export interface Result extends Measured {
  readonly bars: readonly Bar[];
}

const MARK_P50_MS_MAX = 5;
const MARK_P99_MS_MAX = 20;
/** Of the commits that were offered, so many must have been taken for the latency to count. */
const OFFERED_SHARE_MIN = 0.97;
const IDLE_CORE_MAX = 0.01;
const RECONCILED_SECONDS_MAX = 5;
const LEDGER_MIB_MAX = 300;
const ADVANCE_MS_MAX = 100;

export function resultOf(measured: Measured): Result {
  return rounded({ ...measured, bars: barsOf(measured) });
}

function barsOf({ idle, mark_latency, ledger, reconciliation }: Measured): Bar[] {
  const { offered_per_second: offered } = mark_latency;
  const bars: Bar[] = [
    bar(`commits per second, of ${String(offered)} offered, at least`, mark_latency.per_second, {
      min: OFFERED_SHARE_MIN * offered,
    }),
    bar("mark latency p50 in ms at most", mark_latency.p50_ms, { max: MARK_P50_MS_MAX }),
    bar("mark latency p99 in ms at most", mark_latency.p99_ms, { max: MARK_P99_MS_MAX }),
    bar(
      `${counted(reconciliation.transactions)} pending reconciled in seconds at most`,
      reconciliation.all_seconds,
      {
        max: RECONCILED_SECONDS_MAX,
      },
    ),
    bar("wrong verdicts at most", reconciliation.wrong, { max: 0 }),
    bar(
      `a mark advanced over ${counted(ledger.advanced_over)} in ms at most`,
      Math.max(ledger.advance_ms, ledger.held_up_ms),
      { max: ADVANCE_MS_MAX },
    ),
  ];
  if (idle.tracker_cpu_core !== null)
    bars.push(bar("idle tracker in cores at most", idle.tracker_cpu_core, { max: IDLE_CORE_MAX }));
  if (ledger.resident_mib !== null)
    bars.push(
      bar(`memory with ${counted(ledger.pending)} pending in MiB at most`, ledger.resident_mib, {
        max: LEDGER_MIB_MAX,
      }),
    );
  return bars;
}

/** Something that is not a number meets no bar. */
function bar(what: string, measured: number, { min, max }: { min?: number; max?: number }): Bar {
  const met = (min === undefined || measured >= min) && (max === undefined || measured <= max);
  return { what: `${what} ${String(min ?? max)}`, measured, met };
}

function counted(count: number): string {
  return count.toLocaleString("en-US");
}

/** Three digits behind the point are more than any of it repeats. */
function rounded<T>(value: T): T {
  const text = JSON.stringify(value, (_, each: unknown) =>
    typeof each === "number" ? Number(each.toFixed(3)) : each,
  );
  return JSON.parse(text) as T;
}

export function tableOf(result: Result): string {
  const { idle, mark_latency: marks, streams, ledger, reconciliation, load_average: load } = result;
  const engine = marks.synchronous_replication;
  const rows: [string, string][] = [
    [
      "mark latency",
      `p50 ${ms(marks.p50_ms)}, p99 ${ms(marks.p99_ms)} at ${String(Math.round(marks.per_second))} commits/s`,
    ],
    [
      "  synchronous replication",
      `p50 ${ms(engine.p50_ms)}, p99 ${ms(engine.p99_ms)}: ${ratio(marks.p50_to_synchronous_replication)} times its p50`,
    ],
    [
      "processor per 1,000 commits",
      `tracker ${ms(marks.tracker_cpu_ms_per_1000_commits)}, backends that it asks ${ms(marks.asked_backends_cpu_ms_per_1000_commits)}`,
    ],
    [
      "idle, 3 nodes",
      `tracker ${percent(idle.tracker_cpu_core)} of a core, backends that it asks ${percent(idle.asked_backends_cpu_core)}`,
    ],
    [
      `${counted(streams.streams)} streams`,
      `${percent(streams.tracker_cpu_core)} of a core at ${String(Math.round(streams.commits_per_second))} commits/s, ${String(streams.tracker_kib_per_stream ?? "-")} KiB each, ${String(streams.marks_per_second)} marks/s to each`,
    ],
    ["  publication to receipt", `p50 ${ms(streams.p50_ms)}, p99 ${ms(streams.p99_ms)}`],
    ["  acknowledgement to receipt", `p50 ${ms(streams.promise_p50_ms)}, p99 ${ms(streams.promise_p99_ms)}`],
    [
      `${counted(reconciliation.transactions)} after a failover`,
      `${String(reconciliation.all_seconds)} s (new epoch ${String(reconciliation.new_epoch_seconds)} s, half ${String(reconciliation.half_seconds)} s): ${counted(reconciliation.carried_over)} carried over, ${counted(reconciliation.lost)} lost, ${String(reconciliation.wrong)} wrong`,
    ],
    [
      `${counted(ledger.pending)} pending`,
      `${mib(ledger.resident_mib)} (at most ${mib(ledger.peak_mib)}), ${counted(Math.round(ledger.announced_per_second))} announced/s`,
    ],
    [
      `  mark over ${counted(ledger.advanced_over)}`,
      `${ms(ledger.advance_ms)}, nobody held up for more than ${ms(ledger.held_up_ms)}`,
    ],
    ["  restart", `${String(ledger.restart_seconds)} s, then ${mib(ledger.resident_after_restart_mib)}`],
    [
      "load average",
      `${String(load.before)} before, ${String(load.after)} after, on ${String(load.cores)} cores`,
    ],
  ];
  const width = Math.max(...rows.map(([what]) => what.length));
  return rows.map(([what, value]) => `${what.padEnd(width)}  ${value}`).join("\n");
}

const ms = (value: number | null): string => (value === null ? "-" : `${value.toFixed(1)} ms`);
const mib = (value: number | null): string => (value === null ? "-" : `${String(Math.round(value))} MiB`);
const percent = (share: number | null): string => (share === null ? "-" : `${(100 * share).toFixed(1)} %`);
const ratio = (value: number): string => value.toFixed(1);
