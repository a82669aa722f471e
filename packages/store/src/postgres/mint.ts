// Begins an epoch, in two short transactions. The first appends the record without saying where it is, for only its commit decides
// that. The second says where, and lets transactions commit in the epoch. A process that dies or freezes in between holds no lock
// and stops no other: the next one finds the record and completes it. (docs/decisions/0089-no-lock-that-sql-can-take.md)
import { randomUUID } from "node:crypto";
import { type ClientBase } from "pg";
import { type EpochId, type EpochRecord, type Offset } from "@highwater/protocol";
import { type Fork, forkOf } from "../fork.ts";
import { type MintRequest } from "../port.ts";
import { lockTable } from "./locks.ts";
import { readLogEnd } from "./log-end.ts";
import { formatLsn, parseLsn } from "./lsn.ts";
import { uuidFloor } from "./prepare.ts";
import { type EpochRow, epochRecord } from "./rows.ts";
import { EPOCHS, OPEN_SENTINEL, OPENED_EPOCH, SENTINEL, UNFINISHED_EPOCH, WITNESSED } from "./sql.ts";

/** Nothing but another request that ends more epochs makes an attempt come to nothing. */
const ATTEMPTS_MAX = 5;

export interface SentinelRow {
  id: string;
  system_identifier: string;
  same_start: boolean;
  in_place: boolean;
  unlogged: boolean;
}

interface OpenedRow {
  id: string;
  in_place: boolean;
  same_life: boolean;
}

interface UnfinishedRow {
  id: string;
  seq: string;
  previous: string | null;
  supersedes: string[];
  fits: boolean;
}

/** READ COMMITTED, under a lock, tested again under it: the loser of a race returns the winner's epoch. */
export async function mintEpoch(
  client: ClientBase,
  node: string,
  request: MintRequest,
): Promise<EpochRecord> {
  await makeUnlogged(client);
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    const begun = await underLock(client, () => beginRecord(client, node, request));
    if (typeof begun !== "string") return begun;
    const opened = await underLock(client, () => openEpoch(client, begun, request));
    if (opened !== null) return opened;
  }
  throw new Error(`others replaced the epoch's record ${String(ATTEMPTS_MAX)} times`);
}

/** The table itself is locked, in a mode that no application can ask for and that lets everybody read. */
async function underLock<T>(client: ClientBase, work: () => Promise<T>): Promise<T> {
  await client.query("BEGIN");
  try {
    await lockTable(client, "highwater.epoch");
    const result = await work();
    await client.query("COMMIT");
    return result;
  } catch (cause) {
    await client.query("ROLLBACK").catch(() => undefined);
    throw cause;
  }
}

/** The record of the epoch that reigns already, or the id of one whose place is still to be said. */
async function beginRecord(
  client: ClientBase,
  node: string,
  request: MintRequest,
): Promise<EpochRecord | string> {
  const epochs = (await client.query<EpochRow>(EPOCHS)).rows;
  const previous = epochs.at(-1);
  const here = await whereAmI(client);
  const [sentinel] = (await client.query<SentinelRow>(SENTINEL)).rows;
  if (previous !== undefined && isCurrent(sentinel, previous, here) && settled(epochs, request)) {
    // Somebody else was faster, or an operator has confirmed the primary that reigns already.
    if (request.command !== null) await carryOut(client, request.command, previous.id);
    return epochRecord(previous);
  }
  const [unfinished] = (await client.query<UnfinishedRow>(UNFINISHED_EPOCH, [node, here.timeline])).rows;
  const opened = (await client.query<OpenedRow>(OPENED_EPOCH)).rows.find(({ id }) => id === previous?.id);
  const isCopy = isCopied(previous, sentinel, opened);
  if (unfinished !== undefined && canComplete(unfinished, { previous, isCopy, request }))
    return unfinished.id;
  const fork = await findFork(client, { previous, sentinel, opened, isCopy, here, request });
  return append(client, { node, request, previous, here, fork });
}

/** Another process began it in this very situation, and asked for no less. */
function canComplete(
  unfinished: UnfinishedRow,
  now: {
    readonly previous: EpochRow | undefined;
    readonly isCopy: boolean;
    readonly request: MintRequest;
  },
): boolean {
  const { previous, isCopy, request } = now;
  if (isCopy || !unfinished.fits) return false;
  if (unfinished.previous !== (previous?.id ?? null) || Number(unfinished.seq) < request.minSeq) return false;
  return request.supersedes.every((id) => unfinished.supersedes.includes(id));
}

/** Nothing is left to declare ended: the one who was faster carried the same command out. */
function settled(epochs: readonly EpochRow[], request: MintRequest): boolean {
  const done = new Set(epochs.flatMap((epoch) => [epoch.id, ...epoch.supersedes]));
  return request.supersedes.every((id) => done.has(id));
}

interface Here {
  readonly timeline: number;
  readonly systemIdentifier: string;
  readonly incarnation: string;
}

async function whereAmI(client: ClientBase): Promise<Here> {
  const { rows } = await client.query<{
    walfile: string;
    system_identifier: string;
    started_at: string;
  }>(
    `SELECT pg_walfile_name(pg_current_wal_insert_lsn()) AS walfile, (SELECT system_identifier::text FROM pg_control_system()),
       extract(epoch FROM pg_postmaster_start_time())::text AS started_at`,
  );
  const [row] = rows;
  if (row === undefined) throw new Error("the server did not describe itself");
  return {
    timeline: Number.parseInt(row.walfile.slice(0, 8), 16),
    systemIdentifier: row.system_identifier,
    incarnation: `${row.system_identifier}/${row.started_at}`,
  };
}

function isCurrent(sentinel: SentinelRow | undefined, newest: EpochRow, here: Here): boolean {
  return (
    sentinel?.id === newest.id &&
    sentinel.same_start &&
    sentinel.in_place &&
    sentinel.unlogged &&
    sentinel.system_identifier === here.systemIdentifier
  );
}

/**
 * The sentinel's row is the previous epoch's as it was written: no copy. Otherwise the other row decides, which a crash leaves there
 * and a restore does not leave as it was. Where an older version of the service began that epoch, there is no such row.
 */
function isCopied(
  previous: EpochRow | undefined,
  sentinel: SentinelRow | undefined,
  opened: OpenedRow | undefined,
): boolean {
  if (sentinel?.in_place === true && (opened === undefined || sentinel.id === previous?.id)) return false;
  return opened === undefined ? sentinel !== undefined : !opened.in_place;
}

/** Gathers what the server and this history can prove; the rule itself is in fork.ts. */
async function findFork(
  client: ClientBase,
  facts: {
    previous: EpochRow | undefined;
    sentinel: SentinelRow | undefined;
    opened: OpenedRow | undefined;
    isCopy: boolean;
    here: Here;
    request: MintRequest;
  },
): Promise<Fork> {
  const { previous, sentinel, opened, isCopy, here, request } = facts;
  const { end } = await readLogEnd(client);
  const [witness] = (await client.query<{ reached: string | null }>(WITNESSED, [previous?.id ?? null])).rows;
  const promoted = previous !== undefined && here.timeline !== previous.timeline;
  const { streamed } = request;
  const isSameLife = opened?.same_life ?? false;
  const watched = streamed?.epoch === previous?.id && streamed?.incarnation === here.incarnation;
  return forkOf({
    previous:
      previous === undefined
        ? null
        : { id: previous.id as EpochId, startOffset: parseLsn(previous.start_offset) },
    // The sentinel is emptied by every recovery; a row that is still there was written since the last one. One that was rewritten may
    // have been in a table that survives them.
    unrecovered:
      isSameLife || (sentinel?.id === previous?.id && sentinel?.in_place === true && sentinel.unlogged),
    sameServer: isSameLife || (sentinel?.same_start ?? false),
    isCopy,
    foreignLog: sentinel !== undefined && sentinel.system_identifier !== here.systemIdentifier,
    promoted,
    switchedAt: promoted ? await switchPoint(client, previous.timeline, here.timeline) : null,
    end,
    recoveredAt: await recoveryEnd(client),
    witnessed: witness?.reached == null ? null : parseLsn(witness.reached),
    streamed: watched && streamed !== null ? streamed.offset : null,
    supersedes: request.supersedes.length > 0,
  });
}

/** Every recovery of a primary ends with a checkpoint, which begins where the log goes on. A later one begins above. */
async function recoveryEnd(client: ClientBase): Promise<Offset | null> {
  const { rows } = await client.query<{ redo: string }>(
    "SELECT redo_lsn::text AS redo FROM pg_control_checkpoint()",
  );
  return rows[0] === undefined ? null : parseLsn(rows[0].redo);
}

/**
 * Where the promotion of this very server left the previous epoch's timeline; null when the server does not say. A server remembers
 * how far it replayed until its shared memory is made anew, by a restart or a crash. Then nothing was received in it either, and how
 * far a crash recovery went says nothing of a promotion. A later timeline may have left another one than the previous epoch's. (The
 * timeline's history file would say more, and nobody but a superuser may let a role read it without all other files.)
 */
async function switchPoint(client: ClientBase, from: number, current: number): Promise<Offset | null> {
  if (current !== from + 1) return null;
  const { rows } = await client.query<{ replayed: string | null }>(
    "SELECT pg_last_wal_replay_lsn()::text AS replayed WHERE pg_last_wal_receive_lsn() IS NOT NULL",
  );
  return rows[0]?.replayed == null ? null : parseLsn(rows[0].replayed);
}

/** The id of the record, which does not count before `openEpoch` has said where it is. */
async function append(
  client: ClientBase,
  facts: { node: string; request: MintRequest; previous: EpochRow | undefined; here: Here; fork: Fork },
): Promise<string> {
  const { node, request, previous, here, fork } = facts;
  const seq = Math.max(request.minSeq, Number(previous?.seq ?? 0) + 1);
  const id = randomUUID();
  await client.query("DELETE FROM highwater.epoch WHERE start_offset IS NULL");
  await client.query(
    `INSERT INTO highwater.epoch (seq, id, previous, node, cause, timeline, started_at, fork_offset, fork_limit, supersedes, command, final_marks, ids_from)
     VALUES ($1, $2, $3, $4, $5, $6, pg_postmaster_start_time(), $7, $8, $9, $10, $11, $12)`,
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
      JSON.stringify(request.finalMarks[previous?.id ?? ""] ?? {}),
      await idsFrom(client, { fork, request, previous: previous?.id ?? null }),
    ],
  );
  return id;
}

/**
 * What every level had has left the ledgers, so nobody settles it again. Where some of that may be missing, no older id can
 * commit: it may have committed before, and would run a second time.
 */
async function idsFrom(
  client: ClientBase,
  {
    fork,
    request,
    previous,
  }: { readonly fork: Fork; readonly request: MintRequest; readonly previous: string | null },
): Promise<string> {
  const { rows } = await client.query<{ inherited: string; now_ms: string }>(
    `SELECT greatest((SELECT e.ids_from FROM highwater.epoch e WHERE e.id = $1),
         (SELECT c.ids_from FROM highwater.authority_command c WHERE c.id = $2), $3)::text AS inherited,
       (extract(epoch FROM clock_timestamp()) * 1000)::text AS now_ms`,
    [previous, request.command, uuidFloor(0)],
  );
  const inherited = rows[0]?.inherited ?? uuidFloor(0);
  const everywhere = BigInt(request.everywhere?.[previous ?? ""] ?? 0);
  const isMissing = fork.cause === "restored" || (fork.limit !== null && everywhere > fork.limit);
  const now = uuidFloor(Number(rows[0]?.now_ms));
  return isMissing && now > inherited ? now : inherited;
}

/** The command may come after the epoch that it confirms: the record says so from then on, in every later comparison. */
async function carryOut(client: ClientBase, command: string, epoch: string): Promise<void> {
  await client.query("UPDATE highwater.epoch SET command = $1 WHERE id = $2 AND command IS NULL", [
    command,
    epoch,
  ]);
  // Those that were given before it are settled with it; one that was given since may overrule more, and still waits.
  await client.query(
    `UPDATE highwater.authority_command SET epoch = $2 FROM highwater.authority_command c
     WHERE c.id = $1 AND authority_command.node = c.node AND authority_command.epoch IS NULL
       AND authority_command.issued_at <= c.issued_at`,
    [command, epoch],
  );
}

/** From its commit on transactions can commit in the epoch. Null: another process has replaced the record, or opened it. */
async function openEpoch(client: ClientBase, id: string, request: MintRequest): Promise<EpochRecord | null> {
  // Read after the record's commit: everything of the previous epoch, and the record itself, is at or below.
  const { end: start } = await readLogEnd(client);
  const { rowCount } = await client.query(
    "UPDATE highwater.epoch SET start_offset = $2 WHERE id = $1 AND start_offset IS NULL",
    [id, formatLsn(start)],
  );
  if (rowCount !== 1) return null;
  if (request.command !== null) await carryOut(client, request.command, id);
  await client.query("DELETE FROM highwater.epoch_sentinel");
  await client.query(OPEN_SENTINEL, [id]);
  const mine = (await client.query<EpochRow>(EPOCHS)).rows.find((row) => row.id === id);
  if (mine === undefined) throw new Error(`epoch ${id} was written and is gone`);
  return epochRecord(mine);
}

/**
 * An owner of the table made it one that survives a crash. To undo that needs a lock that readers of the sentinel are in the way of,
 * so it is a step of its own, before anything else is locked; and in such a table no epoch is current anyway.
 */
async function makeUnlogged(client: ClientBase): Promise<void> {
  const { rows } = await client.query<{ unlogged: boolean }>(
    "SELECT relpersistence = 'u' AS unlogged FROM pg_class WHERE oid = 'highwater.epoch_sentinel'::regclass",
  );
  if (rows[0]?.unlogged !== true) await client.query("ALTER TABLE highwater.epoch_sentinel SET UNLOGGED");
}
