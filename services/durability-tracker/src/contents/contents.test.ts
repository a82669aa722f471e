// Goal: every published loss is listed, also those of the moment before a tracker stops, and
// thousands at once take few writes. Lists of one owner do not hold up what gateways announce.
// Method: the real file, whose writes are counted.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { FakeClock } from "@highwater/runtime/testing";
import { MemoryLog } from "@highwater/service/testing";
import { Driven } from "../../test/support/core.ts";
import { published } from "../../test/support/events.ts";
import { type LostRow } from "./contents-database.ts";
import { ContentsFile } from "./contents-file.ts";
import { Contents, type ContentsOptions } from "./contents.ts";

const LIMITS = { bytes: 1_000_000, bytesPerOwner: 1_000_000 };
const ALL = {
  ...{ owner: null, after: 0, limit: 1_000, sinceMs: 0, id: null, contents: null, answered: null },
};

class CountedFile extends ContentsFile {
  readonly writes: number[] = [];

  override lose(rows: readonly LostRow[]): Promise<null> {
    this.writes.push(rows.length);
    return super.lose(rows);
  }
}

const never = (): never => {
  throw new Error("not needed here");
};

test("losses that are published together are listed in one write, and none is left out at the end", async () => {
  const folder = mkdtempSync(join(tmpdir(), "contents-"));
  try {
    const path = join(folder, "contents");
    const file = new CountedFile(path, LIMITS);
    const options: ContentsOptions = {
      ...{ file, clock: new FakeClock(), log: new MemoryLog(), keys: null },
      ...{ store: never, state: never, primary: never, readTime: never, onNotKept: never },
      ...{ keepLostMs: 1_000, expireEveryMs: 1_000 },
    };
    const contents = new Contents(options);
    for (let count = 0; count < 500; count++) contents.onVerdict(published());
    contents.onVerdict(published({ kind: "read" }));
    await Promise.resolve();
    for (let count = 0; count < 300; count++) contents.onVerdict(published());
    await contents.stop();
    assert.deepEqual(file.writes, [500, 300]);
    const again = new ContentsFile(path, LIMITS);
    assert.equal((await again.list(ALL)).length, 800);
    await again.close();
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("what gateways announce waits for two lists of an owner at most, however many it asks for", async () => {
  const folder = mkdtempSync(join(tmpdir(), "contents-"));
  try {
    const file = new ContentsFile(join(folder, "contents"), LIMITS);
    const { state } = new Driven();
    const contents = new Contents({
      ...{ file, clock: new FakeClock(), log: new MemoryLog(), keys: null },
      ...{ store: never, state: () => state, primary: never, readTime: never, onNotKept: never },
      ...{ keepLostMs: 1_000, expireEveryMs: 1_000 },
    });
    let ended = 0;
    let refused = 0;
    const lists = Array.from({ length: 100 }, () =>
      contents.list({ ...ALL, owner: "7" }).then(
        () => ended++,
        (error: unknown) => {
          assert.equal((error as { code?: unknown }).code, "concurrency_limited");
          refused++;
        },
      ),
    );
    await lists[0];
    const before = ended;
    const announced = { kind: "answered", owner: "8", id: "a", epoch: "b", answered: "yes" } as const;
    assert.equal(await contents.take([announced]), null);
    assert.ok(ended - before <= 2, `${String(ended - before)} lists came first`);
    await Promise.all(lists);
    assert.deepEqual({ ended, refused }, { ended: 16, refused: 84 });
    await contents.stop();
  } finally {
    rmSync(folder, { recursive: true });
  }
});
