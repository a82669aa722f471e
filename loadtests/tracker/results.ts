// From what the parts have measured to the result: the bars, the table, and which bar is missed.
import type { Bar } from "../rounds/bars.ts";
import type { Idle } from "./idle.ts";
import type { Ledger } from "./ledger.ts";
import type { MarkLatency } from "./mark-latency.ts";
import type { Reconciliation } from "./reconciliation.ts";
import type { Streams } from "./streams.ts";

export interface Parts {
  readonly idle: Idle;
  readonly mark_latency: MarkLatency;
  readonly streams: Streams;
  readonly ledger: Ledger;
  readonly reconciliation: Reconciliation;
}

/** Some of the parts. */
export interface Measured extends Partial<Parts> {
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
const PUBLISHED_SECONDS_MAX = 10;
const LEDGER_MIB_MAX = 300;
const ADVANCE_MS_MAX = 100;

export function resultOf(measured: Measured): Result {
  return rounded({ ...measured, bars: barsOf(measured) });
}

function barsOf(measured: Measured): Bar[] {
  const { idle, mark_latency: marks, ledger, reconciliation } = measured;
  return [
    ...(marks === undefined ? [] : marksBars(marks)),
    ...(reconciliation === undefined ? [] : reconciliationBars(reconciliation)),
    ...(ledger === undefined ? [] : ledgerBars(ledger)),
    ...(idle?.tracker_cpu_core == null
      ? []
      : [bar("idle tracker in cores at most", idle.tracker_cpu_core, { max: IDLE_CORE_MAX })]),
  ];
}

function marksBars({ offered_per_second: offered, per_second, p50_ms, p99_ms }: MarkLatency): Bar[] {
  const min = OFFERED_SHARE_MIN * offered;
  return [
    bar(`commits per second, of ${String(offered)} offered, at least`, per_second, { min }),
    bar("mark latency p50 in ms at most", p50_ms, { max: MARK_P50_MS_MAX }),
    bar("mark latency p99 in ms at most", p99_ms, { max: MARK_P99_MS_MAX }),
  ];
}

function reconciliationBars(reconciliation: Reconciliation): Bar[] {
  const { transactions, all_seconds, lost, events_seconds, wrong } = reconciliation;
  return [
    bar(`${counted(transactions)} pending reconciled in seconds at most`, all_seconds, {
      max: RECONCILED_SECONDS_MAX,
    }),
    bar(`${counted(lost)} losses published in seconds at most`, events_seconds, {
      max: PUBLISHED_SECONDS_MAX,
    }),
    bar("wrong verdicts at most", wrong, { max: 0 }),
  ];
}

function ledgerBars({ advanced_over, advance_ms, held_up_ms, pending, resident_mib }: Ledger): Bar[] {
  const advance = bar(
    `a mark advanced over ${counted(advanced_over)} in ms at most`,
    Math.max(advance_ms, held_up_ms),
    { max: ADVANCE_MS_MAX },
  );
  if (resident_mib === null) return [advance];
  return [
    advance,
    bar(`memory with ${counted(pending)} pending in MiB at most`, resident_mib, { max: LEDGER_MIB_MAX }),
  ];
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

type Row = readonly [what: string, value: string];

export function tableOf(result: Result): string {
  const { idle, mark_latency: marks, streams, ledger, reconciliation, load_average: load } = result;
  const rows: Row[] = [
    ...(marks === undefined ? [] : marksRows(marks)),
    ...(idle === undefined ? [] : [idleRow(idle)]),
    ...(streams === undefined ? [] : streamsRows(streams)),
    ...(reconciliation === undefined ? [] : reconciliationRows(reconciliation)),
    ...(ledger === undefined ? [] : ledgerRows(ledger)),
    [
      "load average",
      `${String(load.before)} before, ${String(load.after)} after, on ${String(load.cores)} cores`,
    ],
  ];
  const width = Math.max(...rows.map(([what]) => what.length));
  return rows.map(([what, value]) => `${what.padEnd(width)}  ${value}`).join("\n");
}

function marksRows(marks: MarkLatency): Row[] {
  const engine = marks.synchronous_replication;
  return [
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
  ];
}

function idleRow(idle: Idle): Row {
  return [
    "idle, 3 nodes",
    `tracker ${percent(idle.tracker_cpu_core)} of a core, backends that it asks ${percent(idle.asked_backends_cpu_core)}`,
  ];
}

function streamsRows(streams: Streams): Row[] {
  return [
    [
      `${counted(streams.streams)} streams`,
      `${percent(streams.tracker_cpu_core)} of a core at ${String(Math.round(streams.commits_per_second))} commits/s, ${String(streams.tracker_kib_per_stream ?? "-")} KiB each, ${String(streams.marks_per_second)} marks/s to each`,
    ],
    ["  publication to receipt", `p50 ${ms(streams.p50_ms)}, p99 ${ms(streams.p99_ms)}`],
    ["  acknowledgement to receipt", `p50 ${ms(streams.promise_p50_ms)}, p99 ${ms(streams.promise_p99_ms)}`],
  ];
}

function reconciliationRows(of: Reconciliation): Row[] {
  return [
    [
      `${counted(of.transactions)} after a failover`,
      `${String(of.all_seconds)} s (new epoch ${String(of.new_epoch_seconds)} s, half ${String(of.half_seconds)} s): ${counted(of.carried_over)} carried over, ${counted(of.lost)} lost, ${String(of.wrong)} wrong`,
    ],
    ["  every loss published", `${String(of.events_seconds)} s`],
    [
      "  processor",
      `tracker ${seconds(of.tracker_cpu_seconds)} (${seconds(of.tracker_cpu_seconds_with_events)} until then), primary ${seconds(of.server_cpu_seconds)}`,
    ],
  ];
}

function ledgerRows(ledger: Ledger): Row[] {
  return [
    [
      `${counted(ledger.pending)} pending`,
      `${mib(ledger.resident_mib)} (at most ${mib(ledger.peak_mib)}), ${counted(Math.round(ledger.announced_per_second))} announced/s`,
    ],
    [
      `  mark over ${counted(ledger.advanced_over)}`,
      `${ms(ledger.advance_ms)}, no request held up for more than ${ms(ledger.held_up_ms)}`,
    ],
    ["  restart", `${String(ledger.restart_seconds)} s, then ${mib(ledger.resident_after_restart_mib)}`],
  ];
}

const ms = (value: number | null): string => (value === null ? "-" : `${value.toFixed(1)} ms`);
const seconds = (value: number | null): string => (value === null ? "-" : `${value.toFixed(2)} s`);
const mib = (value: number | null): string => (value === null ? "-" : `${String(Math.round(value))} MiB`);
const percent = (share: number | null): string => (share === null ? "-" : `${(100 * share).toFixed(1)} %`);
const ratio = (value: number): string => value.toFixed(1);
