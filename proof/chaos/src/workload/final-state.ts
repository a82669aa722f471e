// Reads the database at the end, directly and not through services.
import { type EpochId, type FinalState } from "@highwater/checker";
import { nowMs } from "../clock.ts";
import { type EpochSummary, type Target } from "../parts.ts";
import { FINAL_QUERIES } from "./schema.ts";

/**
 * `reported`: epochs that trackers reported during the run; those outside this history come after
 * its own.
 */
export async function readFinalState(
  target: Target,
  node: string,
  reported: readonly EpochSummary[],
): Promise<FinalState> {
  const read = async <T>(what: keyof typeof FINAL_QUERIES): Promise<T> => {
    const [row] = await target.query(node, FINAL_QUERIES[what]);
    return JSON.parse(String(row?.["data"])) as T;
  };
  const own =
    await read<{ id: EpochId; seq: number; previous: EpochId | null; node: string; commanded: boolean }[]>(
      "epochs",
    );
  const inHistory = new Set(own.map(({ id }) => id));
  const others = reported.filter(({ id }) => !inHistory.has(id));
  return {
    type: "final",
    atMs: nowMs(),
    node,
    lists: await read("lists"),
    balances: await read("balances"),
    inserted: await read("inserted"),
    transfers: await read("transfers"),
    receipts: await read("receipts"),
    rows: await read("rows"),
    redone: await read("redone"),
    expiry: await read("expiry"),
    epochs: [
      ...own.map((epoch) => ({ ...epoch, inHistory: true })),
      // An epoch outside the history that counts has no operator's choice.
      ...others.map(({ id, seq, previous, node: at }) => ({
        id,
        seq,
        previous,
        node: at,
        inHistory: false,
        commanded: false,
      })),
    ],
  };
}
