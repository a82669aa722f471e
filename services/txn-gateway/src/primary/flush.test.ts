import assert from "node:assert/strict";
import { test } from "node:test";
import { type EpochId, type Offset } from "@highwater/protocol";
import { type Store } from "@highwater/store";
import { EPOCH_A, EPOCH_B, FakeClock, MemoryLog, settle } from "../../test/support/fakes.ts";
import { FlushHelp } from "./flush.ts";

const PRIMARY_EPOCH = { node: "a", epoch: EPOCH_A as EpochId };

function makeHelp() {
  const clock = new FakeClock();
  const calls: { epoch: string; marks: unknown; done: (reached?: Offset) => void; fail: () => void }[] = [];
  const known: Record<string, string> = {};
  let failures = 0;
  const store = {
    helpFlush: (_node: string, epoch: EpochId, marks: unknown) =>
      new Promise<Offset>((resolve, reject) => {
        calls.push({
          epoch,
          marks,
          done: (reached = 1n as Offset) => {
            resolve(reached);
          },
          fail: () => {
            reject(new Error("connection lost"));
          },
        });
      }),
  } as Partial<Store> as Store;
  const options = { marksOf: () => ({ ...known }), onFailure: () => failures++, onMet: () => undefined };
  const help = new FlushHelp({ clock, store, log: new MemoryLog() }, options);
  return { clock, calls, help, known, failures: () => failures };
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

test("what asks for a position gets that of the next flush that begins", async () => {
  const { help, calls } = makeHelp();
  const reached: (Offset | null)[] = [];
  const reach = (): void => void help.reach(PRIMARY_EPOCH).then((offset) => reached.push(offset));
  reach();
  reach();
  calls[0]?.done(5n as Offset);
  await settle();
  assert.deepEqual(reached, [5n], "the second came when the first flush had begun");
  calls[1]?.done(8n as Offset);
  await settle();
  assert.deepEqual(reached, [5n, 8n]);
  assert.equal(calls.length, 2);
});

test("there is no position when a flush fails, its epoch ends, or the help stops", async () => {
  const { help, calls, clock } = makeHelp();
  const reached: (Offset | null)[] = [];
  const reach = (epoch: string): void =>
    void help.reach({ node: "a", epoch: epoch as EpochId }).then((offset) => reached.push(offset));
  reach(EPOCH_A);
  reach(EPOCH_A);
  calls[0]?.fail();
  await settle();
  assert.deepEqual(reached, [null]);
  help.epochEnded(EPOCH_A);
  await settle();
  assert.deepEqual(reached, [null, null]);
  reach(EPOCH_B);
  await clock.advance(50);
  reach(EPOCH_B);
  calls.at(-1)?.done(9n as Offset);
  help.stop();
  await settle();
  assert.deepEqual(
    reached.slice(2),
    [null, 9n],
    "the one that waited when it stopped, and the one under way",
  );
});

test("a position of another epoch's flush is none", async () => {
  const { help, calls } = makeHelp();
  help.committed(PRIMARY_EPOCH);
  const old = help.reach(PRIMARY_EPOCH);
  const other = help.reach({ node: "b", epoch: EPOCH_B as EpochId });
  calls[0]?.done();
  await settle();
  calls[1]?.done(3n as Offset);
  assert.deepEqual([await old, await other], [null, 3n]);
});

test("marks that the last flush has written are not written again", async () => {
  const { help, calls, clock, known } = makeHelp();
  known["region"] = "10";
  help.committed(PRIMARY_EPOCH);
  calls[0]?.done();
  await settle();
  await clock.advance(60_000);
  assert.equal(calls.length, 1);
  // Of another epoch the same marks say something else.
  help.committed({ node: "b", epoch: EPOCH_B as EpochId });
  calls[1]?.done();
  await settle();
  known["region"] = "11";
  await clock.advance(60_000);
  assert.equal(calls.length, 3);
});

test("what the last commits have reached is written once more, and then nothing", async () => {
  const { help, calls, clock, known } = makeHelp();
  known["region"] = "10";
  help.committed(PRIMARY_EPOCH);
  calls[0]?.done();
  await settle();
  known["region"] = "20";
  await clock.advance(60_000);
  assert.deepEqual(
    calls.map(({ marks }) => marks),
    [{ region: "10" }, { region: "20" }],
  );
  calls[1]?.done();
  await clock.advance(60_000);
  help.committed(PRIMARY_EPOCH);
  calls[2]?.done();
  await settle();
  help.epochEnded(EPOCH_A);
  await clock.advance(60_000);
  assert.equal(calls.length, 3);
});
