// Begins an epoch, in two short transactions. The first appends the record without its position,
// because only its commit decides that. The second writes the position and lets transactions commit
// in the epoch. A process that dies or freezes between them blocks no other: the next one finds the
// record and completes it. (docs/decisions/0089-no-lock-that-sql-can-take.md)
//
// A tracker may be far from the new primary, and no verdict comes before the epoch, so all of it
// takes two round trips. The first reads everything, without a lock. The second sends both
// transactions. Under their lock they write only if no other process has begun an epoch since. No
// lock is held over a round trip.
import { randomUUID } from "node:crypto";
import { type ClientBase, DatabaseError } from "pg";
import { type Fork, forkOf, mayLack } from "@highwater/authority";
import { type EpochId, type EpochRecord, type Offset } from "@highwater/protocol";
import { type MintRequest } from "../port.ts";
import { namingHolders } from "./locks.ts";
import { readLogEnd } from "./log-end.ts";
import { formatLsn, parseLsn } from "./lsn.ts";
import { uuidFloor } from "./prepare.ts";
import { reserveSequences } from "./reserve.ts";
import { type EpochRow, epochRecord } from "./rows.ts";
import {
  BEGIN_EPOCH,
  CARRY_OUT,
  DROP_SENTINEL,
  EPOCHS,
  HOLD_WRITES,
  OPEN_EPOCH,
  OPEN_SENTINEL,
  OPENED_EPOCH,
  PROMOTED_SINCE_START,
  SENTINEL,
  SERVER_FACTS,
  UNFINISHED_EPOCH,
} from "./sql.ts";

const INSUFFICIENT_PRIVILEGE = "42501";

const PAGE = 8_192n;
/** Hardly any record is longer. The part of a longer one counts as lost. */
const RECORD_MAX = 4n * PAGE;

/** Nothing but another request that ends more epochs makes an attempt come to nothing. */
const ATTEMPTS_MAX = 5;
const TABLES = ["highwater.epoch", "highwater.epoch_sentinel"];

export interface SentinelRow {
  id: string;
  system_identifier: string;
  same_start: boolean;
  in_place: boolean;
  unlogged: boolean;
  held_ms: number | null;
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
  timeline: number;
  supersedes: string[];
  fits: boolean;
}

interface ServerRow {
  walfile: string;
  system_identifier: string;
  started_at: string;
  unlogged: boolean;
  replayed: string | null;
  received: string | null;
  went_on: string | null;
  witnessed: string | null;
  ids_from: string;
  is_pending: boolean;
  now_ms: string;
  sequence_bytes: number;
}

/** READ COMMITTED. The loser of a race writes nothing, and returns the winner's epoch. */
export function mintEpoch(client: ClientBase, node: string, request: MintRequest): Promise<EpochRecord> {
  return namingHolders(client, TABLES, async () => {
    let seen = await look(client, node, request);
    if (!seen.server.unlogged) {
      // An owner of the table made it one that survives a crash. To undo that needs a lock that
      // readers of the sentinel are in the way of, so it is a step of its own, before anything else
      // is locked; and in such a table no epoch is current anyway.
      await client.query("ALTER TABLE highwater.epoch_sentinel SET UNLOGGED");
      seen = await look(client, node, request);
    }
    for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
      // Another process was faster, or an operator has confirmed the epoch that is current already.
      const current = currentEpoch(seen, request);
      if (current !== undefined && !seen.server.is_pending) return epochRecord(current);
      const writing = Promise.all(
        current === undefined ? write(client, node, request, seen) : confirm(client, request, current),
      );
      [, seen] = await Promise.all([writing, look(client, node, request)]);
    }
    const current = currentEpoch(seen, request);
    if (current !== undefined) return epochRecord(current);
    throw new Error(`others replaced the epoch's record ${String(ATTEMPTS_MAX)} times`);
  });
}

/**
 * What the server and its history say. A change behind the first of these statements has the writes
 * come to nothing.
 */
interface Seen {
  readonly epochs: readonly EpochRow[];
  readonly previous: EpochRow | undefined;
  readonly sentinel: SentinelRow | undefined;
  readonly unfinished: UnfinishedRow | undefined;
  readonly opened: OpenedRow | undefined;
  readonly isCopy: boolean;
  readonly server: ServerRow;
  /** The last recovery ended with the promotion that began the timeline. */
  readonly promotedHere: boolean;
  readonly timeline: number;
  readonly end: Offset;
}

async function look(client: ClientBase, node: string, request: MintRequest): Promise<Seen> {
  const [epochs, sentinels, unfinished, openings, servers, { end }, promotions] = await Promise.all([
    client.query<EpochRow>(EPOCHS),
    client.query<SentinelRow>(SENTINEL),
    client.query<UnfinishedRow>(UNFINISHED_EPOCH, [node]),
    client.query<OpenedRow>(OPENED_EPOCH),
    client.query<ServerRow>(SERVER_FACTS, [request.command, uuidFloor(0)]),
    readLogEnd(client),
    client.query(PROMOTED_SINCE_START).catch(noneIfForbidden),
  ]);
  const previous = epochs.rows.at(-1);
  const [sentinel] = sentinels.rows;
  const opened = openings.rows.find(({ id }) => id === previous?.id);
  const [server] = servers.rows;
  if (server === undefined) throw new Error("the server did not describe itself");
  return {
    epochs: epochs.rows,
    previous,
    sentinel,
    opened,
    server,
    end,
    promotedHere: server.received !== null || promotions.rows.length > 0,
    unfinished: unfinished.rows[0],
    isCopy: isCopied(previous, sentinel, opened),
    timeline: Number.parseInt(server.walfile.slice(0, 8), 16),
  };
}

/** The services go on without the right, and know less. */
function noneIfForbidden(error: unknown): { readonly rows: readonly unknown[] } {
  if (error instanceof DatabaseError && error.code === INSUFFICIENT_PRIVILEGE) return { rows: [] };
  throw error;
}

/**
 * Sent together: the table itself is locked, in a mode that no application can ask for and that
 * lets everybody read.
 */
function underLock(client: ClientBase, work: () => readonly Promise<unknown>[]): Promise<unknown>[] {
  const before = [client.query("BEGIN"), client.query("LOCK TABLE highwater.epoch IN EXCLUSIVE MODE")];
  return [...before, ...work(), client.query("COMMIT")];
}

function confirm(client: ClientBase, request: MintRequest, current: EpochRow): Promise<unknown>[] {
  return underLock(client, () => [client.query(CARRY_OUT, [request.command, current.id])]);
}

/** Begins a record where there is none to complete, and opens it. */
function write(client: ClientBase, node: string, request: MintRequest, seen: Seen): Promise<unknown>[] {
  const { unfinished } = seen;
  if (unfinished !== undefined && canComplete(unfinished, seen, request))
    return [
      ...reserveSequences(client, unfinished.id, request, seen.server),
      ...underLock(client, () => open(client, unfinished.id, request)),
    ];
  const id = randomUUID();
  const record = newRecord(seen, { id, node, request });
  const begun = underLock(client, () => [
    client.query("DELETE FROM highwater.epoch WHERE id = $1 AND start_offset IS NULL", [unfinished?.id]),
    client.query(BEGIN_EPOCH, record),
  ]);
  return [
    ...begun,
    ...reserveSequences(client, id, request, seen.server),
    ...underLock(client, () => open(client, id, request)),
  ];
}

/** Another process began it in this very situation, and asked for no less. */
function canComplete(
  unfinished: UnfinishedRow,
  { isCopy, previous, timeline }: Seen,
  request: MintRequest,
): boolean {
  if (isCopy || !unfinished.fits || unfinished.timeline !== timeline) return false;
  if (unfinished.previous !== (previous?.id ?? null) || Number(unfinished.seq) < request.minSeq) return false;
  return request.supersedes.every((id) => unfinished.supersedes.includes(id));
}

/** If nothing is left to declare ended: the one who was faster carried the same command out. */
function currentEpoch(
  { epochs, previous, sentinel, server }: Seen,
  request: MintRequest,
): EpochRow | undefined {
  const isCurrent =
    sentinel?.id === previous?.id &&
    sentinel?.same_start === true &&
    sentinel.in_place &&
    sentinel.unlogged &&
    sentinel.system_identifier === server.system_identifier;
  return isCurrent && isGivenUp(epochs, request.supersedes) ? previous : undefined;
}

/** This history contains each of them, or has given it up. */
function isGivenUp(epochs: readonly EpochRow[], ids: readonly string[]): boolean {
  const done = new Set(epochs.flatMap((epoch) => [epoch.id, ...epoch.supersedes]));
  return ids.every((id) => done.has(id));
}

/**
 * The sentinel's row is the previous epoch's as it was written: no copy. Otherwise the other row
 * decides, which a crash leaves there and a restore does not leave as it was. Where an older
 * version of the service began that epoch, there is no such row.
 */
function isCopied(
  previous: EpochRow | undefined,
  sentinel: SentinelRow | undefined,
  opened: OpenedRow | undefined,
): boolean {
  if (sentinel?.in_place === true && (opened === undefined || sentinel.id === previous?.id)) return false;
  return opened === undefined ? sentinel !== undefined : !opened.in_place;
}

/** Gathers what the server and this history can prove; the rule itself is `forkOf`. */
function findFork(
  { previous, sentinel, opened, isCopy, server, promotedHere, timeline, end }: Seen,
  request: MintRequest,
): Fork {
  const promoted = previous !== undefined && timeline !== previous.timeline;
  const { streamed } = request;
  const isSameLife = opened?.same_life ?? false;
  const incarnation = `${server.system_identifier}/${server.started_at}`;
  const watched = streamed?.epoch === previous?.id && streamed?.incarnation === incarnation;
  return forkOf({
    previous:
      previous === undefined
        ? null
        : { id: previous.id as EpochId, startOffset: parseLsn(previous.start_offset) },
    // The sentinel is emptied by every recovery; a row that is still there was written since the
    // last one. One that was rewritten may have been in a table that survives them.
    unrecovered:
      isSameLife || (sentinel?.id === previous?.id && sentinel?.in_place === true && sentinel.unlogged),
    sameServer: isSameLife || (sentinel?.same_start ?? false),
    isCopy,
    foreignLog: sentinel !== undefined && sentinel.system_identifier !== server.system_identifier,
    promoted,
    // Where the promotion of this very server left the previous epoch's timeline. How far a crash
    // recovery went says nothing of a promotion, and a later timeline may have left another one.
    // (The timeline's history file would say more, and only a superuser may let a role read it
    // without all other files.)
    switchedAt: promoted && promotedHere && timeline === previous.timeline + 1 ? switchPoint(server) : null,
    end,
    // A server that was stopped cleanly since does not say how far it recovered before. A disk may
    // have part of a record, which a mark counts and the recovery drops: so what counts is where
    // the log goes on, while that is known.
    recoveredAt: lsnOrNull(server.replayed === null ? null : (server.went_on ?? server.replayed)),
    witnessed: lsnOrNull(server.witnessed),
    streamed: watched && streamed !== null ? streamed.offset : null,
    supersedes: request.supersedes.length > 0,
  });
}

/**
 * A stream ends anywhere, and mostly where a page does. Part of a record that it has brought counts
 * in marks, and the promotion drops it. Then the end of what came is the limit: nothing complete
 * stands between.
 */
function switchPoint({ replayed, received }: ServerRow): Offset | null {
  const [valid, came] = [lsnOrNull(replayed), lsnOrNull(received)];
  if (valid === null || came === null || came % PAGE !== 0n) return valid;
  return came > valid && came - valid < RECORD_MAX ? came : valid;
}

function lsnOrNull(text: string | null): Offset | null {
  return text === null ? null : parseLsn(text);
}

/** It does not count before `open` has said where it is. */
function newRecord(
  seen: Seen,
  { id, node, request }: { readonly id: string; readonly node: string; readonly request: MintRequest },
): unknown[] {
  const { previous, timeline } = seen;
  const fork = findFork(seen, request);
  const newest = Number(previous?.seq ?? 0);
  return [
    Math.max(request.minSeq, newest + 1),
    id,
    previous?.id ?? null,
    node,
    fork.cause,
    timeline,
    formatLsn(fork.fork),
    fork.limit === null ? null : formatLsn(fork.limit),
    request.supersedes,
    request.command,
    JSON.stringify(request.finalMarks[previous?.id ?? ""] ?? {}),
    idsFrom(seen, fork, request),
    newest,
  ];
}

/**
 * What every level had has left the ledgers, so it is settled for good. Where some of that may be
 * missing, no older id can commit: it may have committed before, and would run a second time. An
 * epoch that the new one gives up is missing as a whole, whatever the caller knows of its marks.
 * Once: an earlier epoch may have given it up already.
 */
function idsFrom({ server, previous, epochs }: Seen, fork: Fork, request: MintRequest): string {
  const everywhere = BigInt(request.everywhere?.[previous?.id ?? ""] ?? 0);
  const now = uuidFloor(Number(server.now_ms));
  const isMissing = !isGivenUp(epochs, request.supersedes) || mayLack(fork, everywhere as Offset);
  return isMissing && now > server.ids_from ? now : server.ids_from;
}

/** Does nothing when another process has replaced the record, or opened it. */
function open(
  client: ClientBase,
  id: string,
  { command, replayHoldMs = 0 }: MintRequest,
): Promise<unknown>[] {
  return [
    ...(replayHoldMs === 0 ? [] : [client.query(HOLD_WRITES, [id, replayHoldMs])]),
    client.query(DROP_SENTINEL, [id]),
    client.query(OPEN_SENTINEL, [id]),
    client.query(OPEN_EPOCH, [id]),
    ...(command === null ? [] : [client.query(CARRY_OUT, [command, id])]),
  ];
}
