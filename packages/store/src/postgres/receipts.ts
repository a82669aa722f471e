// Looking receipts up, and settling ids that have none with a tombstone.
import { type ClientBase } from "pg";
import { type EpochId, HighwaterError, type TxnId, txnTimestampMs } from "@highwater/protocol";
import { type Clock } from "../clock.ts";
import { type Receipt, type ReceiptsAsOf, type ReceiptState } from "../port.ts";
import { type Channel } from "./channel.ts";
import { rescueFrom } from "./locks.ts";
import { type LogEnd, readLogEnd } from "./log-end.ts";
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

/**
 * READ COMMITTED throughout: after the insert met a rival, the read sees who won.
 * A session that still holds an id after the patience is ended; it can be the orphan of a gateway on a dead host, whose
 * connection the server would notice only hours later.
 */
export async function settleReceipts(
  client: ClientBase & { processID?: number | null },
  rescue: Channel,
  clock: Clock,
  request: SettleRequest,
): Promise<ReceiptsAsOf> {
  const { window, found, end } = await readAll(client, request.ids);
  const before = classify(request.ids, found, window);
  const absent = request.ids.filter((id) => before.get(id)?.kind === "absent");
  if (absent.length === 0) return asOf(end, before);
  const stopRescue = rescueFrom(client.processID ?? 0, rescue, clock, request.patienceMs);
  try {
    // One after the other on the server, in one round trip: each statement sees what the one before it did.
    const [, settled, after] = await Promise.all([
      client.query(INSERT_TOMBSTONES, [absent, request.epoch, request.tombstone]),
      readReceipts(client, absent),
      readLogEnd(client),
    ]);
    return asOf(after, new Map([...before, ...classify(absent, settled, window)]));
  } catch (cause) {
    if ((cause as { code?: string }).code === "23502")
      throw new HighwaterError("epoch_changed", {}, { cause });
    throw cause;
  } finally {
    stopRescue();
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
