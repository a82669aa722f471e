// Goal: when a statement of the gateway fails, the client learns of it, nothing of its transaction
// is left, and no old settings stay in force. Method: functions that drop the gateway's statements.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { newId } from "@highwater/lab-system/testing";
import { query, ServerAnswer, SYNC } from "./client.ts";
import { INSERT, step } from "./safe-forms.ts";
import { WireSystem } from "./system.ts";

let wire: WireSystem;
before(async () => {
  wire = await WireSystem.start();
  const client = await wire.open();
  await client.query(`CREATE FUNCTION f_drops() RETURNS void LANGUAGE plpgsql AS
    $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$`);
  await client.query(`CREATE PROCEDURE p_sets() LANGUAGE plpgsql AS
    $$ BEGIN PERFORM set_config('highwater.level', 'region', false); EXECUTE 'DEALLOCATE ALL'; END $$`);
  client.end();
});
after(() => wire[Symbol.asyncDispose]());

it("a COMMIT that the server skips is answered with the error, and the block stays open", async () => {
  const client = await wire.open();
  await client.query("SELECT 1");
  await client.query("BEGIN");
  await client.query("INSERT INTO kv VALUES ('skipped', 1)");
  await client.query("SELECT f_drops()");
  const { code, status, tags } = await client.extended("COMMIT");
  assert.deepEqual([code, status, tags], ["26000", "E", []]);
  assert.deepEqual((await client.query("ROLLBACK")).tags, ["ROLLBACK"]);
  assert.deepEqual((await client.query("SELECT FROM kv WHERE key = 'skipped'")).rows, []);
  client.end();
});

it("in a session with an id and in a fast one, the COMMIT fails with the error and the block is over", async () => {
  for (const how of ["query", "extended"] as const)
    for (const setting of [(): string => `id = '${newId()}'`, (): string => "ack = 'commit'"]) {
      const client = await wire.open();
      await client.query(`SET highwater.${setting()}`);
      assert.equal((await client.query(INSERT)).code, "");
      await client.query("BEGIN");
      await client.query(`SET LOCAL highwater.${setting()}`);
      await client.query(`INSERT INTO kv VALUES ('undone ${how}', 1)`);
      await client.query("SELECT f_drops()");
      const { code, status, tags } = await client[how]("COMMIT");
      assert.deepEqual([code, status, tags], ["26000", "I", []], `${setting()}, ${how}`);
      await client.query("RESET highwater.id");
      assert.deepEqual((await client.query("SELECT FROM kv WHERE key LIKE 'undone %'")).rows, []);
      client.end();
    }
});

it("a block whose settings cannot be read can be rolled back, and its COMMIT ends it", async () => {
  for (const [end, ...expected] of [
    ["ROLLBACK", "", "I"],
    ["ROLLBACK TO s", "", "T"],
    ["COMMIT", "26000", "I"],
  ] as const) {
    const client = await wire.open();
    await client.query("SELECT 1");
    for (const text of ["BEGIN", "SAVEPOINT s", "SELECT f_drops()", "SET LOCAL work_mem = '8MB'"])
      await client.query(text);
    const { code, status } = await client.query(end);
    assert.deepEqual([code, status], expected, end);
    client.end();
  }
});

it("what follows a COMMIT in its text does not run when the COMMIT fails", async () => {
  const client = await wire.open();
  const id = newId();
  for (const [round, code] of ["", "23505"].entries()) {
    await client.query("BEGIN");
    await client.query(`SET LOCAL highwater.id = '${id}'`);
    await client.query(`INSERT INTO kv VALUES ('before ${String(round)}', 1)`);
    client.send(query(`COMMIT; INSERT INTO kv VALUES ('behind ${String(round)}', 1)`), query("SELECT 1"));
    const answer = new ServerAnswer(await client.until("Z"));
    assert.deepEqual([answer.code, answer.status], [code, "I"]);
    assert.equal(answer.types.replaceAll(/[SN]/g, ""), code === "" ? "CCZ" : "EZ");
    assert.deepEqual(new ServerAnswer(await client.until("Z")).rows, [["1"]]);
  }
  const { rows } = await client.query("SELECT key FROM kv WHERE key ~ '^(before|behind)' ORDER BY key");
  assert.deepEqual(rows, [["before 0"], ["behind 0"]]);
  client.end();
});

it("settings that could not be read at first count for the next write", async () => {
  const client = await wire.open();
  await client.query("SET highwater.level = 'disk'");
  await wire.cut();
  assert.deepEqual((await client.query(INSERT)).tags, ["INSERT 0 1"]);
  assert.equal((await client.query("CALL p_sets()")).code, "");
  client.send(...step(INSERT), SYNC);
  await wire.holding(1);
  await wire.heal();
  assert.deepEqual(new ServerAnswer(await client.until("Z")).tags, ["INSERT 0 1"]);
  client.end();
});
