// Goal: the disk of a lost primary shows what committed there behind the fork, and no more; SQL from
// it takes effect once. Method: a real region is lost with commits that had not replicated, and its
// folder is copied and opened.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { findBinaries, namedBinDir } from "@highwater/lab-cluster";
import { System } from "@highwater/lab-system";
import { commit, createTable, newId, put, putAhead, send, starve } from "@highwater/lab-system/testing";
import { requirePostgresProgram, whyNoPostgresProgram } from "@highwater/lab-tools/postgres";
import { type Ended, highwater } from "./support.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
const SEED = `CREATE TABLE note (id uuid PRIMARY KEY, body text); GRANT ALL ON note TO app;
  CREATE TABLE plain (n int, t text); CREATE TABLE gone (n int); CREATE TABLE wide (n int);
  INSERT INTO plain VALUES (1, 'old'), (2, 'old'), (3, 'old'); INSERT INTO wide VALUES (1), (2);
  CREATE TYPE mood AS ENUM ('calm'); CREATE TYPE pair AS (m mood, n int);
  CREATE TABLE felt (m mood, full_one pair, empty_one pair, no_one pair, c char(3), many mood[]);
  CREATE FUNCTION trap(mood) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'the cast ran'; END $$;
  CREATE CAST (mood AS text) WITH FUNCTION trap(mood)`;

interface Line {
  readonly id: string | null;
  readonly subxids: readonly string[];
  readonly hiddenChanges: number;
  readonly tables: readonly {
    readonly table: string | null;
    readonly inserted: number;
    readonly updated: number;
    readonly deleted: number;
    readonly isRewritten: boolean;
    readonly rows: readonly (readonly (string | null)[])[];
  }[];
}

describe("highwater lost extract", { skip: whyNoPostgresProgram("pg_waldump") }, () => {
  let system: System;
  let folder = "";
  let bin = "";
  let copy = "";
  let fork = "";
  const [id, note] = [newId(), randomUUID()];

  before(async () => {
    system = await System.start();
    await createTable(system, EAST);
    await system.cluster.query(EAST, SEED);
    const [seeded] = await system.cluster.query(EAST, "SELECT pg_current_wal_flush_lsn()::text AS at");
    // The fork is not known to be behind what no mark has reached.
    await commit(system.gateway(EAST).url, [put("seeded")], { ack: "durable" });
    await putAhead(system, { heir: WEST, other: EUROPE });
    await starve(system, WEST);
    const sql = { sql: "INSERT INTO note VALUES ($1, $2)", params: [note, "it's\nnew \\"] } as never;
    const { status } = await send(system.gateway(EAST).url, [sql], { id });
    assert.equal(status, 200);
    for (const direct of [
      "UPDATE plain SET t = 'first' WHERE n = 1; UPDATE plain SET t = 'second' WHERE n = 1",
      "DELETE FROM plain WHERE n = 2",
      `BEGIN; SAVEPOINT a; INSERT INTO plain VALUES (4, 'sub'); RELEASE a;
       SAVEPOINT b; INSERT INTO plain VALUES (5, 'undone'); ROLLBACK TO b; COMMIT`,
      "BEGIN; INSERT INTO plain VALUES (6, 'aborted'); ROLLBACK",
      "INSERT INTO felt VALUES ('calm', ROW('calm', 1), ROW(NULL, NULL), NULL, 'x', '{calm,NULL}')",
      "INSERT INTO gone VALUES (1)",
      "DROP TABLE gone",
      "ALTER TABLE wide ALTER n TYPE bigint",
      "SELECT FROM plain WHERE n = 3 FOR UPDATE",
    ])
      await system.cluster.query(EAST, direct);
    await system.killRegion(EAST);
    await system.cluster.promote(WEST);
    await commit(system.gateway(WEST).url, [put("after")], { ack: "durable" });
    const [epoch] = await system.cluster.query(
      WEST,
      `SELECT fork_offset::text AS fork, fork_offset >= $1::pg_lsn AS has_seed, to_jsonb(e) AS record
       FROM highwater.epoch e ORDER BY seq DESC LIMIT 1`,
      [seeded?.["at"]],
    );
    fork = String(epoch?.["fork"]);
    assert.equal(epoch?.["has_seed"], true, `the fork is behind the seed: ${JSON.stringify(epoch)}`);
    copy = await system.cluster.snapshot(EAST);
    folder = await mkdtemp(join(tmpdir(), "extract-test-"));
    bin = join(folder, "bin");
    await mkdir(bin);
    await chmod(folder, 0o755);
    const { postgres } = await findBinaries({
      binDir: namedBinDir(),
      identity: process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : undefined,
      copyTo: join(folder, "native"),
    });
    await symlink(postgres, join(bin, "postgres"));
    const own = join(dirname(postgres), "pg_waldump");
    await symlink(existsSync(own) ? own : requirePostgresProgram("pg_waldump"), join(bin, "pg_waldump"));
  });

  after(async () => {
    await system.close();
    await rm(folder, { recursive: true, force: true });
  });

  const extract = (data: string, ...more: string[]): Promise<Ended> =>
    highwater(["lost", "extract", data, "--fork", fork, "--bin", bin, ...more]);

  test("refuses what may not be a copy, and what leads out of it", async () => {
    const unsaid = await extract(copy);
    assert.deepEqual([unsaid.code, /--is-copy/.test(unsaid.err)], [2, true]);
    const pid = join(copy, "postmaster.pid");
    await writeFile(pid, `999999999\n${copy}\n`);
    assert.match((await extract(copy, "--is-copy")).err, /is where its server ran, not a copy/);
    await writeFile(pid, `${String(process.pid)}\n/somewhere/else\n`);
    assert.match((await extract(copy, "--is-copy")).err, /of a process that runs/);
    await rm(pid);
    const [wal, elsewhere] = [join(copy, "pg_wal"), join(dirname(copy), "elsewhere")];
    await rename(wal, elsewhere);
    await symlink(elsewhere, wal);
    assert.match((await extract(copy, "--is-copy")).err, /pg_wal is not in the copy: it leads to/);
    await rm(wal);
    await rename(elsewhere, wal);
    const space = join(copy, "pg_tblspc", "99999");
    await mkdir(dirname(space), { recursive: true });
    await symlink("/somewhere", space);
    assert.match((await extract(copy, "--is-copy")).err, /99999 is not in the copy/);
    await rm(space);
  });

  test("prints what committed behind the fork, and counts what no row shows", async () => {
    const { code, out, err } = await extract(copy, "--is-copy");
    assert.equal(code, 0, err);
    const lines = out.split("\n").map((line) => JSON.parse(line) as Line);
    const all = lines.flatMap((line) => line.tables.map((table) => ({ ...table, line })));
    const kept = lines.find((line) => line.id === id);
    assert.deepEqual(kept?.tables[0]?.rows, [[note, "it's\nnew \\"]]);
    assert.equal(kept?.hiddenChanges, 0);
    const [felt] = all.filter(({ table }) => table === "public.felt");
    assert.deepEqual(felt?.rows, [["calm", "(calm,1)", "(,)", null, "x  ", "{calm,NULL}"]]);
    const plain = all.filter(({ table }) => table === "public.plain");
    assert.deepEqual(
      plain.map(({ inserted, updated, deleted, rows, line }) => [
        ...[inserted, updated, deleted, rows, line.id, line.subxids.length, line.hiddenChanges],
      ]),
      [
        [0, 2, 0, [["1", "second"]], null, 0, 1],
        [0, 0, 1, [], null, 0, 1],
        [1, 0, 0, [["4", "sub"]], null, 1, 0],
      ],
    );
    assert.ok(
      all.some(({ table, inserted }) => table === null && inserted === 1),
      "the dropped table",
    );
    const wide = all.find(({ table }) => table === "public.wide");
    assert.deepEqual([wide?.isRewritten, wide?.rows.length], [true, 2]);
    assert.doesNotMatch(out, /undone|aborted/);
    assert.equal((await extract(copy, "--is-copy")).out, out, "a second look shows the same");
  });

  test("prints SQL that does nothing until it is confirmed, and then takes effect once", async () => {
    const { out, err } = await extract(copy, "--is-copy", "--sql");
    const mine = out.split(/(?=^-- Transaction )/m).find((sql) => sql.includes(id)) ?? err;
    const count = async (): Promise<unknown> =>
      (await system.cluster.query(WEST, "SELECT count(*)::int AS n FROM note"))[0]?.["n"];
    await system.cluster.query(WEST, mine);
    assert.equal(await count(), 0);
    const sql = mine.replace("ROLLBACK; -- or COMMIT", "COMMIT; --");
    assert.notEqual(sql, mine);
    await system.cluster.query(WEST, sql);
    assert.equal(await count(), 1);
    await assert.rejects(system.cluster.query(WEST, sql), /redo_pkey/);
    const again = await send(system.gateway(WEST).url, [{ sql: "SELECT 1" }], { id });
    assert.notEqual(again.status, 200, "its client cannot commit under the id any more");
    assert.match(out, /^-- INSERT INTO public.plain .*'second'/m);
    assert.match(out, /INCOMPLETE: 1 changes or more/);
  });
});
