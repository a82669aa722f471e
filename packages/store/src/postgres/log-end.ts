// Reads the end of the log, as an offset that a flush can reach without another write.
import { type ClientBase } from "pg";
import { type EpochId, type Offset } from "@highwater/protocol";
import { endOfLog, parseLsn } from "./lsn.ts";
import { LOG_END } from "./sql.ts";

export interface LogEnd {
  /** At or above everything that had been committed when this was asked. */
  readonly end: Offset;
  /** Epoch of the server process at that moment; null when it has none. */
  readonly epoch: EpochId | null;
}

export async function readLogEnd(client: ClientBase): Promise<LogEnd> {
  const { rows } = await client.query<{ applied: string; segment_bytes: string; epoch: string | null }>({
    name: "log-end",
    text: LOG_END,
  });
  const [row] = rows;
  if (row === undefined) throw new Error("the server did not say where its log ends");
  const end = endOfLog(parseLsn(row.applied), BigInt(row.segment_bytes));
  return { end, epoch: row.epoch as EpochId | null };
}
