import assert from "node:assert/strict";
import { Socket } from "node:net";
import { test } from "node:test";
import { FakeClock, settle } from "@highwater/runtime/testing";
import { LogIns } from "./log-ins.ts";

interface Asked {
  readonly client: Socket;
  /** Ends this client's turn; undefined before the turn. */
  end: (() => void) | undefined;
  error: unknown;
}

async function ask(logIns: LogIns, count: number): Promise<Asked[]> {
  const asked = Array.from({ length: count }, (): Asked => {
    const one: Asked = { client: new Socket(), end: undefined, error: undefined };
    logIns.turn(one.client).then(
      (end) => (one.end = end),
      (cause: unknown) => (one.error = cause),
    );
    return one;
  });
  await settle();
  return asked;
}

const turns = (asked: readonly Asked[]): number => asked.filter(({ end }) => end !== undefined).length;

test("sixteen clients log in at a time, and each that ends its turn gives it to the oldest", async () => {
  const asked = await ask(new LogIns(new FakeClock()), 40);
  assert.equal(turns(asked), 16);
  asked[3]?.end?.();
  asked[3]?.end?.();
  await settle();
  assert.equal(turns(asked), 17);
  assert.notEqual(asked[16]?.end, undefined);
  for (const { end } of asked) end?.();
  await settle();
  for (const { end } of asked) end?.();
  await settle();
  assert.equal(turns(asked), 40);
});

test("a client that goes while it waits takes no turn", async () => {
  const asked = await ask(new LogIns(new FakeClock()), 18);
  asked[16]?.client.destroy();
  await settle();
  assert.match(String(asked[16]?.error), /has gone/);
  asked[0]?.end?.();
  await settle();
  assert.notEqual(asked[17]?.end, undefined);
});

test("a log-in that takes long is not waited for", async () => {
  const clock = new FakeClock();
  const logIns = new LogIns(clock);
  const asked = await ask(logIns, 32);
  await clock.advance(1_000);
  await settle();
  assert.equal(turns(asked), 32);
  // When these clients end their turns, which had run out, no further turn becomes free.
  for (const { end } of asked.slice(0, 16)) end?.();
  const [more] = await ask(logIns, 1);
  assert.equal(more?.end, undefined);
});
