import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { changesRows, changesSession, leadingWords, refusal } from "./statement-guard.ts";

describe("statements that the service refuses", () => {
  const refused: readonly (readonly [string, string])[] = [
    ["BEGIN", "BEGIN"],
    ["begin;", "BEGIN"],
    ["Commit", "COMMIT"],
    ["COMMIT AND CHAIN", "COMMIT"],
    ["COMMIT PREPARED 'x'", "COMMIT"],
    ["end", "END"],
    ["ABORT WORK", "ABORT"],
    ["START TRANSACTION READ ONLY", "START"],
    ["ROLLBACK", "ROLLBACK"],
    ["ROLLBACK;", "ROLLBACK"],
    ["rollback and chain", "ROLLBACK"],
    ["ROLLBACK WORK", "ROLLBACK"],
    ["ROLLBACK PREPARED 'x'", "ROLLBACK"],
    ["PREPARE TRANSACTION 'x'", "PREPARE TRANSACTION"],
    ["prepare/**/transaction 'x'", "PREPARE TRANSACTION"],
    ["COPY t FROM STDIN", "COPY"],
    ["  \t\r\n\f\v COMMIT", "COMMIT"],
    [";;; ; COMMIT", "COMMIT"],
    ["-- a comment\nCOMMIT", "COMMIT"],
    ["-- a comment\rCOMMIT", "COMMIT"],
    ["--\n--\n;COMMIT", "COMMIT"],
    ["/* one */COMMIT/* two */", "COMMIT"],
    ["/* /* nested */ still a comment */ COMMIT", "COMMIT"],
    ["/*/ */COMMIT", "COMMIT"],
    ["/* -- */ COMMIT", "COMMIT"],
    ["-- /*\nCOMMIT -- */", "COMMIT"],
    ["COMMIT--x", "COMMIT"],
    ["ROLLBACK/* TO */", "ROLLBACK"],
    ["ROLLBACK -- TO\n", "ROLLBACK"],
  ];
  for (const [sql, keyword] of refused)
    it(JSON.stringify(sql), () => {
      assert.deepEqual(refusal(sql), { keyword });
    });
});

describe("statements that it runs", () => {
  const allowed = [
    "",
    " ; -- nothing\n",
    "/* unclosed COMMIT",
    "SELECT 1",
    "SELECT 'COMMIT'",
    '"COMMIT"',
    "SAVEPOINT a",
    "RELEASE SAVEPOINT a",
    "ROLLBACK TO a",
    "rollback to savepoint a",
    "ROLLBACK WORK TO SAVEPOINT a",
    "ROLLBACK TRANSACTION TO a",
    "ROLLBACK/**/TO a",
    "ROLLBACK --\n TO a",
    "PREPARE plan AS SELECT 1",
    "/* COMMIT */ SELECT 1",
    "/* /* */ COMMIT */ SELECT 1",
    "-- COMMIT\nSELECT 1",
    "COMMITTED",
    "commit_all",
    "BEGINNING",
    "DO $$ BEGIN COMMIT; END $$",
    "CALL p()",
    "WITH x AS (SELECT 1) SELECT 1",
    "(SELECT 1)",
    "\ufeffCOMMIT",
  ];
  for (const sql of allowed)
    it(JSON.stringify(sql), () => {
      assert.equal(refusal(sql), null);
    });
});

describe("statements that leave something in their session", () => {
  const leaving = [
    "SET search_path TO x",
    "set session characteristics as transaction read only",
    "SET SESSION AUTHORIZATION x",
    "RESET ALL",
    "LISTEN x",
    "UNLISTEN *",
    "PREPARE p AS SELECT 1",
    "DEALLOCATE ALL",
    "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
    "LOAD 'x'",
    "DISCARD PLANS",
    "DO $$ BEGIN EXECUTE 'SET x.y TO 1'; END $$",
    "SELECT set_config('a.b', '1', false)",
    "WITH x AS (SELECT pg_catalog.set_config('a.b', '1', false)) SELECT 1",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_try_advisory_lock_shared(1)",
    "CREATE TEMP TABLE x (a int)",
    "create local temporary view x as select 1",
    "SELECT 1 INTO TEMP x",
  ];
  for (const sql of leaving)
    it(JSON.stringify(sql), () => {
      assert.equal(changesSession(sql), true);
    });

  const clean = [
    "",
    "SELECT 1",
    "SET LOCAL search_path TO x",
    "SET TRANSACTION READ ONLY",
    "SET CONSTRAINTS ALL DEFERRED",
    "SELECT temp FROM temperature",
    "CREATE TABLE x (temp int)",
    "SELECT pg_advisory_xact_lock(1)",
    "UPDATE settings SET value = 1",
  ];
  for (const sql of clean)
    it(`but not ${JSON.stringify(sql)}`, () => {
      assert.equal(changesSession(sql), false);
    });
});

describe("statements that change rows", () => {
  it("are recognised by their first word, and after WITH by any word", () => {
    for (const sql of [
      "INSERT INTO x VALUES (1)",
      " update x SET a = 1",
      "/**/DELETE FROM x",
      "MERGE INTO x",
    ])
      assert.equal(changesRows(sql), true, sql);
    assert.equal(changesRows("WITH y AS (SELECT 1) INSERT INTO x SELECT * FROM y RETURNING *"), true);
    for (const sql of [
      "",
      "SELECT 'UPDATE'",
      "WITH y AS (SELECT 1) SELECT * FROM y",
      "VALUES (1)",
      "CALL p()",
    ])
      assert.equal(changesRows(sql), false, sql);
  });
});

describe("leading words", () => {
  it("stops at what is no word, and at the wanted number", () => {
    assert.deepEqual(leadingWords("select 1", 3), ["SELECT"]);
    assert.deepEqual(leadingWords("a b c d", 3), ["A", "B", "C"]);
    assert.deepEqual(leadingWords("a$b_1 -- x\n c", 3), ["A$B_1", "C"]);
    assert.deepEqual(leadingWords("a, b", 3), ["A"]);
  });

  it("is linear in the length of a text", () => {
    const sql =
      "/*".repeat(50_000) + "*/".repeat(50_000) + ";".repeat(100_000) + "--\n".repeat(30_000) + "COMMIT";
    assert.deepEqual(refusal(sql), { keyword: "COMMIT" });
  });
});
