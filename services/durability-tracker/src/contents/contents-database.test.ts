// Goal: the file keeps contents within its limits, forgets what is durable, lists what was lost,
// and after an erasure holds nothing that could open an owner's contents. It survives a restart.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import {
  ContentsDatabase,
  type ContentsItem,
  type ContentsLimits,
  type LostQuestion,
} from "./contents-database.ts";

const EPOCH = "e1";
const ALL: LostQuestion = {
  ...{ owner: null, after: 0, limit: 100, sinceMs: 0, id: null, contents: null, answered: null },
};
const PLENTY: ContentsLimits = { bytes: 1_000_000, bytesPerOwner: 1_000_000 };
const ROW = 256;

let folder: string;
let file: string;
let open: ContentsDatabase[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "contents-"));
  file = join(folder, "contents");
});

afterEach(() => {
  for (const each of open.splice(0)) each.close();
  rmSync(folder, { recursive: true });
});

function start(limits = PLENTY): ContentsDatabase {
  for (const each of open.splice(0)) each.close();
  const database = new ContentsDatabase(file, limits);
  open = [database];
  return database;
}

const item = (
  id: string,
  offset: number,
  more: { owner?: string; idMs?: number; bytes?: number } = {},
): ContentsItem => {
  const { owner = "7", idMs = 1_000, bytes = 100 } = more;
  const body = Buffer.alloc(bytes, `body of ${id}`);
  return {
    kind: "contents",
    owner,
    id,
    epoch: EPOCH,
    offset: String(offset),
    idMs,
    wrapped: Buffer.from(`the key of ${owner}`),
    body,
  };
};
const lost = (id: string, atMs = 5, owner = "7") => ({
  owner,
  id,
  epoch: EPOCH,
  atMs,
  data: `{"id":"${id}"}`,
});
const listed = (database: ContentsDatabase, question: Partial<LostQuestion> = {}) =>
  database.list({ ...ALL, ...question }).map(({ id, contents, answered }) => `${id} ${contents} ${answered}`);

test("contents are kept until their offset is reached, unless their transaction was lost", () => {
  const it = start();
  assert.deepEqual(it.take([item("a", 9), item("b", 10), item("c", 100)]), [null, null, null]);
  it.lose([lost("a")]);
  it.forgetThrough(EPOCH, "10");
  assert.equal(it.sealed({ owner: "7", id: "b", epoch: EPOCH }), null);
  assert.equal(it.sealed({ owner: "7", id: "c", epoch: EPOCH })?.offset, "100");
  assert.equal(
    Buffer.from(it.sealed({ owner: "7", id: "a", epoch: EPOCH })?.body ?? [])
      .toString()
      .slice(0, 9),
    "body of a",
  );
  assert.deepEqual(it.totals, { transactions: 2, bytes: 2 * (100 + ROW) });
  const again = start();
  assert.deepEqual(again.totals, { transactions: 2, bytes: 2 * (100 + ROW) });
  assert.deepEqual(listed(again), ["a kept unknown"]);
});

test("what is lost is listed in its order, in pages, and by what is known of it", () => {
  const it = start();
  it.take([
    item("a", 1),
    item("b", 2, { owner: "8" }),
    { kind: "answered", owner: "7", id: "a", epoch: EPOCH, answered: "yes" },
  ]);
  it.lose([lost("a"), lost("b", 6, "8"), lost("c", 7)]);
  it.lose([lost("a", 99)]);
  assert.deepEqual(listed(it), ["a kept yes", "b kept unknown", "c not_kept unknown"]);
  assert.deepEqual(listed(it, { after: 1, limit: 1 }), ["b kept unknown"]);
  assert.deepEqual(listed(it, { owner: "7" }), ["a kept yes", "c not_kept unknown"]);
  assert.deepEqual(listed(it, { contents: "not_kept" }), ["c not_kept unknown"]);
  assert.deepEqual(listed(it, { answered: "yes" }), ["a kept yes"]);
  assert.deepEqual(listed(it, { sinceMs: 7 }), ["c not_kept unknown"]);
  assert.deepEqual(listed(it, { id: "b" }), ["b kept unknown"]);
});

test("the limits refuse contents, and not the transaction's entry; forgotten contents make room", () => {
  const it = start({ bytes: 3 * (100 + ROW), bytesPerOwner: 2 * (100 + ROW) });
  const taken = it.take([
    item("a", 1),
    item("b", 2),
    item("c", 3),
    item("d", 4, { owner: "8" }),
    item("e", 5, { owner: "9" }),
  ]);
  assert.deepEqual(taken, [null, null, "over_limit", null, "over_limit"]);
  it.lose([lost("c")]);
  assert.deepEqual(listed(it), ["c over_limit unknown"]);
  assert.deepEqual(
    it.take([item("c", 3), item("a", 1)]),
    ["over_limit", null],
    "sent again, the answer is the same",
  );
  it.forgetThrough(EPOCH, "2");
  assert.deepEqual(it.take([item("f", 6)]), [null]);
});

test("an erasure leaves neither a data key nor contents in the files, and refuses what comes late", () => {
  const it = start();
  it.take([item("a", 1, { idMs: 1_000 }), item("b", 2, { owner: "8" })]);
  it.lose([lost("a")]);
  const onDisk = (): string => [file, `${file}-wal`].map((each) => readFileSync(each, "latin1")).join("");
  assert.match(onDisk(), /body of a[^]*|the key of 7/);
  assert.equal(it.erase("7", 2_000), 1);
  assert.doesNotMatch(onDisk(), /body of a|the key of 7/);
  assert.match(onDisk(), /the key of 8/);
  assert.deepEqual(listed(it), ["a erased unknown"]);
  assert.deepEqual(it.take([item("c", 3, { idMs: 2_000 }), item("d", 4, { idMs: 2_001 })]), ["erased", null]);
  assert.deepEqual(
    [it.isErased("7", 2_000), it.isErased("7", 2_001), it.isErased("8", 0)],
    [true, false, false],
  );
  it.erase("7", 1_500);
  assert.deepEqual(start().take([item("e", 5, { idMs: 1_900 })]), ["erased"], "a mark never goes back");
});

test("pending contents of other epochs come in parts, and without those that were lost", () => {
  const it = start();
  it.take([item("a", 1), item("b", 2), item("c", 3)]);
  it.lose([lost("b")]);
  const first = it.pendingElsewhere("e2", null);
  assert.deepEqual(
    first.map(({ id, offset }) => [id, offset]),
    [
      ["a", "1"],
      ["c", "3"],
    ],
  );
  assert.deepEqual(
    it.pendingElsewhere("e2", first[0] ?? null).map(({ id }) => id),
    ["c"],
  );
  assert.deepEqual(it.pendingElsewhere(EPOCH, null), []);
  it.forget(first);
  assert.deepEqual(it.totals, { transactions: 1, bytes: 100 + ROW });
});

test("what was lost expires with its contents", () => {
  const it = start();
  it.take([item("a", 1), item("b", 2)]);
  it.lose([lost("a", 5), lost("b", 6)]);
  it.expire(6);
  assert.deepEqual(listed(it), ["b kept unknown"]);
  assert.deepEqual(it.totals, { transactions: 1, bytes: 100 + ROW });
});

test("a batch that fails leaves nothing, and counts nothing", () => {
  const it = start();
  const broken = { ...item("b", 2), offset: null } as unknown as ContentsItem;
  assert.throws(() => it.take([item("a", 1), broken]));
  assert.deepEqual(it.totals, { transactions: 0, bytes: 0 });
  assert.equal(it.sealed({ owner: "7", id: "a", epoch: EPOCH }), null);
});
