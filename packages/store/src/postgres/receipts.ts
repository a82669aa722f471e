// Looks receipts up, and settles ids without one by a tombstone.
import { type ClientBase } from "pg";
import { type EpochId, HighwaterError, txnTimestampMs } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import type { Receipt, ReceiptKey, ReceiptsAsOf, ReceiptState, SettleRequest } from "../port.ts";
import { type Channel } from "./channel.ts";
import { type LogEnd, readLogEnd } from "./log-end.ts";
import { type GivenUp } from "./holders.ts";
import { rescueBy } from "./locks.ts";
import { END_HOLDERS, INSERT_TOMBSTONES, RECEIPTS, RETENTION } from "./sql.ts";

interface ReceiptRow {
  /** Number of its key among those that were asked for, from 1. */
  readonly n: number;
  readonly epoch: EpochId;
  readonly kind: Receipt["kind"];
  readonly digest: string;
  readonly redone: boolean;
}

/** Receipts by the number of their keys. */
type Found = ReadonlyMap<number, Receipt>;

interface Window {
  readonly expiredBeforeMs: number;
  readonly ceilingMs: number;
}

export async function lookUpReceipts(client: ClientBase, keys: readonly ReceiptKey[]): Promise<ReceiptsAsOf> {
  const { window, found, end } = await readAll(client, keys);
  return asOf(end, classify(keys, found, window));
}

export interface SettleContext {
  readonly rescue: Channel;
  readonly clock: Clock;
  readonly givenUp: GivenUp;
  /** Returns another number each time. */
  readonly nextTurn: () => number;
}

/** All ids together wait this long for services that are just settling some of them. */
const TOGETHER_MS = 100;
/**
 * A held id delays the others by no more than this until the free ones are settled. Nothing else
 * makes an insert wait.
 */
const FREE_MS = 2;
/** Ids per round trip when they are settled one by one. */
const ONE_BY_ONE = 50;
/** After that, this many held ids are waited for, each for HELD_MS. */
const AT_LENGTH = 10;
const HELD_MS = 200;
/** How often, during that wait, to check whether the session that holds the id may be ended. */
const LOOKS = 4;
const LOCK_TIMEOUT = "55P03";

/**
 * Settles ids. READ COMMITTED throughout, so that after a conflict of inserts the read sees which
 * one won. A key that a living transaction holds gets the state `held`, and does not keep the
 * others from being settled.
 */
export async function settleReceipts(
  client: ClientBase & { processID?: number | null },
  parts: SettleContext,
  request: SettleRequest,
): Promise<ReceiptsAsOf> {
  const { keys } = request;
  const { window, found, end } = await readAll(client, keys);
  const before = classify(keys, found, window);
  const absent = keys.filter((_, at) => before[at]?.kind === "absent");
  const none: ReadonlySet<ReceiptKey> = new Set();
  const held = absent.length > 0 ? await insertTombstones(client, parts, { ...request, keys: absent }) : none;
  for (const key of keys) if (!held.has(key)) parts.givenUp.settled(key);
  if (absent.length === 0) return asOf(end, before);
  const [settled, after] = await Promise.all([readReceipts(client, absent), readLogEnd(client)]);
  const states = classify(absent, settled, window);
  const now = absent.map((key, at): ReceiptState => {
    const state = states[at];
    if (state !== undefined && state.kind !== "absent") return state;
    // The node is in another epoch, and nothing was written.
    if (!held.has(key)) throw new HighwaterError("epoch_changed");
    return { kind: "held" };
  });
  const rest = now.values();
  return asOf(
    after,
    before.map((state) => (state.kind === "absent" ? (rest.next().value ?? state) : state)),
  );
}

/**
 * Inserts all tombstones in one statement. If another session holds one of the ids, inserts them
 * one by one: first every free id, then some of the held ones with a longer wait. Returns the ids
 * that are held.
 */
async function insertTombstones(
  client: ClientBase,
  { rescue, clock, givenUp, nextTurn }: SettleContext,
  { keys, epoch, tombstone, patienceMs }: SettleRequest,
): Promise<ReadonlySet<ReceiptKey>> {
  const insert = (some: readonly ReceiptKey[]): Promise<unknown> =>
    client.query(INSERT_TOMBSTONES, [...columnsOf(some), epoch, tombstone]);
  const insertEach = async (some: readonly ReceiptKey[], waitMs: number): Promise<ReceiptKey[]> => {
    const waited = await insertWithin(client, waitMs, () =>
      Promise.all(some.map(async (key) => ((await isHeld(insert([key]))) ? [key] : []))),
    );
    return waited.flat();
  };
  const togetherMs = patienceMs === 0 ? TOGETHER_MS : patienceMs;
  const everyMs = Math.ceil(Math.min(HELD_MS, togetherMs) / LOOKS);
  const stop = rescueBy(client, END_HOLDERS, [givenUp.of(keys)], { rescue, clock, everyMs });
  try {
    if (!(await isHeld(insertWithin(client, togetherMs, () => insert(keys))))) return new Set();
    const held = new Set<ReceiptKey>();
    for (let at = 0; at < keys.length; at += ONE_BY_ONE)
      for (const key of await insertEach(keys.slice(at, at + ONE_BY_ONE), FREE_MS)) held.add(key);
    if (patienceMs === 0 || held.size === 0) return held;
    const waitedFor = inTurn([...held], nextTurn(), givenUp).slice(0, AT_LENGTH);
    const still = await insertEach(waitedFor, HELD_MS);
    for (const key of waitedFor) if (!still.includes(key)) held.delete(key);
    return held;
  } finally {
    stop();
  }
}

/**
 * Puts ids first whose holder can be ended. The rest begins at another id each time, so that none
 * always comes last.
 */
function inTurn(held: readonly ReceiptKey[], turn: number, givenUp: GivenUp): ReceiptKey[] {
  const from = (turn * AT_LENGTH) % held.length;
  const rotated = [...held.slice(from), ...held.slice(0, from)];
  const canBeEnded = new Set(rotated.filter((key) => givenUp.of([key]).length > 0));
  return [...canBeEnded, ...rotated.filter((key) => !canBeEnded.has(key))];
}

/** Sends `SET` before the inserts, in the same round trip. */
async function insertWithin<T>(client: ClientBase, waitMs: number, work: () => Promise<T>): Promise<T> {
  const [, done] = await Promise.all([
    client.query(`SET lock_timeout TO ${String(Math.max(1, Math.ceil(waitMs)))}`),
    work(),
  ]);
  return done;
}

async function isHeld(inserting: Promise<unknown>): Promise<boolean> {
  try {
    await inserting;
    return false;
  } catch (cause) {
    if ((cause as { code?: string }).code === LOCK_TIMEOUT) return true;
    throw cause;
  }
}

/**
 * Reads all in one round trip, in this order. A receipt that expires between two of the reads then
 * counts as found or expired; with the window read first it would count as absent. The end of the
 * log comes last, so it is above every receipt that was found.
 */
async function readAll(
  client: ClientBase,
  keys: readonly ReceiptKey[],
): Promise<{ found: Found; window: Window; end: LogEnd }> {
  const [found, window, end] = await Promise.all([
    readReceipts(client, keys),
    readWindow(client),
    readLogEnd(client),
  ]);
  return { found, window, end };
}

async function readWindow(client: ClientBase): Promise<Window> {
  const { rows } = await client.query<{ expired_before_ms: string; ceiling_ms: string }>({
    name: "window",
    text: RETENTION,
  });
  const [row] = rows;
  if (row === undefined) throw new Error("the receipts have no window: the store is not prepared");
  return { expiredBeforeMs: Number(row.expired_before_ms), ceilingMs: Number(row.ceiling_ms) };
}

function columnsOf(keys: readonly ReceiptKey[]): [ids: string[], tags: string[]] {
  return [keys.map(({ id }) => id), keys.map(({ tag }) => tag)];
}

async function readReceipts(client: ClientBase, keys: readonly ReceiptKey[]): Promise<Found> {
  const { rows } = await client.query<ReceiptRow>({
    name: "receipts",
    text: RECEIPTS,
    values: columnsOf(keys),
  });
  return new Map(
    rows.map(({ n, kind, epoch, digest, redone }) => [
      n - 1,
      { kind, epoch, digest: BigInt(digest), ...(redone && { isRedone: true }) },
    ]),
  );
}

function classify(keys: readonly ReceiptKey[], found: Found, window: Window): ReceiptState[] {
  return keys.map(({ id }, at): ReceiptState => {
    const receipt = found.get(at);
    if (receipt !== undefined) return receipt;
    const atMs = txnTimestampMs(id);
    if (atMs < window.expiredBeforeMs) return { kind: "expired" };
    return { kind: atMs < window.ceilingMs ? "absent" : "out_of_window" };
  });
}

function asOf({ end, epoch }: LogEnd, receipts: readonly ReceiptState[]): ReceiptsAsOf {
  if (epoch === null) throw new HighwaterError("epoch_changed", { detail: "The node has no epoch." });
  return { receipts, epoch, asOf: end };
}
