// Looking receipts up, and settling ids that have none with a tombstone.
import { type ClientBase } from "pg";
import { type EpochId, HighwaterError, type TxnId, txnTimestampMs } from "@highwater/protocol";
import { type Clock } from "../clock.ts";
import { type Receipt, type ReceiptsAsOf, type ReceiptState } from "../port.ts";
import { type Channel } from "./channel.ts";
import { type LogEnd, readLogEnd } from "./log-end.ts";
import { endHolders, type GivenUp } from "./holders.ts";
import { INSERT_TOMBSTONES, RECEIPTS, RETENTION } from "./sql.ts";

interface SettleRequest {
  readonly epoch: EpochId;
  readonly ids: readonly TxnId[];
  readonly tombstone: "aborted" | "lost";
  readonly patienceMs: number;
}

interface ReceiptRow {
  readonly id: TxnId;
  readonly epoch: EpochId;
  readonly kind: Receipt["kind"];
  readonly owner: string;
  readonly digest: string;
}

interface Window {
  readonly expiredBeforeMs: number;
  readonly ceilingMs: number;
}

export async function lookUpReceipts(client: ClientBase, ids: readonly TxnId[]): Promise<ReceiptsAsOf> {
  const { window, found, end } = await readAll(client, ids);
  return asOf(end, classify(ids, found, window));
}

export interface SettleParts {
  readonly rescue: Channel;
  readonly clock: Clock;
  readonly givenUp: GivenUp;
}

/** A held id costs so long, where others wait to be settled behind it. */
const HELD_MS = 200;
/** Ids that are settled one by one in one round trip, and how long that may go on for; the rest counts as held. */
const ONE_BY_ONE = 50;
const ONE_BY_ONE_MS = 5_000;
/** So often it is seen whether whoever holds an id may be ended, in the time that it is waited for. */
const LOOKS = 4;
const LOCK_TIMEOUT = "55P03";

/**
 * READ COMMITTED throughout: after the insert met a rival, the read sees who won.
 * An id that a living transaction holds is answered as `held`, and does not keep the others from being settled.
 */
export async function settleReceipts(
  client: ClientBase & { processID?: number | null },
  parts: SettleParts,
  request: SettleRequest,
): Promise<ReceiptsAsOf> {
  const { window, found, end } = await readAll(client, request.ids);
  const before = classify(request.ids, found, window);
  const absent = request.ids.filter((id) => before.get(id)?.kind === "absent");
  let held: ReadonlySet<TxnId> = new Set();
  if (absent.length > 0)
    try {
      held = await insertTombstones(client, parts, { ...request, ids: absent });
    } catch (cause) {
      if ((cause as { code?: string }).code === "23502")
        throw new HighwaterError("epoch_changed", {}, { cause });
      throw cause;
    }
  for (const id of request.ids) if (!held.has(id)) parts.givenUp.settled(id);
  if (absent.length === 0) return asOf(end, before);
  const [settled, after] = await Promise.all([readReceipts(client, absent), readLogEnd(client)]);
  const states = new Map([...before, ...classify(absent, settled, window)]);
  for (const id of held) if (states.get(id)?.kind === "absent") states.set(id, { kind: "held" });
  return asOf(after, states);
}

/** All in one statement; when somebody holds one of them, one by one. Answers those that are held. */
async function insertTombstones(
  client: ClientBase,
  { rescue, clock, givenUp }: SettleParts,
  { ids, epoch, tombstone, patienceMs }: SettleRequest,
): Promise<ReadonlySet<TxnId>> {
  const insert = (some: readonly TxnId[]): Promise<unknown> =>
    client.query(INSERT_TOMBSTONES, [some, epoch, tombstone]);
  const everyMs = Math.ceil(Math.min(HELD_MS, patienceMs) / LOOKS);
  const stop = endHolders(client, givenUp.of(ids), { rescue, clock, everyMs });
  try {
    const inserting = insertWithin(client, patienceMs, () => insert(ids));
    if (!(await isHeld(inserting))) return new Set();
    const held = new Set<TxnId>();
    const untilMs = clock.monotonicMs() + ONE_BY_ONE_MS;
    for (let at = 0; at < ids.length; at += ONE_BY_ONE) {
      const some = ids.slice(at, at + ONE_BY_ONE);
      if (clock.monotonicMs() > untilMs) for (const id of some) held.add(id);
      else
        await insertWithin(client, HELD_MS, () =>
          Promise.all(some.map(async (id) => ((await isHeld(insert([id]))) ? held.add(id) : held))),
        );
    }
    return held;
  } finally {
    stop();
  }
}

/** `SET` goes ahead of the inserts, in the same round trip. */
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
 * In one round trip, and in this order. Receipts that expire between two of the reads then count as found or as expired; with
 * the window read first they would count as absent. And the end of the log is above every receipt that was found.
 */
async function readAll(
  client: ClientBase,
  ids: readonly TxnId[],
): Promise<{ found: ReadonlyMap<TxnId, Receipt>; window: Window; end: LogEnd }> {
  const [found, window, end] = await Promise.all([
    readReceipts(client, ids),
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

async function readReceipts(client: ClientBase, ids: readonly TxnId[]): Promise<Map<TxnId, Receipt>> {
  const { rows } = await client.query<ReceiptRow>({ name: "receipts", text: RECEIPTS, values: [ids] });
  return new Map(
    rows.map(({ id, kind, epoch, owner, digest }) => [
      id,
      { kind, epoch, owner: BigInt(owner), digest: BigInt(digest) },
    ]),
  );
}

function classify(
  ids: readonly TxnId[],
  found: ReadonlyMap<TxnId, Receipt>,
  window: Window,
): Map<TxnId, ReceiptState> {
  return new Map(
    ids.map((id): [TxnId, ReceiptState] => {
      const receipt = found.get(id);
      if (receipt !== undefined) return [id, receipt];
      const at = txnTimestampMs(id);
      if (at < window.expiredBeforeMs) return [id, { kind: "expired" }];
      return [id, { kind: at < window.ceilingMs ? "absent" : "out_of_window" }];
    }),
  );
}

function asOf({ end, epoch }: LogEnd, receipts: ReadonlyMap<TxnId, ReceiptState>): ReceiptsAsOf {
  if (epoch === null) throw new HighwaterError("epoch_changed", { detail: "The node has no epoch." });
  return { receipts, epoch, asOf: end };
}
