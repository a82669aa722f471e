// Goal: the file keeps contents within its limits, forgets what is durable, lists what was lost,
// and after an erasure holds nothing that could open an owner's contents. It survives a restart.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { DatabaseSync } from "node:sqlite";
import { type NotKeptWhy } from "@highwater/protocol";
import {
  ContentsDatabase,
  type ContentsLimits,
  listStatement,
  type LostQuestion,
} from "./contents-database.ts";
import { type ContentsMessage, entryText, groupsOf } from "./entries.ts";

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

type Contents = Extract<ContentsMessage, { kind: "contents" }>;

/** An id with this time in it. */
const idOf = (name: string, ms = 1_000): string =>
  `${ms
    .toString(16)
    .padStart(12, "0")
    .replace(/^(.{8})/, "$1-")}-7000-8000-${Buffer.from(name.padEnd(6)).toString("hex")}`;
const nameOf = (id: string): string => Buffer.from(id.slice(24), "hex").toString().trim();
const keyOf = (name: string, owner = "7") => ({ owner, id: idOf(name), epoch: EPOCH });
const WRAPPED = 62;

const item = (
  name: string,
  offset: number,
  more: { owner?: string; idMs?: number; bytes?: number } = {},
): Contents => {
  const { owner = "7", idMs = 1_000, bytes = 100 } = more;
  const wrapped = Buffer.alloc(WRAPPED, `\u0001the key of ${owner} `);
  const sealed = Buffer.concat([wrapped, Buffer.alloc(bytes, `body of ${name} `)]).toString("base64url");
  return { kind: "contents", owner, id: idOf(name, idMs), epoch: EPOCH, offset: String(offset), sealed };
};
/** What the log takes for each. */
const LOGGED = entryText({ ...item("a", 1) }).length;

function take(it: ContentsDatabase, messages: readonly ContentsMessage[]): (NotKeptWhy | null)[] {
  const notKept = it.take(groupsOf(messages).groups);
  return messages.map(
    ({ id, owner }) => notKept.find((each) => each.id === id && each.owner === owner)?.why ?? null,
  );
}
function unpack(it: ContentsDatabase): void {
  while (it.unpackElsewhere("e2"));
}
const lost = (name: string, atMs = 5, owner = "7") => ({
  ...keyOf(name, owner),
  atMs,
  data: `{"id":"${name}"}`,
});
const listed = (database: ContentsDatabase, question: Partial<LostQuestion> = {}) => {
  unpack(database);
  return database
    .list({ ...ALL, ...question })
    .map(({ id, contents, answered }) => `${nameOf(id)} ${contents} ${answered}`);
};

test("contents are kept until their offset is reached, unless their transaction was lost", () => {
  const it = start();
  for (const [name, offset] of [
    ["a", 9],
    ["b", 10],
    ["c", 100],
  ] as const)
    assert.deepEqual(take(it, [item(name, offset)]), [null]);
  unpack(it);
  it.lose([lost("a")]);
  it.forgetThrough(EPOCH, "10");
  assert.equal(it.sealed(keyOf("b")), null);
  assert.equal(it.sealed(keyOf("c"))?.offset, "100");
  assert.equal(
    Buffer.from(it.sealed(keyOf("a"))?.body ?? [])
      .toString()
      .slice(0, 9),
    "body of a",
  );
  assert.deepEqual(it.totals, { transactions: 2, bytes: 2 * (100 + ROW) });
  const again = start();
  assert.deepEqual(again.totals, { transactions: 2, bytes: 2 * (100 + ROW) });
  assert.deepEqual(listed(again), ["a kept unknown"]);
});

test("the log forgets what all levels have, counts the rest over a restart, and gives it rows in parts", () => {
  const it = start();
  take(it, [item("a", 9), item("b", 7)]);
  take(it, [item("c", 100)]);
  const answered = { kind: "answered", owner: "7", id: idOf("c"), epoch: EPOCH, answered: "yes" } as const;
  take(it, [answered]);
  const [two, one] = [2 * LOGGED + ROW, LOGGED + 2 + ROW];
  const answer = entryText(answered).length + ROW;
  assert.deepEqual(it.totals, { transactions: 3, bytes: two + one + answer });
  it.forgetThrough(EPOCH, "8");
  assert.equal(it.totals.transactions, 3, "what came together stays together");
  it.forgetThrough(EPOCH, "99");
  assert.deepEqual(it.totals, { transactions: 1, bytes: one + answer });
  const again = start();
  assert.deepEqual(again.totals, { transactions: 1, bytes: one + answer });
  take(again, [{ ...item("d", 5), epoch: "e0" }]);
  assert.equal(again.unpackElsewhere(EPOCH), false);
  assert.equal(again.sealed(keyOf("c")), null, "the epoch has not ended");
  assert.equal(again.sealed({ ...keyOf("d"), epoch: "e0" })?.offset, "5");
  take(again, [item("e", 101, { bytes: 600_000 }), item("f", 102, { owner: "8" })]);
  assert.equal(again.unpackElsewhere("e2"), true, "a part");
  unpack(again);
  again.lose([lost("c"), lost("e"), lost("f", 5, "8")]);
  assert.deepEqual(listed(again), ["c kept yes", "e kept unknown", "f kept unknown"]);
  assert.deepEqual(again.totals, { transactions: 4, bytes: 3 * 100 + 600_000 + 4 * ROW });
});

test("contents that are sent again count once when they get rows, and what came first stays", () => {
  const it = start();
  take(it, [item("a", 1)]);
  take(it, [item("a", 2, { bytes: 300 })]);
  unpack(it);
  assert.deepEqual(it.totals, { transactions: 1, bytes: 100 + ROW });
  assert.equal(it.sealed(keyOf("a"))?.offset, "1");
});

test("an answer that comes alone stays as long as the contents before it", () => {
  const it = start();
  take(it, [item("a", 50)]);
  it.forgetThrough(EPOCH, "10");
  take(it, [{ kind: "answered", owner: "7", id: idOf("a"), epoch: EPOCH, answered: "yes" }]);
  it.forgetThrough(EPOCH, "20");
  it.lose([lost("a")]);
  assert.deepEqual(listed(it), ["a kept yes"]);
});

test("a file of version 1 is taken over", () => {
  start().close();
  open = [];
  const old = new DatabaseSync(file);
  old.exec("DROP TABLE log; PRAGMA user_version = 1");
  old.close();
  const it = start();
  assert.deepEqual(take(it, [item("a", 1)]), [null]);
  assert.equal(start().totals.transactions, 1);
});

test("what is lost is listed in its order, in pages, and by what is known of it", () => {
  const it = start();
  take(it, [
    item("a", 1),
    item("b", 2, { owner: "8" }),
    { kind: "answered", owner: "7", id: idOf("a"), epoch: EPOCH, answered: "yes" },
  ]);
  it.lose([lost("a"), lost("b", 6, "8"), lost("c", 7)]);
  it.lose([lost("a", 99)]);
  assert.deepEqual(listed(it), ["a kept yes", "b kept unknown", "c not_kept unknown"]);
  assert.deepEqual(listed(it, { after: 1, limit: 1 }), ["b kept unknown"]);
  assert.deepEqual(listed(it, { owner: "7" }), ["a kept yes", "c not_kept unknown"]);
  assert.deepEqual(listed(it, { contents: "not_kept" }), ["c not_kept unknown"]);
  assert.deepEqual(listed(it, { answered: "yes" }), ["a kept yes"]);
  assert.deepEqual(listed(it, { sinceMs: 7 }), ["c not_kept unknown"]);
  assert.deepEqual(listed(it, { id: idOf("b") }), ["b kept unknown"]);
});

test("the limits refuse contents, and not the transaction's entry; forgotten contents make room", () => {
  const it = start({ bytes: 3 * LOGGED + 2 * ROW, bytesPerOwner: 2 * LOGGED + ROW });
  const taken = take(it, [
    item("a", 1),
    item("b", 2),
    item("c", 3),
    item("d", 4, { owner: "8" }),
    item("e", 5, { owner: "9" }),
  ]);
  assert.deepEqual(taken, [null, null, "over_limit", null, "over_limit"]);
  it.lose([lost("c")]);
  assert.deepEqual(listed(it), ["c over_limit unknown"]);
  // Both have rows now, which take more than the log.
  assert.deepEqual(
    take(it, [item("c", 3), item("a", 1)]),
    ["over_limit", null],
    "sent again, the answer is the same",
  );
  it.forgetThrough(EPOCH, "2");
  assert.deepEqual(take(it, [item("f", 6), item("c", 3)]), [null, null], "there is room now");
  assert.deepEqual(listed(it), ["c kept unknown"]);
});

test("an erasure leaves neither a data key nor contents in the files, and refuses what comes late", () => {
  const it = start();
  take(it, [item("a", 1, { idMs: 1_000 }), item("b", 2, { owner: "8" })]);
  it.lose([lost("a")]);
  take(it, [item("g", 3)]);
  const [logged, other] = [item("g", 3).sealed.slice(-60, -20), item("b", 2, { owner: "8" }).sealed];
  const onDisk = (): string => [file, `${file}-wal`].map((each) => readFileSync(each, "latin1")).join("");
  assert.ok(onDisk().includes(logged) && onDisk().includes(other));
  unpack(it);
  take(it, [item("h", 3)]);
  assert.match(onDisk(), /body of a[^]*|the key of 7/);
  assert.equal(it.erase("7", 2_000), 3, "with and without rows");
  assert.doesNotMatch(onDisk(), /body of [agh]|the key of 7/);
  for (const name of ["a", "g", "h"]) assert.ok(!onDisk().includes(item(name, 3).sealed.slice(2, 70)));
  assert.match(onDisk(), /the key of 8/);
  assert.deepEqual(listed(it), ["a erased unknown"]);
  assert.deepEqual(take(it, [item("c", 3, { idMs: 2_000 }), item("d", 4, { idMs: 2_001 })]), [
    "erased",
    null,
  ]);
  assert.deepEqual(
    [it.isErased("7", 2_000), it.isErased("7", 2_001), it.isErased("8", 0)],
    [true, false, false],
  );
  it.erase("7", 1_500);
  assert.deepEqual(take(start(), [item("e", 5, { idMs: 1_900 })]), ["erased"], "a mark never goes back");
});

test("pending contents of other epochs come in parts, and without those that were lost", () => {
  const it = start();
  take(it, [item("a", 1), item("b", 2), item("c", 3)]);
  it.lose([lost("b")]);
  unpack(it);
  const first = it.pendingElsewhere("e2", null);
  assert.deepEqual(
    first.map(({ id, offset }) => [nameOf(id), offset]),
    [
      ["a", "1"],
      ["c", "3"],
    ],
  );
  assert.deepEqual(
    it.pendingElsewhere("e2", first[0] ?? null).map(({ id }) => nameOf(id)),
    ["c"],
  );
  assert.deepEqual(it.pendingElsewhere(EPOCH, null), []);
  it.forget(first);
  assert.deepEqual(it.totals, { transactions: 1, bytes: 100 + ROW });
});

test("what was lost expires with its contents", () => {
  const it = start();
  take(it, [item("a", 1), item("b", 2)]);
  it.lose([lost("a", 5), lost("b", 6)]);
  unpack(it);
  it.expire(6);
  assert.deepEqual(listed(it), ["b kept unknown"]);
  assert.deepEqual(it.totals, { transactions: 1, bytes: 100 + ROW });
});

test("a batch that fails leaves nothing, and counts nothing", () => {
  const it = start();
  const { groups } = groupsOf([item("a", 1), item("b", 2, { owner: "8" })]);
  const [good, second] = groups;
  assert.ok(good !== undefined && second !== undefined);
  assert.throws(() => it.take([good, { ...second, entries: null as unknown as string }]));
  assert.deepEqual(it.totals, { transactions: 0, bytes: 0 });
  unpack(it);
  assert.equal(it.sealed(keyOf("a")), null);
});

test("a list of one owner walks over no loss of another, also in a file from before the index", () => {
  const it = start();
  it.lose([lost("a"), lost("b", 5, "8")]);
  it.close();
  open = [];
  const raw = new DatabaseSync(file);
  raw.exec("DROP INDEX lost_owner");
  raw.close();
  start().close();
  open = [];
  const reopened = new DatabaseSync(file);
  const planOf = (question: Partial<LostQuestion>): string => {
    const { sql, values } = listStatement({ ...ALL, owner: "7", ...question });
    return reopened
      .prepare(`EXPLAIN QUERY PLAN ${sql}`)
      .all(values)
      .map(({ detail }) => String(detail))
      .join("; ");
  };
  const ofKept = "SEARCH k USING INDEX sqlite_autoindex_kept_1 (owner=? AND id=? AND epoch=?) LEFT-JOIN";
  for (const question of [{}, { after: 5, contents: "kept", answered: "yes" }] as const)
    assert.equal(planOf(question), `SEARCH l USING INDEX lost_owner (owner=? AND n>?); ${ofKept}`);
  assert.match(
    planOf({ id: idOf("a") }),
    /^SEARCH l USING INDEX sqlite_autoindex_lost_1 \(owner=\? AND id=\?\)/,
  );
  reopened.close();
});
