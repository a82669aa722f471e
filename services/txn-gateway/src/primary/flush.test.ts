import assert from "node:assert/strict";
import { test } from "node:test";
import { type EpochId } from "@highwater/protocol";
import { type Store } from "@highwater/store";
import { EPOCH_A, EPOCH_B, FakeClock, MemoryLog, settle } from "../../test/support/fakes.ts";
import { FlushHelp } from "./flush.ts";

const PRIMARY_EPOCH = { node: "a", epoch: EPOCH_A as EpochId };

function makeHelp() {
  const clock = new FakeClock();
  const calls: { epoch: string; done: () => void; fail: () => void }[] = [];
  let failures = 0;
  const store = {
    helpFlush: (_node: string, epoch: EpochId) =>
      new Promise<void>((done, reject) => {
        calls.push({
          epoch,
          done,
          fail: () => {
            reject(new Error("connection lost"));
          },
        });
      }),
  } as Partial<Store> as Store;
  const help = new FlushHelp({ clock, store, log: new MemoryLog() }, () => failures++);
  return { clock, calls, help, failures: () => failures };
}

test("one in flight for any number of commits, one more for those behind it, then none", async () => {
  const { help, calls } = makeHelp();
  for (let count = 0; count < 5; count++) help.committed(PRIMARY_EPOCH);
  assert.equal(calls.length, 1);
  for (let count = 0; count < 5; count++) help.committed(PRIMARY_EPOCH);
  assert.equal(calls.length, 1);
  calls[0]?.done();
  await settle();
  assert.equal(calls.length, 2);
  calls[1]?.done();
  await settle();
  assert.equal(calls.length, 2);
  help.committed(PRIMARY_EPOCH);
  assert.equal(calls.length, 3);
});

test("a failed one is tried again after a pause, until its epoch ends", async () => {
  const { help, calls, clock, failures } = makeHelp();
  help.committed(PRIMARY_EPOCH);
  calls[0]?.fail();
  await settle();
  assert.equal(failures(), 1);
  assert.equal(calls.length, 1);
  await clock.advance(50);
  assert.equal(calls.length, 2);
  help.epochEnded(EPOCH_A);
  calls[1]?.fail();
  await clock.advance(5_000);
  assert.equal(calls.length, 2);
  help.committed({ node: "b", epoch: EPOCH_B as EpochId });
  assert.equal(calls.at(-1)?.epoch, EPOCH_B);
});
