// Goal: a read-port session reads at the region's replica and sees its token's transaction, or gets
// the reason why not. When the replica is promoted, the session ends before any write in it is
// answered. Method: two regions whose link is cut and healed; the last tests promote the replica.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, it } from "node:test";
import { promisify } from "node:util";
import { eventually, starve } from "@highwater/lab-system/testing";
import { bind, execute, parse, query, ServerAnswer, SYNC, WireClient, type WireOptions } from "./client.ts";
import { AWAY, HOME, WireSystem } from "./system.ts";

const run = promisify(execFile);
const WAITS = "not in a while";
/** Longer than any answer takes that is not held. */
const WHILE_MS = 1_000;
let wire: WireSystem;
before(async () => {
  wire = await WireSystem.start({ GATEWAY_MAX_WAIT_MS: "60000" });
});
after(async () => {
  await wire[Symbol.asyncDispose]();
});

const away = (options: WireOptions = {}): Promise<WireClient> =>
  WireClient.open(wire.system.pgReadUrl(AWAY), options);

/** Commits with an answer at the commit point, and returns the token. */
async function commit(key: string): Promise<string> {
  const client = await wire.open();
  await client.query("SET highwater.ack = 'commit'");
  const { token } = await client.query(`INSERT INTO kv VALUES ('${key}', 1)`);
  client.end();
  assert.match(token ?? "", /^hw2_/);
  return token ?? "";
}

async function cancel({ key }: WireClient, url: string): Promise<void> {
  const client = await WireClient.dial(url);
  client.send(Buffer.concat([Buffer.from([0, 0, 0, 8 + key.length, 4, 210, 22, 46]), key]));
  await client.closed();
}

async function answered(client: WireClient): Promise<ServerAnswer | typeof WAITS> {
  const first = await client.next(WHILE_MS).catch(() => null);
  return first === null ? WAITS : new ServerAnswer([first, ...(await client.until("Z"))]);
}

it("reads at the region's replica; where the primary is, at the primary, and read-only", async () => {
  const client = await away();
  assert.deepEqual((await client.query("SELECT pg_is_in_recovery()")).rows, [["t"]]);
  assert.deepEqual((await client.extended("SELECT pg_is_in_recovery()")).rows, [["t"]]);
  assert.deepEqual((await client.query("SELECT 1; SELECT 2")).tags, ["SELECT 1", "SELECT 1"]);
  assert.equal((await client.query("INSERT INTO kv VALUES ('x', 1)")).code, "25006");
  assert.deepEqual((await client.query("COPY kv TO STDOUT")).types.at(-1), "Z");
  client.end();
  const near = await WireClient.open(wire.system.pgReadUrl(HOME));
  assert.deepEqual((await near.query("SELECT pg_is_in_recovery()")).rows, [["f"]]);
  assert.equal((await near.query("INSERT INTO kv VALUES ('x', 1)")).code, "25006");
  const token = await commit("near");
  await near.query(`SET highwater.after = '${token}'`);
  assert.deepEqual((await near.query("SELECT key FROM kv WHERE key = 'near'")).rows, [["near"]]);
  near.end();
});

it("a read waits until the replica shows what the token stands for", async () => {
  const clients = await Promise.all([away(), away(), away()]);
  const [simple, extended, block] = clients;
  await wire.cut();
  const token = await commit("awaited");
  for (const client of clients) assert.deepEqual((await client.query("SELECT 1")).rows, [["1"]]);
  await simple.query(`SET highwater.after = '${token}'`);
  simple.send(query("SELECT key FROM kv WHERE key = 'awaited'"));
  await extended.query(`SELECT set_config('highwater.after', '${token}', false)`);
  extended.send(parse("", "SELECT key FROM kv WHERE key = 'awaited'"), bind("", ""), execute(""), SYNC);
  await block.query("BEGIN");
  await block.query(`SET LOCAL highwater.after = '${token}'`);
  block.send(query("SELECT key FROM kv WHERE key = 'awaited'"));
  const answers = clients.map(answered);
  assert.deepEqual(await Promise.all(answers), [WAITS, WAITS, WAITS]);
  await wire.heal();
  for (const client of clients)
    assert.deepEqual(new ServerAnswer(await client.until("Z")).rows, [["awaited"]]);
  assert.equal((await block.query("COMMIT")).status, "I");
  // The value of SET LOCAL has ended.
  assert.deepEqual((await block.query("SELECT 1")).rows, [["1"]]);
  for (const client of clients) client.end();
});

it("a pipeline waits for what it has set before", async () => {
  const client = await away();
  await wire.cut();
  const token = await commit("piped");
  const set = [parse("", `SET highwater.after = '${token}'`), bind("", ""), execute(""), SYNC];
  client.send(...set, parse("", "SELECT key FROM kv WHERE key = 'piped'"), bind("", ""), execute(""), SYNC);
  await client.until("Z");
  assert.equal(await answered(client), WAITS);
  await wire.heal();
  assert.deepEqual(new ServerAnswer(await client.until("Z")).rows, [["piped"]]);
  client.end();
});

it("a read waits behind a SET of its batch, and the error that it gets undoes the batch", async () => {
  const client = await away();
  await wire.cut();
  const token = await commit("behind");
  await client.query(`SET highwater.after = '${token}'`);
  const step = (text: string): Buffer[] => [parse("", text), bind("", ""), execute("")];
  const read = step("SELECT key FROM kv WHERE key = 'behind'");
  client.send(...step("SET statement_timeout = 60000"), ...read, SYNC);
  await client.until("C");
  assert.equal(await answered(client), WAITS);
  await cancel(client, wire.system.pgReadUrl(AWAY));
  assert.equal(new ServerAnswer(await client.until("Z")).code, "57014");
  assert.deepEqual((await client.extended("SHOW statement_timeout")).rows, [["0"]]);
  client.send(...step("SET statement_timeout = 60000"), ...read, SYNC);
  await client.until("C");
  assert.equal(await answered(client), WAITS);
  await wire.heal();
  assert.deepEqual(new ServerAnswer(await client.until("Z")).rows, [["behind"]]);
  // A client of the extended protocol alone can take the setting back.
  await client.query("SET highwater.after = 'hw2_nonsense'");
  assert.equal((await client.extended("SELECT 1")).code, "22023");
  assert.equal((await client.extended("RESET highwater.after")).code, "");
  assert.deepEqual((await client.extended("SELECT 1")).rows, [["1"]]);
  client.end();
});

it("a wait ends at max_wait and by a cancel, with 57014, and the next read waits again", async () => {
  const client = await away();
  await wire.cut();
  const token = await commit("ended");
  await client.query(`SET highwater.after = '${token}'`);
  assert.equal((await client.query("SET highwater.max_wait = '200ms'")).code, "");
  assert.equal((await client.query("SELECT 1")).code, "57014");
  const late = await client.extended("SELECT 1");
  assert.deepEqual([late.code, late.status], ["57014", "I"]);
  assert.equal((await client.query("RESET highwater.max_wait")).code, "");
  client.send(query("SELECT 1"));
  assert.equal(await answered(client), WAITS);
  await cancel(client, wire.system.pgReadUrl(AWAY));
  assert.equal(new ServerAnswer(await client.until("Z")).code, "57014");
  assert.equal((await client.query("RESET highwater.after")).code, "");
  assert.deepEqual((await client.query("SELECT 1")).rows, [["1"]]);
  await wire.heal();
  client.end();
});

it("a cancel that reaches another gateway of the region ends a statement at the replica", async () => {
  await wire.system.addGateway(AWAY);
  const client = await away();
  client.send(query("SELECT pg_sleep(600)"));
  // A cancel has no effect before the statement runs and the gateway knows of the replica.
  await eventually("the statement has ended", async () => {
    await cancel(client, wire.system.pgReadUrl(`${AWAY}-2`));
    return client.untaken.some(({ type }) => type === "Z");
  });
  assert.equal(new ServerAnswer(await client.until("Z")).code, "57014");
  client.end();
});

it("what is no token of this deployment is refused until it is another", async () => {
  const client = await away({ parameters: { options: "-c highwater.after=hw2_nonsense" } });
  for (const answer of [await client.query("SELECT 1"), await client.extended("SELECT 1")])
    assert.deepEqual([answer.code, answer.status], ["22023", "I"]);
  assert.equal((await client.query("BEGIN")).code, "22023");
  assert.equal((await client.query(`SET highwater.after = '${await commit("token")}'`)).code, "");
  assert.deepEqual((await client.query("SELECT key FROM kv WHERE key = 'token'")).rows, [["token"]]);
  client.end();
});

it("in a transaction that keeps its snapshot, a token ends the session", async () => {
  const client = await away();
  const token = await commit("snapshot");
  await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
  await client.query(`SET LOCAL highwater.after = '${token}'`);
  client.send(query("SELECT 1"));
  const [error] = await client.until("E");
  assert.match(error?.bytes.toString() ?? "", /set it before the transaction begins/);
  await client.closed();
});

it("with read_ack = durable, a read is answered when what it shows is durable", async () => {
  const client = await away();
  const key = "durable";
  const token = await commit(key);
  await client.query(`SET highwater.after = '${token}'`);
  assert.deepEqual((await client.query(`SELECT key FROM kv WHERE key = '${key}'`)).rows, [[key]]);
  await client.query("RESET highwater.after");
  await client.query("SET highwater.read_ack = 'durable'");
  assert.deepEqual((await client.query(`SELECT key FROM kv WHERE key = '${key}'`)).rows, [[key]]);
  // Without the primary, the gateway cannot know it.
  await wire.system.cluster.link(HOME, AWAY).cut();
  client.send(query(`SELECT key FROM kv WHERE key = '${key}'`));
  await client.until("T");
  assert.equal(await answered(client), WAITS);
  await wire.heal();
  assert.deepEqual(new ServerAnswer(await client.until("Z")).rows, [[key]]);
  client.end();
});

it("what a session writes at the primary, where it may turn read-only off, is held as on the other port", async () => {
  const client = await WireClient.open(wire.system.pgReadUrl(HOME));
  for (const ack of ["durable", "commit"]) {
    await client.query(`SET default_transaction_read_only = off; SET highwater.ack = ${ack}`);
    await wire.cut();
    client.send(query(`INSERT INTO kv VALUES ('by a reader, ${ack}', 1)`));
    await eventually("it has committed", async () => {
      const sql = `SELECT FROM kv WHERE key = 'by a reader, ${ack}'`;
      return (await wire.system.cluster.query(HOME, sql)).length === 1;
    });
    assert.equal(await answered(client), WAITS);
    await wire.heal();
    assert.deepEqual(new ServerAnswer(await client.until("Z")).tags, ["INSERT 0 1"]);
  }
  client.end();
});

it("psql reads what it has written elsewhere", async () => {
  const token = await commit("psql");
  const { stdout } = await run("psql", [
    ...["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", wire.system.pgReadUrl(AWAY)],
    ...["-c", `SET highwater.after = '${token}'`, "-c", "SELECT key FROM kv WHERE key = 'psql'"],
    ...["-c", "BEGIN", "-c", "SELECT count(*) FROM kv WHERE key = 'psql'", "-c", "COMMIT"],
  ]);
  assert.equal(stdout, "psql\n1\n");
});

it(
  "sessions at a replica that is promoted end, and nothing that they wrote is answered; lost tokens say so",
  { timeout: 180_000 },
  async () => {
    const idle = await away();
    await idle.query("SELECT 1");
    const waiting = await away();
    const writing = await away();
    await starve(wire.system, AWAY);
    const token = await commit("lost");
    await waiting.query(`SET highwater.after = '${token}'`);
    waiting.send(query("SELECT 1"));
    await wire.system.cluster.kill(HOME);
    const answers: string[] = [];
    const promoting = wire.system.cluster.promote(AWAY);
    // Sends READ WRITE, which a server in recovery refuses, until its session is closed.
    for (let turn = 0; !writing.isClosed; turn++) {
      const text = `BEGIN READ WRITE; INSERT INTO kv VALUES ('early ${String(turn)}', 1); COMMIT`;
      const answer = await writing.query(text).catch(() => null);
      if (answer !== null) answers.push(answer.code);
    }
    await promoting;
    assert.ok(
      answers.every((code) => code !== ""),
      "an answer says that it has committed",
    );
    // Each session ends by itself, in whatever order.
    for (const client of [idle, waiting]) await client.closed();
    const ended = waiting.untaken.map(({ bytes }) => bytes.toString()).join("");
    assert.match(ended, /57P01|40001/);
    const next = await eventually("a session of the read port, at the new primary", async () => {
      const client = await away().catch(() => undefined);
      await client?.query(`SET highwater.after = '${token}'`).catch(() => undefined);
      const answer = await client?.query("SELECT 1").catch(() => undefined);
      client?.end();
      return answer?.code === "40001" ? answer : undefined;
    });
    assert.match(next.error, /lost in a failover/);
  },
);
