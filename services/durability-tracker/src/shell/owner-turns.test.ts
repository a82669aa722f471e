// Goal: many calls of one owner leave the connection to the calls of others.
import assert from "node:assert/strict";
import { test } from "node:test";
import { NOBODY } from "@highwater/service";
import { settle } from "@highwater/runtime/testing";
import { OwnerTurns } from "./owner-turns.ts";

function makeTurns() {
  const turns = new OwnerTurns({ limit: "eventPages", calls: "pages of events" });
  const begun: { owner: bigint | null; end: (error?: Error) => void }[] = [];
  const ask = (owner: bigint | null): Promise<number> =>
    turns.take(
      owner,
      () =>
        new Promise((resolve, reject) => {
          const at = begun.length;
          begun.push({
            owner,
            end: (error) => {
              if (error === undefined) resolve(at);
              else reject(error);
            },
          });
        }),
    );
  return { begun, ask };
}

test("pages of an owner are read one after the other, those of another at once, and a failure ends none but its own", async () => {
  const { begun, ask } = makeTurns();
  const mine = Array.from({ length: 16 }, () => ask(7n));
  await assert.rejects(ask(7n), {
    code: "concurrency_limited",
    message: "16 pages of events of this owner are under way (eventPages); wait for one to end.",
  });
  const others = ask(8n);
  await settle();
  assert.deepEqual(
    begun.map(({ owner }) => owner),
    [7n, 8n],
  );
  begun[0]?.end(new Error("no connection"));
  begun[1]?.end();
  await assert.rejects(Promise.resolve(mine[0]), /no connection/);
  assert.equal(await others, 1);
  for (let at = 2; at < 17; at++) {
    await settle();
    assert.equal(begun.length, at + 1);
    begun[at]?.end();
  }
  await Promise.all(mine.slice(1));
  void ask(7n);
  await settle();
  assert.equal(begun.length, 18);
});

test("services, and callers of a tracker without authentication, have no turns", async () => {
  const { begun, ask } = makeTurns();
  for (let count = 0; count < 20; count++) {
    void ask(null);
    void ask(NOBODY);
  }
  await settle();
  assert.equal(begun.length, 40);
});
