// Goal: a tracker reads back everything that was written to its ledger file, or refuses the file.
// Method: real files with the kinds of damage for which fuzzing found that entries were silently
// missing.
import assert from "node:assert/strict";
import { mkdtemp, open, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { after, before, describe, it } from "node:test";
import { LedgerDatabase } from "../../src/shell/ledger-database.ts";

const PAGE = 4_096;
const ROWS = Array.from({ length: 300 }, (_, n) => ({
  key: `key-${String(n).padStart(4, "0")}`,
  body: JSON.stringify({ n, text: "x".repeat(200) }),
}));

describe("what a ledger's file gives back", () => {
  let folder: string;
  let file: string;
  let files = 0;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "highwater-ledger-database-"));
  });

  after(async () => {
    await rm(folder, { recursive: true, force: true });
  });

  function written(): LedgerDatabase {
    file = join(folder, `${String(files++)}.sqlite`);
    const ledger = new LedgerDatabase(file);
    const rows = ROWS.map((row) => ({ table: "entry" as const, ...row }));
    ledger.write({ clearsWaiting: false, through: null, rows, waiting: ROWS });
    return ledger;
  }

  function readBack(): unknown {
    const ledger = new LedgerDatabase(file);
    try {
      return [ledger.read("entry", ""), ledger.read("waiting", "")];
    } finally {
      ledger.close();
    }
  }

  it("is what was written", () => {
    written().close();
    assert.deepEqual(readBack(), [ROWS, ROWS]);
  });

  it("is nothing when a bit of a row has flipped", async () => {
    written().close();
    const bytes = await readFile(file);
    const at = bytes.indexOf('{"n":7,') + 5;
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    await writeFile(file, bytes);
    assert.throws(readBack, /is damaged/);
  });

  it("is nothing when a page lies in the place of another", async () => {
    written().close();
    const bytes = await readFile(file);
    const [first, second] = [100, 200].map(
      (n) => Math.floor(bytes.indexOf(`{"n":${String(n)},`) / PAGE) * PAGE,
    );
    assert.ok(first !== undefined && second !== undefined && first !== second);
    bytes.copy(bytes, first, second, second + PAGE);
    await writeFile(file, bytes);
    assert.throws(readBack, /damaged/);
  });

  it("is nothing when a table has lost its name", async () => {
    written().close();
    const bytes = await readFile(file);
    bytes.write("entrz", bytes.indexOf("CREATE TABLE entry") + "CREATE TABLE ".length);
    await writeFile(file, bytes);
    assert.throws(readBack, /damaged|malformed/);
  });

  it("is nothing when only its log is left, or its head says that there is none", async () => {
    const ledger = written();
    const [main, log] = [await readFile(file), await readFile(`${file}-wal`)];
    ledger.close();
    for (const [name, bytes] of [
      ["empty", Buffer.alloc(0)],
      ["one byte", main.subarray(0, 1)],
      ["no log", Buffer.concat([main.subarray(0, 18), Buffer.from([1, 1]), main.subarray(20)])],
    ] as const) {
      file = join(folder, `${name}.sqlite`);
      await writeFile(file, bytes);
      await writeFile(`${file}-wal`, log);
      assert.throws(readBack, /damaged/, name);
      assert.deepEqual(await readFile(`${file}-wal`), log, "and nothing of it is touched");
    }
  });

  it("is nothing when its end is missing", async () => {
    written().close();
    const handle = await open(file);
    const { size } = await handle.stat();
    await handle.close();
    await truncate(file, size - PAGE);
    assert.throws(readBack);
  });

  it("is nothing when another version wrote it, and the error says what to do", () => {
    for (const version of [0, 1, 2, 4]) {
      written().close();
      const other = new DatabaseSync(file);
      other.exec(`PRAGMA user_version = ${String(version)}`);
      other.close();
      assert.throws(
        readBack,
        new RegExp(`of version ${String(version)}, and this tracker reads version 3: start it on an empty`),
      );
    }
  });
});
