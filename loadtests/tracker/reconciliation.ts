// A region is lost while very many transactions are pending. Measures the time from the new
// primary's first write until there is a verdict for each of them, and until every loss is
// published, and checks that every verdict is true.
import { setTimeout as pause } from "node:timers/promises";
import { eventually } from "@highwater/lab-tools/process";
import type { ServiceProcess } from "@highwater/lab-system";
import type { TokenVerdict } from "@highwater/protocol";
import pg from "pg";
import { cpuOf, cpuOfServer, spentBetween } from "../rounds/cpu.ts";
import { HttpConnection } from "../gateway/http-connection.ts";
import { LossListener } from "./loss-listener.ts";
import { type BenchSystem, LEVEL, PRIMARY, REPLICAS } from "./bench-system.ts";
import { announceMany, askVerdicts, batches, type Committed, commitMany, tokenOf } from "./many.ts";

export interface Reconciliation {
  readonly transactions: number;
  readonly carried_over: number;
  readonly lost: number;
  /** Verdicts that the new primary's own receipts contradict. */
  readonly wrong: number;
  /** From the time at which the new primary accepted writes. */
  readonly new_epoch_seconds: number;
  readonly half_seconds: number;
  readonly all_seconds: number;
  /** Until a subscriber had the event of the last loss. */
  readonly events_seconds: number;
  /** Of the processor, from the same time until the last verdict, and until the last event. */
  readonly tracker_cpu_seconds: number | null;
  readonly server_cpu_seconds: number | null;
  readonly tracker_cpu_seconds_with_events: number | null;
}

const LIMIT_MS = 60_000;
/** As long as a client of the SDK lets a question wait. */
const QUESTION_MS = 5_000;
const POLL_MS = 2;

/** Ends with the primary dead, so nothing can be measured after it. */
export async function measureReconciliation(
  { system, tracker }: { readonly system: BenchSystem; readonly tracker: ServiceProcess },
  { transactions }: { readonly transactions: number },
): Promise<Reconciliation> {
  const trackerUrl = tracker.url;
  const losses = await LossListener.open(trackerUrl);
  const all = await makePending(system, trackerUrl, transactions);
  const tokens = all.map(tokenOf);
  await checkPending(trackerUrl, tokens);
  await system.cluster.kill(PRIMARY);
  const successor = await system.cluster.mostAdvancedReplica([...REPLICAS]);
  await system.moveServicesTo(successor);
  const accepting = acceptsWrites(await system.cluster.connectionString(successor));
  const promoted = system.cluster.promote(successor);
  const acceptedMs = await accepting;
  const spent = spentOf(tracker.pid, system.postmasterOf(successor));
  await system.setReplicasReachable(true);
  await promoted;
  const { verdicts, atMs, epochAtMs } = await awaitVerdicts(trackerUrl, tokens, all[0]?.epoch);
  const judging = spent();
  const receipts = await receiptsOf(await system.cluster.connectionString(successor), all);
  const eventsAtMs = await losses.received(transactions - receipts.size);
  const publishing = spent();
  losses.close();
  const seconds = (ms: number): number => (ms - acceptedMs) / 1_000;
  const sorted = [...atMs].sort((a, b) => a - b);
  return {
    transactions,
    carried_over: count(verdicts, "durable"),
    lost: count(verdicts, "lost"),
    wrong: verdicts.filter(({ id, verdict }) => verdict !== (receipts.has(id) ? "durable" : "lost")).length,
    new_epoch_seconds: seconds(epochAtMs),
    half_seconds: seconds(sorted[sorted.length >> 1] ?? Number.NaN),
    all_seconds: seconds(sorted.at(-1) ?? Number.NaN),
    events_seconds: seconds(eventsAtMs),
    tracker_cpu_seconds: judging.tracker,
    server_cpu_seconds: judging.server,
    tracker_cpu_seconds_with_events: publishing.tracker,
  };
}

/** Answers with the seconds of the processor that both have taken since. */
function spentOf(
  tracker: number | undefined,
  postmaster: number,
): () => { readonly tracker: number | null; readonly server: number | null } {
  const read = { tracker: cpuOf(tracker), server: cpuOfServer(postmaster) };
  const seconds = (ms: number | null): number | null => (ms === null ? null : ms / 1_000);
  return () => ({
    tracker: seconds(spentBetween(read.tracker, cpuOf(tracker))),
    server: seconds(spentBetween(read.server, cpuOfServer(postmaster))),
  });
}

async function checkPending(trackerUrl: string, tokens: readonly string[]): Promise<void> {
  const connection = await HttpConnection.open(trackerUrl);
  const verdicts: TokenVerdict[] = [];
  for (const some of batches(tokens))
    verdicts.push(...(await askVerdicts(connection, some, { level: LEVEL })));
  connection.close();
  const early = verdicts.filter(({ verdict }) => verdict !== "pending").length;
  if (early > 0) throw new Error(`${String(early)} transactions had a verdict before the failure`);
}

/**
 * The first half reaches the replicas, but neither the primary nor the tracker learns it; the
 * second half does not reach them. At the level all are pending.
 */
async function makePending(system: BenchSystem, trackerUrl: string, count: number): Promise<Committed[]> {
  const url = await system.cluster.connectionString(PRIMARY);
  await system.setReplicasReachable(false);
  await system.relay.ask("withhold", { primary: true });
  const carried = await commitMany(url, count >> 1);
  const end = carried.at(-1)?.offset ?? 0n;
  // A commit that waits for the disk: the log is sent as far as it is flushed.
  await system.query("INSERT INTO bench VALUES (0)");
  for (const id of REPLICAS)
    await eventually(`${id} has the first half`, async () => {
      const received = "SELECT pg_last_wal_receive_lsn() - '0/0' AS received";
      const [row] = await system.cluster.query(id, received);
      return BigInt(String(row?.["received"])) > end;
    });
  await system.relay.ask("withhold", { primary: true, replica: true });
  const all = [...carried, ...(await commitMany(url, count - carried.length))];
  await announceMany(trackerUrl, all);
  return all;
}

/** The time at which the node left recovery; it is polled. */
async function acceptsWrites(url: string): Promise<number> {
  const server = new pg.Client({ connectionString: url });
  await server.connect();
  try {
    const deadlineMs = performance.now() + LIMIT_MS;
    while (performance.now() < deadlineMs) {
      const { rows } = await server.query<{ waits: boolean }>("SELECT pg_is_in_recovery() AS waits");
      if (rows[0]?.waits === false) return performance.now();
      await pause(POLL_MS);
    }
    throw new Error("the replica was not promoted");
  } finally {
    await server.end();
  }
}

/**
 * Asks as clients do: once they learn of the new epoch, and every question waits at the tracker for
 * its answer.
 */
async function awaitVerdicts(
  trackerUrl: string,
  tokens: readonly string[],
  ended: string | undefined,
): Promise<{ verdicts: TokenVerdict[]; atMs: number[]; epochAtMs: number }> {
  const verdicts: TokenVerdict[] = [];
  const atMs: number[] = [];
  const deadlineMs = performance.now() + LIMIT_MS;
  const connections = await Promise.all(batches(tokens).map(() => HttpConnection.open(trackerUrl)));
  try {
    const [first] = connections;
    if (first === undefined) throw new Error("there is nothing to ask about");
    while ((await currentEpoch(first)) === ended) {
      if (performance.now() > deadlineMs) throw new Error("the new epoch does not begin");
      await pause(POLL_MS);
    }
    const epochAtMs = performance.now();
    await Promise.all(
      batches(tokens).map(async (some, at) => {
        const connection = connections[at] ?? first;
        for (let open = some; open.length > 0;) {
          if (performance.now() > deadlineMs)
            throw new Error(`${String(open.length)} transactions are still pending`);
          const answers = await askVerdicts(connection, open, { level: LEVEL, waitMs: QUESTION_MS });
          for (const verdict of answers) {
            if (verdict.verdict === "pending") continue;
            verdicts.push(verdict);
            atMs.push(performance.now());
          }
          open = answers.filter(({ verdict }) => verdict === "pending").map(({ token }) => token);
        }
      }),
    );
    return { verdicts, atMs, epochAtMs };
  } finally {
    for (const connection of connections) connection.close();
  }
}

async function currentEpoch(connection: HttpConnection): Promise<string | undefined> {
  const { text } = await connection.get("/v1/durability/marks");
  return (JSON.parse(text) as { epochs: { id: string }[] }).epochs.at(-1)?.id;
}

/** Ids of those whose own receipt is in the new history. */
async function receiptsOf(url: string, all: readonly Committed[]): Promise<ReadonlySet<string>> {
  const server = new pg.Client({ connectionString: url });
  await server.connect();
  try {
    const { rows } = await server.query<{ id: string }>(
      "SELECT id FROM highwater.receipt WHERE id = ANY ($1::uuid[]) AND epoch = $2 AND kind = 'commit'",
      [all.map(({ id }) => id), all[0]?.epoch],
    );
    return new Set(rows.map(({ id }) => id));
  } finally {
    await server.end();
  }
}

function count(verdicts: readonly TokenVerdict[], which: TokenVerdict["verdict"]): number {
  return verdicts.filter(({ verdict }) => verdict === which).length;
}
