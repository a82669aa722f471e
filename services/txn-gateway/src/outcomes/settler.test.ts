// Goal: an id that is free waits for no other. Method: a store whose calls with patience last until the test ends.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type EpochId, type Offset } from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import { type ReceiptsAsOf, type ReceiptState, type SettleRequest } from "@highwater/store";
import { EPOCH_A, newId } from "../../test/support/fakes.ts";
import { type Deps } from "../deps.ts";
import { type Primary } from "../primary/primary.ts";
import { type Finality } from "./finality.ts";
import { Settler } from "./settler.ts";

test("a held id is asked for without waiting first, and others are settled while it is waited for", async () => {
  const epoch = EPOCH_A as EpochId;
  const held = { id: newId(), tag: EPOCH_A };
  const isHeld = Promise.withResolvers<undefined>();
  const isWaiting = Promise.withResolvers<undefined>();
  const aborted = { kind: "aborted", epoch, digest: 0n } as const;
  const settle = async (_node: string, { keys, patienceMs }: SettleRequest): Promise<ReceiptsAsOf> => {
    if (patienceMs > 0) {
      assert.deepEqual(keys, [held]);
      isWaiting.resolve(undefined);
      await isHeld.promise;
    }
    const receipts = keys.map((key): ReceiptState =>
      key === held && patienceMs === 0 ? { kind: "held" } : aborted,
    );
    return { receipts, epoch, asOf: 7n as Offset };
  };
  const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const settler = new Settler(
    { clock: realClock, log, store: { settle } } as unknown as Deps,
    { await: () => Promise.resolve({ node: "east", epoch }), wake: () => undefined } as unknown as Primary,
    { await: () => Promise.resolve("reached") } as unknown as Finality,
  );
  const waiting = settler.settle(held, epoch);
  await isWaiting.promise;
  for (let at = 0; at < 3; at++)
    assert.equal((await settler.settle({ id: newId(), tag: EPOCH_A }, epoch))?.kind, "aborted");
  isHeld.resolve(undefined);
  assert.equal((await waiting)?.kind, "aborted");
});
