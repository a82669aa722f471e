// The outbox on a real ledger file: what was flushed is there for the next process, in its order, and only that.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { LedgerFile } from "../shell/ledger-file.ts";
import { ledgerOutbox } from "./ledger-outbox.ts";

let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "highwater-outbox-"));
});
after(() => rm(folder, { recursive: true }));

const open = (name: string): LedgerFile =>
  new LedgerFile(join(folder, name), (cause) => {
    throw cause;
  });
const keyOf = (number: number): string => String(number).padStart(16, "0");

describe("the outbox in a ledger file", () => {
  it("keeps what was flushed, in the order of the keys, a part at a time", async () => {
    const ledger = open("order");
    const outbox = ledgerOutbox(ledger);
    for (let number = 12_000; number > 0; number--) outbox.save(keyOf(number), `{"is":"${String(number)}"}`);
    for (let number = 2; number <= 12_000; number += 2) outbox.remove(keyOf(number));
    await outbox.flush();
    await ledger.close();

    const again = open("order");
    const found = ledgerOutbox(again);
    const first = await found.load("", 4_000);
    assert.deepEqual([...first.keys()].slice(0, 2), [keyOf(1), keyOf(3)]);
    assert.deepEqual([first.size, first.get(keyOf(3))], [4_000, '{"is":"3"}']);
    const rest = await found.load([...first.keys()].at(-1) ?? "", 4_000);
    assert.deepEqual([rest.size, [...rest.keys()].at(-1)], [2_000, keyOf(11_999)]);
    assert.equal((await found.load(keyOf(12_000), 10)).size, 0);
    await again.close();
  });

  it("shows what was saved and removed before the question", async () => {
    const ledger = open("fresh");
    const outbox = ledgerOutbox(ledger);
    for (let round = 1; round <= 50; round++) {
      outbox.save(keyOf(round), "{}");
      if (round > 1) outbox.remove(keyOf(round - 1));
      await outbox.flush();
      assert.deepEqual([...(await outbox.load("", 10)).keys()], [keyOf(round)]);
    }
    await ledger.close();
  });
});
