// Goal: in commit mode a transaction fails that begins to write while exposure is at its limit.
// Safe sessions, and transactions that already write, go on. Method: a low limit and a cut link.
import assert from "node:assert/strict";
import { it } from "node:test";
import type { ExposureReport } from "@highwater/protocol";
import { eventually, newId } from "@highwater/lab-system/testing";
import { writeCancel } from "../../src/wire/startup/packet.ts";
import { ServerAnswer, WireClient, bind, execute, parse, query, SYNC } from "./client.ts";
import { HOME, WireSystem } from "./system.ts";

const LIMIT = 2;
const OTHER_WRITES = [
  "COPY kv FROM STDIN",
  'copy "kv" (key, value) from stdin',
  "CREATE TABLE refused (x int)",
  "ALTER TABLE kv ADD COLUMN refused int",
  "DO 'BEGIN END'",
  "TRUNCATE kv",
];
const NO_WRITES = [
  "COPY (SELECT 'from') TO STDOUT",
  "COPY kv (key) TO STDOUT",
  "SET work_mem = '8MB'",
  "PREPARE p AS SELECT 1",
  "EXECUTE p",
  "SHOW work_mem",
  "DISCARD PLANS",
];

it("at the limit of exposure a fast transaction's first write fails with 53400", async () => {
  await using wire = await WireSystem.start({ GATEWAY_EXPOSURE_TRANSACTIONS: String(LIMIT) });
  const client = await wire.open();
  const begun = await wire.open();
  const named = await wire.open();
  for (const fast of [client, begun, named]) await fast.query("SET highwater.ack = 'commit'");
  named.send(parse("insert", "INSERT INTO kv VALUES ($1, 1)"), SYNC);
  await named.until("Z");
  await begun.query("BEGIN");
  await begun.query("INSERT INTO kv VALUES ('begun', 1)");
  await wire.cut();
  for (let at = 0; at < LIMIT; at++)
    assert.match(
      (await client.query(`INSERT INTO kv VALUES ('full ${String(at)}', 1)`)).token ?? "",
      /^hw2_/,
    );

  for (const answer of [
    await client.query("INSERT INTO kv VALUES ('refused', 1)"),
    await client.extended("INSERT INTO kv VALUES ('refused', 1)"),
  ]) {
    assert.deepEqual([answer.code, answer.status, answer.tags], ["53400", "I", []]);
    assert.match(answer.error, /not yet durable/);
  }
  for (const write of OTHER_WRITES)
    for (const how of ["query", "extended"] as const) {
      const answer = await client[how](write);
      assert.deepEqual([answer.code, answer.status, answer.tags], ["53400", "I", []], write);
      await client.query("BEGIN");
      assert.equal((await client[how](write)).code, "53400", write);
      assert.deepEqual((await client.query("COMMIT")).tags, ["ROLLBACK"], write);
    }
  await client.query("BEGIN");
  for (const other of NO_WRITES) assert.equal((await client.query(other)).code, "", other);
  await client.query("ROLLBACK");

  named.send(bind("", "insert", ["refused"]), execute(""), SYNC);
  assert.equal(new ServerAnswer(await named.until("Z")).code, "53400");
  assert.deepEqual((await client.query("SELECT 1")).rows, [["1"]]);

  for (const how of ["query", "extended"] as const) {
    await client[how]("BEGIN");
    assert.deepEqual((await client[how]("SELECT 1")).rows, [["1"]]);
    const refused = await client[how]("INSERT INTO kv VALUES ('refused', 1)");
    assert.deepEqual([refused.code, refused.status], ["53400", "E"]);
    assert.equal((await client[how]("SELECT 1")).code, "25P02");
    assert.deepEqual((await client[how]("COMMIT")).tags, ["ROLLBACK"]);
  }

  // What the batch before the Sync has run says nothing of a portal that runs behind it.
  await client.query("BEGIN");
  client.send(parse("", "DISCARD PLANS"), bind("", ""), execute(""));
  client.send(parse("insert", "INSERT INTO kv VALUES ('refused', 1)"), bind("later", "insert"), SYNC);
  assert.equal(new ServerAnswer(await client.until("Z")).status, "T");
  client.send(execute("later"), SYNC);
  const late = new ServerAnswer(await client.until("Z"));
  assert.deepEqual([late.code, late.status], ["53400", "E"]);
  await client.query("ROLLBACK");

  // A transaction that has begun to write is not refused; a safe one only waits.
  assert.equal((await begun.query("INSERT INTO kv VALUES ('begun too', 1)")).code, "");
  begun.send(query("COMMIT"));
  const safe = await wire.open();
  safe.send(query("INSERT INTO kv VALUES ('safe', 1)"));
  await wire.heal();
  for (const waiting of [begun, safe]) assert.equal(new ServerAnswer(await waiting.until("Z")).status, "I");
  await eventually("there is room again", async () => {
    const answer = await client.query("INSERT INTO kv VALUES (gen_random_uuid()::text, 1)");
    return answer.code === "";
  });
  assert.deepEqual((await client.query("SELECT key FROM kv WHERE key = 'refused'")).rows, []);
});

it("a fast transaction with an id that exposure does not admit at its COMMIT is held, too", async () => {
  await using wire = await WireSystem.start({
    GATEWAY_EXPOSURE_TRANSACTIONS: String(LIMIT + 1),
    GATEWAY_EXPOSURE_VALUE: "EUR:1000",
  });
  const client = await wire.open();
  const made = (name: string, does: string): Promise<ServerAnswer> =>
    client.query(
      `CREATE FUNCTION ${name}() RETURNS void LANGUAGE sql AS $$ INSERT INTO kv VALUES (gen_random_uuid()::text, 1); ${does} $$`,
    );
  await made("writes", "");
  await made("quickens", "SELECT set_config('highwater.ack', 'commit', false)");
  await client.query("SET highwater.ack = 'commit'");
  const withId = async (begin: string): Promise<WireClient> => {
    const next = await wire.open();
    await next.query("PREPARE writing AS INSERT INTO kv VALUES (gen_random_uuid()::text, 1)");
    await next.query(`SET highwater.id = '${newId()}'`);
    for (const text of begin.split("; ")) assert.equal((await next.query(text)).code, "", text);
    return next;
  };
  const fast = "SET highwater.ack = 'commit'";
  const begun = await withId(`${fast}; BEGIN; INSERT INTO kv VALUES ('begun', 1)`);
  // It is admitted as durable, and so its value does not count.
  const quickened = await withId("SET highwater.at_risk = '100 EUR'; BEGIN; SELECT quickens()");
  await wire.cut();
  quickened.send(query("COMMIT"));
  await wire.holding(1);
  for (let at = 0; at < LIMIT; at++)
    assert.match((await client.query(`INSERT INTO kv VALUES ('${String(at)}', 1)`)).token ?? "", /^hw2_/);
  assert.equal((await client.query("INSERT INTO kv VALUES ('refused', 1)")).code, "53400");
  const held = [quickened, begun];
  begun.send(query("COMMIT"));
  for (const write of [
    "SELECT writes()",
    "WITH w AS (INSERT INTO kv VALUES ('with', 1) RETURNING key) SELECT key FROM w",
    "EXECUTE writing",
  ]) {
    const inBlock = await withId(`${fast}; BEGIN; ${write.replace("with'", "block'")}`);
    inBlock.send(query("COMMIT"));
    const alone = await withId(fast);
    alone.send(parse("", write), bind("", ""), execute(""), SYNC);
    held.push(inBlock, alone);
  }
  await wire.holding(held.length);
  await wire.heal();
  for (const waiting of held) {
    const answer = new ServerAnswer(await waiting.until("Z"));
    assert.match(answer.token ?? "", /^hw2_/);
    assert.equal(answer.parameter("highwater.achieved"), "region");
  }
});

it("near the limit of exposure a fast transaction waits before its first write, and a cancel ends that", async () => {
  // At nine tenths of the limit, the wait is half of the longest one.
  const most = 200;
  await using wire = await WireSystem.start({ GATEWAY_EXPOSURE_TRANSACTIONS: String(most) });
  const delays = async (): Promise<number> => {
    const text = await (await fetch(`${wire.system.gateway(HOME).url}/metrics`)).text();
    return Number(/^highwater_gateway_exposure_delays_total (\d+)$/m.exec(text)?.[1]);
  };
  const client = await wire.open();
  await client.query("SET highwater.ack = 'commit'");
  await wire.cut();
  const insert = "INSERT INTO kv VALUES (gen_random_uuid()::text, 2)";
  for (let at = 0; at < 0.9 * most; at++) assert.equal((await client.query(insert)).code, "");
  const before = await delays();
  for (const how of ["query", "extended"] as const) {
    assert.match((await client[how](insert)).token ?? "", /^hw2_/);
    await client[how]("BEGIN");
    await client[how](insert);
    await client[how](insert);
    assert.match((await client[how]("COMMIT")).token ?? "", /^hw2_/);
  }
  const step = (text: string): Buffer[] => [parse("", text), bind("", ""), execute("")];
  client.send(...step("BEGIN"), ...step(insert), ...step(insert), ...step("COMMIT"), SYNC);
  assert.match(new ServerAnswer(await client.until("Z")).token ?? "", /^hw2_/);
  assert.equal((await delays()) - before, 5, "one for each transaction");

  // One of several tries comes in time.
  const cancelled = await eventually("a cancel comes in time", async () => {
    const canceller = await WireClient.dial(wire.url);
    await client.query("BEGIN");
    client.send(query(insert));
    canceller.send(writeCancel(client.key));
    const answer = new ServerAnswer(await client.until("Z"));
    await client.query("ROLLBACK");
    canceller.end();
    return answer.code === "57014" ? answer : undefined;
  });
  assert.deepEqual([cancelled.status, cancelled.tags], ["E", []]);
  // A client that disconnects while it waits leaves nothing behind.
  client.send(query(insert));
  client.end();
  await wire.heal();
  const next = await wire.open();
  assert.deepEqual((await next.query(insert)).tags, ["INSERT 0 1"]);
  next.end();
});

it("a value at risk has to fit, or its transaction fails at its first write", async () => {
  await using wire = await WireSystem.start({ GATEWAY_EXPOSURE_VALUE: "EUR:100" });
  const client = await wire.open();
  await client.query("SET highwater.ack = 'commit'");
  await wire.cut();
  let number = 0;
  const insert = (how: "query" | "extended" = "query"): Promise<ServerAnswer> =>
    client[how](`INSERT INTO kv VALUES ('value ${String(number++)}', 1)`);
  await client.query("SET highwater.at_risk = '60 EUR'");
  assert.match((await insert()).token ?? "", /^hw2_/);
  for (const how of ["query", "extended"] as const) {
    const refused = await insert(how);
    assert.deepEqual([refused.code, refused.status], ["53400", "I"]);
    assert.match(refused.error, /exposureValueEUR/);
  }
  // Only of its own transaction.
  await client.query("BEGIN");
  await client.query("SET LOCAL highwater.at_risk = '40 EUR'");
  assert.equal((await insert("extended")).code, "");
  assert.match((await client.query("COMMIT")).token ?? "", /^hw2_/);
  assert.equal((await insert()).code, "53400");
  for (const [value, code] of [
    ["1 USD", "22023"],
    ["100.01 EUR", "22023"],
  ] as const) {
    await client.query(`SET highwater.at_risk = '${value}'`);
    assert.equal((await insert()).code, code, value);
  }
  await client.query("RESET highwater.at_risk");
  assert.match((await insert()).token ?? "", /^hw2_/);
  // Announcements are on their way when a fast COMMIT is answered.
  await eventually("the tracker has both values", async () => {
    const report = await fetch(`${wire.system.tracker(HOME).url}/v1/durability/exposure`);
    const { values } = (await report.json()) as ExposureReport;
    return values?.["EUR"]?.amount === "100";
  });
  // The wrong value, and the value that is set behind the first write, only wait.
  const wrong = await wire.open();
  await wrong.query("SET highwater.ack = 'commit'");
  const warned = await wrong.query("SET highwater.at_risk = 'much'");
  wrong.send(query("INSERT INTO kv VALUES ('wrong', 1)"));
  const late = await wire.open();
  await late.query("SET highwater.ack = 'commit'");
  await late.query("BEGIN");
  await late.query("INSERT INTO kv VALUES ('late', 1)");
  await late.query("SET LOCAL highwater.at_risk = '1 EUR'");
  late.send(query("COMMIT"));
  await wire.holding(2);
  await wire.heal();
  const answer = new ServerAnswer(await wrong.until("Z"));
  assert.match(warned.notice + answer.notice, /must be an amount and a unit/);
  assert.equal(new ServerAnswer(await late.until("Z")).code, "");
});
