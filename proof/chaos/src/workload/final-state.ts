// What is in the database at the end, read past all services.
import { type EpochId, type FinalState } from "@highwater/checker";
import { nowMs } from "../clock.ts";
import { type EpochSummary, type Target } from "../parts.ts";
import { FINAL_QUERIES } from "./schema.ts";

/** `reported`: epochs that trackers have told of on the way; those outside this history come after its own. */
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
    ...{ type: "final", atMs: nowMs(), node },
    lists: await read("lists"),
    balances: await read("balances"),
    inserted: await read("inserted"),
    transfers: await read("transfers"),
    receipts: await read("receipts"),
    expiry: await read("expiry"),
    epochs: [
      ...own.map((epoch) => ({ ...epoch, inHistory: true })),
      // What is in no history that counts has chosen none.
      ...others.map(({ id, seq, previous, node: at }) => ({
        ...{ id, seq, previous, node: at },
        ...{ inHistory: false, commanded: false },
      })),
    ],
  };
}
