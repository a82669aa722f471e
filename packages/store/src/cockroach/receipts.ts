// Looks receipts up, and settles ids without one by a tombstone.
import { type ClientBase } from "pg";
import { type EpochId, HighwaterError, type Offset, txnTimestampMs } from "@highwater/protocol";
import type { Receipt, ReceiptKey, ReceiptsAsOf, ReceiptState, SettleRequest } from "../port.ts";
import { query } from "./cluster.ts";
import { parseHlc } from "./hlc.ts";
import { INSERT_TOMBSTONE, LOG_END, RECEIPT, RETENTION } from "./sql.ts";

/** How much longer than asked the ids of one call wait for those who hold them. */
const GRACE_MS = 400;
const RETRIES = 5;

export async function readLogEnd(
  client: ClientBase,
): Promise<{ readonly epoch: EpochId; readonly offset: Offset }> {
  const [row] = await query(client, LOG_END);
  const { epoch = null, position = null } = row ?? {};
  if (epoch === null || position === null)
    throw new HighwaterError("epoch_changed", { detail: "The node has no epoch." });
  return { epoch: epoch as EpochId, offset: parseHlc(position) };
}

/** The end of the log comes last, so it is above every receipt that was found. */
export async function lookUp(client: ClientBase, keys: readonly ReceiptKey[]): Promise<ReceiptsAsOf> {
  const found = await Promise.all(keys.map(({ id, tag }) => query(client, RECEIPT, [id, tag])));
  const [window] = await query(client, RETENTION);
  const { epoch, offset } = await readLogEnd(client);
  const receipts = keys.map(({ id }, at): ReceiptState => {
    const row = found[at]?.[0];
    if (row !== undefined)
      return {
        kind: row["kind"] as Receipt["kind"],
        epoch: row["epoch"] as EpochId,
        digest: BigInt(row["digest"] ?? 0),
      };
    const atMs = txnTimestampMs(id);
    if (window === undefined || atMs < Number(window["expired_before_ms"])) return { kind: "expired" };
    return { kind: atMs < Number(window["ceiling_ms"]) ? "absent" : "out_of_window" };
  });
  return { receipts, epoch, asOf: offset };
}

/**
 * An insert on a key meets the transaction that holds it, in any isolation level, and waits for it.
 * None is ended for that: it ends with its connection, or at its time limit.
 */
export async function settle(client: ClientBase, request: SettleRequest): Promise<ReceiptsAsOf> {
  const { keys, epoch, tombstone, patienceMs } = request;
  const before = await lookUp(client, keys);
  const absent = keys.filter((_, at) => before.receipts[at]?.kind === "absent");
  if (absent.length === 0) return before;
  if (before.epoch !== epoch) throw new HighwaterError("epoch_changed");
  const held = new Set<ReceiptKey>();
  let waitMs = patienceMs + GRACE_MS;
  for (const key of absent) {
    await query(client, `SET lock_timeout = '${String(waitMs)}ms'`);
    const values = [key.id, key.tag, epoch, tombstone, String(txnTimestampMs(key.id))];
    if (await inserts(client, values)) continue;
    held.add(key);
    // The others need not wait as long again.
    waitMs = GRACE_MS;
  }
  const after = await lookUp(client, keys);
  const receipts = after.receipts.map((state, at): ReceiptState => {
    const key = keys[at];
    if (state.kind !== "absent" || key === undefined) return state;
    if (held.has(key)) return { kind: "held" };
    throw new HighwaterError("epoch_changed");
  });
  return { ...after, receipts };
}

/** False: somebody holds the key. Repeating it is safe, whatever became of the first. */
async function inserts(client: ClientBase, values: readonly string[]): Promise<boolean> {
  for (let attempt = 1; ; attempt++)
    try {
      await query(client, INSERT_TOMBSTONE, values);
      return true;
    } catch (cause) {
      const { code } = cause as { code?: string };
      if (code === "55P03") return false;
      if (attempt === RETRIES || (code !== "40001" && code !== "40003")) throw cause;
    }
}
