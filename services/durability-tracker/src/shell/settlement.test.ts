// Goal: an answer about ids that are free waits for no other. Method: a store whose calls with patience never end, or fail.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type EpochId, type Offset, type TxnId } from "@highwater/protocol";
import { type ReceiptsAsOf, type SettleRequest } from "@highwater/store";
import { Settlement } from "./settlement.ts";

const EPOCH = "00000000-0000-4000-8000-000000000001" as EpochId;
const key = (id: string) => ({ id: id as TxnId, tag: id });

test("ids that somebody holds are answered at once, and waited for behind that, those of one question at a time", async () => {
  const asked: string[] = [];
  const settlement = new Settlement({
    settle: async (_node: string, { keys, tombstone, patienceMs }: SettleRequest): Promise<ReceiptsAsOf> => {
      asked.push(
        `${tombstone} ${keys.map(({ id }) => id).join("+")} ${patienceMs === 0 ? "now" : "patiently"}`,
      );
      if (patienceMs > 0) await new Promise(() => undefined);
      const receipts = keys.map(({ id }) =>
        id.startsWith("held")
          ? ({ kind: "held" } as const)
          : ({ kind: "aborted", epoch: EPOCH, digest: 0n } as const),
      );
      return { receipts, epoch: EPOCH, asOf: 1n as Offset };
    },
  });
  const settle = async (ids: readonly string[], tombstone: "aborted" | "lost" = "aborted") => {
    const found = await settlement.settle("east", { epoch: EPOCH, keys: ids.map(key), tombstone });
    return found.receipts.map(({ kind }) => kind);
  };
  assert.deepEqual(await settle(["held1", "free"]), ["held", "aborted"]);
  assert.deepEqual(await settle(["held2"]), ["held"]);
  assert.deepEqual(await settle(["held3"], "lost"), ["held"]);
  assert.deepEqual(asked, [
    ...["aborted held1+free now", "aborted held1 patiently", "aborted held2 now"],
    ...["lost held3 now", "lost held3 patiently"],
  ]);
});

test("when the wait has ended, whatever came of it, the next question is waited for again", async () => {
  let waits = 0;
  const settlement = new Settlement({
    settle: (_node: string, { keys, patienceMs }: SettleRequest): Promise<ReceiptsAsOf> => {
      if (patienceMs > 0) waits++;
      if (patienceMs > 0) return Promise.reject(new Error("the server is gone"));
      return Promise.resolve({
        receipts: keys.map(() => ({ kind: "held" })),
        epoch: EPOCH,
        asOf: 1n as Offset,
      });
    },
  });
  for (let at = 1; at <= 2; at++) {
    await settlement.settle("east", { epoch: EPOCH, keys: [key("held")], tombstone: "lost" });
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(waits, at);
  }
});
