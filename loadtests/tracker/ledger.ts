// Holds one million pending transactions in one tracker. Measures its memory, the time to advance a
// mark over many of them, and the time to be back after a restart. They are announced without ever
// having been committed, at positions that belong to other log records: for the ledger there is no
// difference, and a million commits would take minutes.
import { setTimeout as pause } from "node:timers/promises";
import { eventually } from "@highwater/lab-tools/process";
import type { ServiceProcess } from "@highwater/lab-system";
import type { EpochId, Marks } from "@highwater/protocol";
import { HttpConnection } from "../gateway/http-connection.ts";
import { acknowledgedAtMs } from "./acknowledgements.ts";
import { type BenchSystem, LEVEL } from "./bench-system.ts";
import { hostMs } from "./helper.ts";
import { announceMany, type Committed, newIds } from "./many.ts";
import { MarkListener } from "./mark-listener.ts";
import { residentKib } from "./streams.ts";

export interface Ledger {
  readonly pending: number;
  readonly announced_per_second: number;
  readonly resident_mib: number | null;
  /** The highest memory so far. */
  readonly peak_mib: number | null;
  readonly advanced_over: number;
  /** From the replica's acknowledgement at the primary to the mark on the stream. */
  readonly advance_ms: number;
  /** The longest time without an answer of the tracker while its marks advanced. */
  readonly held_up_ms: number;
  readonly restart_seconds: number;
  readonly resident_after_restart_mib: number | null;
}

export interface LedgerOptions {
  readonly pending: number;
  readonly advancedOver: number;
}

const NAME = "full-ledger";
/**
 * It learns the replicas' positions from the primary: a replica's own report could come before its
 * acknowledgement.
 */
const ENVIRONMENT = { TRACKER_PROBE_INTERVAL_MS: "5000", TRACKER_ALIVE_MS: "60000" };
const SETTLE_MS = 2_000;
const LIMIT_MS = 60_000;
const KIB_PER_MIB = 1_024;

export async function measureLedger(system: BenchSystem, options: LedgerOptions): Promise<Ledger> {
  const { pending, advancedOver } = options;
  let tracker = await system.startTracker(NAME, ENVIRONMENT);
  await eventually("the level has a mark", async () => (await marksOf(tracker)).levels[LEVEL] !== undefined);
  const { epoch } = await marksOf(tracker);
  const { reached, beyond } = await writeLog(system, { reached: advancedOver, beyond: pending });
  const startedMs = performance.now();
  await announceMany(tracker.url, committed(advancedOver, epoch, reached));
  await announceMany(tracker.url, committed(pending - advancedOver, epoch, beyond));
  const announced = (1_000 * pending) / (performance.now() - startedMs);
  await pause(SETTLE_MS);
  const memory = {
    resident_mib: mib(residentKib(tracker.pid)),
    peak_mib: mib(residentKib(tracker.pid, "VmHWM")),
  };
  const advance = await measureAdvance(system, tracker, Number(reached) + advancedOver);
  await announceMany(tracker.url, committed(advancedOver, epoch, beyond + BigInt(pending - advancedOver)));
  await system.stop(tracker);
  const restartedMs = performance.now();
  tracker = await system.startTracker(NAME, ENVIRONMENT);
  const restart = (performance.now() - restartedMs) / 1_000;
  await pause(SETTLE_MS);
  const after = mib(residentKib(tracker.pid));
  await system.stop(tracker);
  await system.relay.ask("withhold", { replica: false });
  return {
    pending,
    announced_per_second: announced,
    ...memory,
    advanced_over: advancedOver,
    ...advance,
    restart_seconds: restart,
    resident_after_restart_mib: after,
  };
}

/**
 * Makes room in the log for transactions a byte apart. The replicas have none of it; the relay can
 * deliver the first part alone.
 */
async function writeLog(
  system: BenchSystem,
  bytes: { readonly reached: number; readonly beyond: number },
): Promise<{ reached: bigint; beyond: bigint }> {
  await system.relay.ask("withhold", { replica: true });
  const reached = await writeMessage(system, bytes.reached);
  const end = String(await endOfLog(system));
  await eventually("the first part is sent", async () => {
    const sent = `SELECT bool_and(sent_lsn - '0/0' >= ${end}) AS sent FROM pg_stat_replication`;
    return (await system.query(sent))[0]?.["sent"] === true;
  });
  // From the server's buffers into the relay's.
  await pause(SETTLE_MS / 2);
  await system.relay.ask("fence", "replica");
  return { reached, beyond: await writeMessage(system, bytes.beyond) };
}

/** Resolves with the offset where it begins, once it is on the primary's disk. */
async function writeMessage(system: BenchSystem, bytes: number): Promise<bigint> {
  const begin = await endOfLog(system);
  await system.query(`SELECT pg_logical_emit_message(true, 'bench', repeat('x', ${String(bytes)}))`);
  return begin;
}

/** Delivers the first part to the replicas all at once. */
async function measureAdvance(
  system: BenchSystem,
  tracker: ServiceProcess,
  target: number,
): Promise<{ advance_ms: number; held_up_ms: number }> {
  const listener = await MarkListener.open(tracker.url);
  const heldUp = new HeldUp(tracker.url);
  try {
    await pause(SETTLE_MS / 2);
    await system.relay.ask("take", undefined);
    await system.relay.ask("deliverFenced", "replica");
    const reportedMs = await listener.reached(LEVEL, target, LIMIT_MS);
    const acknowledgedMs = acknowledgedAtMs(await system.relay.ask("take", undefined), target);
    // The strongest level may follow one replica later; then the transactions leave the ledger.
    await listener.reached("global", target, LIMIT_MS);
    await pause(SETTLE_MS / 2);
    return { advance_ms: reportedMs - (acknowledgedMs ?? Number.NaN), held_up_ms: await heldUp.end() };
  } finally {
    await heldUp.end();
    listener.close();
  }
}

/**
 * Repeats a request that needs no work: the longest answer shows how long the tracker had no turn
 * for it.
 */
class HeldUp {
  #running = true;
  readonly #longest: Promise<number>;

  constructor(url: string) {
    this.#longest = this.#ask(url);
  }

  async #ask(url: string): Promise<number> {
    const connection = await HttpConnection.open(url);
    let longestMs = 0;
    while (this.#running) {
      const askedMs = hostMs();
      await connection.get("/healthz");
      longestMs = Math.max(longestMs, hostMs() - askedMs);
      await pause(1);
    }
    connection.close();
    return longestMs;
  }

  end(): Promise<number> {
    this.#running = false;
    return this.#longest;
  }
}

function committed(count: number, epoch: string, from: bigint): Committed[] {
  return newIds(count).map((id, at) => ({ id, epoch: epoch as EpochId, offset: from + BigInt(at) }));
}

async function endOfLog(system: BenchSystem): Promise<bigint> {
  const [row] = await system.query("SELECT pg_current_wal_insert_lsn() - '0/0' AS end");
  return BigInt(String(row?.["end"]));
}

async function marksOf(tracker: ServiceProcess): Promise<Marks> {
  const { marks } = (await (await fetch(`${tracker.url}/v1/durability/marks`)).json()) as { marks: Marks };
  return marks;
}

function mib(kib: number | null): number | null {
  return kib === null ? null : kib / KIB_PER_MIB;
}
