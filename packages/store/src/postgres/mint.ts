// Begins an epoch: appends its record, learns where the record is, and only then lets transactions commit in it.
import { randomUUID } from "node:crypto";
import { type ClientBase } from "pg";
import {
  type EpochCause,
  type EpochId,
  type EpochRecord,
  maxOffset,
  minOffset,
  type Offset,
  ZERO,
} from "@highwater/protocol";
import { type MintRequest } from "../port.ts";
import { endOfLog, formatLsn, parseLsn } from "./lsn.ts";
import { type EpochRow, epochRecord } from "./rows.ts";
import { EPOCHS, SENTINEL, WITNESSED } from "./sql.ts";

const MINT_LOCK = 7_240_519_002;

interface SentinelRow {
  id: string;
  system_identifier: string;
  same_start: boolean;
  unlogged: boolean;
}

/** Where the previous epoch's log ends in this history. `fork` is proven to be in it, nothing above `limit` is. */
interface Fork {
  readonly cause: EpochCause;
  readonly fork: Offset;
  readonly limit: Offset | null;
}

/** READ COMMITTED, under a lock, tested again under it: the loser of a race returns the winner's epoch. */
export async function mintEpoch(
  client: ClientBase,
  node: string,
  request: MintRequest,
): Promise<EpochRecord> {
  await client.query("SET synchronous_commit TO local");
  await client.query("SELECT pg_advisory_lock($1)", [MINT_LOCK]);
  try {
    const epochs = (await client.query<EpochRow>(EPOCHS)).rows;
    const previous = epochs.at(-1);
    const here = await whereAmI(client);
    const [sentinel] = (await client.query<SentinelRow>(SENTINEL)).rows;
    if (previous !== undefined && isCurrent(sentinel, previous, here) && request.supersedes.length === 0) {
      // Somebody else was faster, or an operator has confirmed the primary that reigns already.
      if (request.command !== null) await carryOut(client, node, previous.id);
      return epochRecord(previous);
    }
    const fork = await findFork(client, { previous, sentinel, here, request });
    return await append(client, { node, request, previous, here, fork });
  } finally {
    // The lock belongs to the session: if it cannot be given back, the caller ends the session.
    await client.query("SELECT pg_advisory_unlock($1)", [MINT_LOCK]);
  }
}

interface Here {
  readonly timeline: number;
  readonly systemIdentifier: string;
  readonly incarnation: string;
  readonly segmentBytes: bigint;
}

async function whereAmI(client: ClientBase): Promise<Here> {
  const { rows } = await client.query<{
    walfile: string;
    system_identifier: string;
    started_at: string;
    segment_bytes: string;
  }>(
    `SELECT pg_walfile_name(pg_current_wal_insert_lsn()) AS walfile, (SELECT system_identifier::text FROM pg_control_system()),
       extract(epoch FROM pg_postmaster_start_time())::text AS started_at,
       (SELECT bytes_per_wal_segment::text FROM pg_control_init()) AS segment_bytes`,
  );
  const [row] = rows;
  if (row === undefined) throw new Error("the server did not describe itself");
  return {
    timeline: Number.parseInt(row.walfile.slice(0, 8), 16),
    systemIdentifier: row.system_identifier,
    incarnation: `${row.system_identifier}/${row.started_at}`,
    segmentBytes: BigInt(row.segment_bytes),
  };
}

function isCurrent(sentinel: SentinelRow | undefined, newest: EpochRow, here: Here): boolean {
  return (
    sentinel?.id === newest.id &&
    sentinel.same_start &&
    sentinel.unlogged &&
    sentinel.system_identifier === here.systemIdentifier
  );
}

/**
 * A promotion's switch point and a replica's last position only bound the end from above: if the old primary crashed and
 * recovered before the switch without beginning an epoch, its log below the switch point holds other records than the
 * ones that were lost. Below is proven by the witness rows in this very history, or by an uninterrupted stream that the
 * caller watched. (docs/decisions/0003-fork-offset-is-witnessed.md)
 */
async function findFork(
  client: ClientBase,
  facts: {
    previous: EpochRow | undefined;
    sentinel: SentinelRow | undefined;
    here: Here;
    request: MintRequest;
  },
): Promise<Fork> {
  const { previous, sentinel, here, request } = facts;
  if (previous === undefined) return { cause: "first", fork: ZERO, limit: ZERO };
  const end = await logEnd(client, here);
  const keptSentinel =
    sentinel?.id === previous.id && sentinel.unlogged && sentinel.system_identifier === here.systemIdentifier;
  if (keptSentinel && here.timeline === previous.timeline) {
    // No recovery has run since the sentinel was written: the server was stopped cleanly (or never), all of its log is here.
    // While it still runs, transactions of the old epoch may be committing right now: then there is no limit.
    const limit = sentinel.same_start ? null : end;
    return { cause: request.supersedes.length > 0 ? "reinstated" : "clean_restart", fork: end, limit };
  }
  const [witness] = (await client.query<{ reached: string | null }>(WITNESSED, [previous.id])).rows;
  const witnessed = witness?.reached == null ? ZERO : parseLsn(witness.reached);
  if (here.timeline === previous.timeline) {
    return {
      cause: request.supersedes.length > 0 ? "reinstated" : "crash_recovery",
      fork: witnessed,
      limit: end,
    };
  }
  const switched = (await switchPoint(client, previous.timeline, here.timeline)) ?? end;
  const { streamed } = request;
  const watched =
    streamed?.epoch === previous.id && streamed.incarnation === here.incarnation
      ? minOffset(streamed.offset, switched)
      : ZERO;
  return { cause: "promotion", fork: maxOffset(witnessed, watched), limit: switched };
}

/** Where this history left the timeline, by the history file; null when the file cannot be read or does not say. */
async function switchPoint(client: ClientBase, from: number, current: number): Promise<Offset | null> {
  const file = `pg_wal/${current.toString(16).toUpperCase().padStart(8, "0")}.history`;
  const { rows } = await client
    .query<{ history: string | null }>("SELECT pg_read_file($1, 0, 1048576, true) AS history", [file])
    .catch(() => ({ rows: [] as { history: string | null }[] }));
  for (const line of (rows[0]?.history ?? "").split("\n")) {
    const match = /^(\d+)\s+([0-9A-F]+\/[0-9A-F]+)/i.exec(line);
    if (match?.[2] !== undefined && Number(match[1]) === from) return parseLsn(match[2]);
  }
  return null;
}

async function logEnd(client: ClientBase, here: Here): Promise<Offset> {
  const { rows } = await client.query<{ lsn: string }>("SELECT pg_current_wal_insert_lsn()::text AS lsn");
  return endOfLog(parseLsn(rows[0]?.lsn ?? "0/0"), here.segmentBytes);
}

async function append(
  client: ClientBase,
  facts: { node: string; request: MintRequest; previous: EpochRow | undefined; here: Here; fork: Fork },
): Promise<EpochRecord> {
  const { node, request, previous, here, fork } = facts;
  const seq = Math.max(request.minSeq, Number(previous?.seq ?? 0) + 1);
  const id = randomUUID() as string as EpochId;
  await client.query("DELETE FROM highwater.epoch WHERE start_offset IS NULL");
  await client.query(
    `INSERT INTO highwater.epoch (seq, id, previous, node, cause, timeline, started_at, fork_offset, fork_limit, supersedes, command, final_marks)
     VALUES ($1, $2, $3, $4, $5, $6, pg_postmaster_start_time(), $7, $8, $9, $10, $11)`,
    [
      seq,
      id,
      previous?.id ?? null,
      node,
      fork.cause,
      here.timeline,
      formatLsn(fork.fork),
      fork.limit === null ? null : formatLsn(fork.limit),
      request.supersedes,
      request.command,
      JSON.stringify(request.finalMarks),
    ],
  );
  // Read after the record's commit: everything of the previous epoch, and the record itself, is at or below.
  const start = await logEnd(client, here);
  await client.query("UPDATE highwater.epoch SET start_offset = $2 WHERE id = $1", [id, formatLsn(start)]);
  if (request.command !== null) await carryOut(client, node, id);
  await openEpoch(client, id, here);
  const rows = (await client.query<EpochRow>(EPOCHS)).rows;
  const mine = rows.find((row) => row.id === id);
  if (mine === undefined) throw new Error(`epoch ${id} was written and is gone`);
  return epochRecord(mine);
}

async function carryOut(client: ClientBase, node: string, epoch: string): Promise<void> {
  await client.query("UPDATE highwater.authority_command SET epoch = $2 WHERE node = $1 AND epoch IS NULL", [
    node,
    epoch,
  ]);
}

/** From here on transactions can commit in the epoch. */
async function openEpoch(client: ClientBase, id: EpochId, here: Here): Promise<void> {
  await client.query("BEGIN");
  const { rows } = await client.query<{ unlogged: boolean }>(
    "SELECT relpersistence = 'u' AS unlogged FROM pg_class WHERE oid = 'highwater.epoch_sentinel'::regclass",
  );
  if (rows[0]?.unlogged !== true) await client.query("ALTER TABLE highwater.epoch_sentinel SET UNLOGGED");
  await client.query("DELETE FROM highwater.epoch_sentinel");
  await client.query(
    "INSERT INTO highwater.epoch_sentinel (id, started_at, system_identifier) VALUES ($1, pg_postmaster_start_time(), $2)",
    [id, here.systemIdentifier],
  );
  await client.query("COMMIT");
}
