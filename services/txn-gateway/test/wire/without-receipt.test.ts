// Goal: only a commit that highwater.id does not cover is answered with a warning. Method: send
// each form of commit twice with one id. Without a receipt it runs twice; with one it fails.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { newId } from "@highwater/lab-system/testing";
import { reportField } from "../../src/wire/frames/build.ts";
import { bind, execute, message, parse, query, SYNC, type Frame, WireClient } from "./client.ts";
import { AWAY, HOME, WireSystem } from "./system.ts";

const SET_TOO_LATE = /^highwater\.id has no effect on what the text that sets it/;
const WARNED = /^highwater\.id has no effect on this transaction, which has no receipt/;

let wire: WireSystem;
before(async () => {
  wire = await WireSystem.start();
  await wire.system.cluster.query(
    HOME,
    `CREATE ROLE lodger; GRANT lodger TO app; GRANT ALL ON kv TO lodger; GRANT CREATE ON SCHEMA public TO app;
     CREATE PROCEDURE twice() LANGUAGE plpgsql AS $$ BEGIN
       INSERT INTO kv VALUES (gen_random_uuid()::text, 1); COMMIT;
       INSERT INTO kv VALUES (gen_random_uuid()::text, 1);
     END $$;
     CREATE FUNCTION put() RETURNS int LANGUAGE sql AS $$
       INSERT INTO kv VALUES (gen_random_uuid()::text, 1) RETURNING 1 $$`,
  );
});
after(async () => {
  await wire[Symbol.asyncDispose]();
});

const INSERT = "INSERT INTO kv VALUES (gen_random_uuid()::text, 1)";
const SEMICOLON = "INSERT INTO kv VALUES ('it''s; $' || gen_random_uuid()::text, 1)";
const step = (text: string): Buffer[] => [parse("", text), bind("", ""), execute("")];
const alone = (text: string): Buffer => Buffer.concat([...step(text), SYNC]);
const rows = (): Buffer[] => [message("d", `${crypto.randomUUID()}\t1\n`), message("c")];
const copy = (): Buffer => Buffer.concat([query("COPY kv FROM STDIN"), ...rows()]);
const block = (...texts: readonly string[]): Buffer[] => ["BEGIN", ...texts, "COMMIT"].map(query);

/** The messages of each form. Each waits for the answer to the one before it. */
const WITHOUT: Readonly<Record<string, () => readonly Buffer[]>> = {
  COPY: () => [copy()],
  "COPY in the extended protocol": () => [Buffer.concat([...step("COPY kv FROM STDIN"), ...rows(), SYNC])],
  "PREPARE TRANSACTION": () => ["BEGIN", INSERT, `PREPARE TRANSACTION '${newId()}'`].map(query),
  DDL: () => [query("CREATE OR REPLACE VIEW shown AS SELECT 1 AS one")],
  "DDL in the extended protocol": () => [alone("CREATE OR REPLACE VIEW shown AS SELECT 1 AS one")],
  "DDL and an INSERT in one batch": () => [
    Buffer.concat([...step("CREATE OR REPLACE VIEW shown AS SELECT 1 AS one"), ...step(INSERT), SYNC]),
  ],
  "a procedure that commits": () => [query("CALL twice()")],
  DO: () => [query(`DO $$BEGIN ${INSERT}; END$$`)],
  "several statements in one text": () => [query(`${INSERT}; ${INSERT}`)],
  "COMMIT in one text with others": () => [query("BEGIN"), query(`${INSERT}; COMMIT`)],
  "a semicolon behind a backslash": () => [query(SEMICOLON.replace("; $", String.raw`;\ $`))],
  "a role that cannot write receipts": () => ["SET ROLE lodger", INSERT, "RESET ROLE"].map(query),
  "the same in a block": () => block("SET LOCAL ROLE lodger", INSERT),
  "row security that is off": () => block("SET LOCAL row_security = off", INSERT),
};

const WITH: Readonly<Record<string, () => readonly Buffer[]>> = {
  INSERT: () => [query(INSERT)],
  "an extended INSERT": () => [alone(INSERT)],
  "a semicolon in quotes": () => [query(SEMICOLON)],
  "a semicolon in quotes, in the extended protocol": () => [alone(SEMICOLON)],
  "a read that writes": () => [query("SELECT put()")],
  "a block": () => block(INSERT),
  "COPY in a block": () => [query("BEGIN"), copy(), query("COMMIT")],
  "DDL in a block": () => block("CREATE OR REPLACE VIEW shown AS SELECT 1 AS one"),
  "several statements in a block": () => [query("BEGIN"), query(`${INSERT}; ${INSERT}`), query("COMMIT")],
  "a pipelined block": () => [Buffer.concat(["BEGIN", INSERT, "COMMIT"].flatMap(step).concat(SYNC))],
};

const READS: Readonly<Record<string, () => readonly Buffer[]>> = {
  "a read": () => [query("SELECT count(*) FROM kv")],
  "an extended read": () => [alone("SELECT count(*) FROM kv")],
  "a block that reads": () => block("SELECT count(*) FROM kv"),
  "an update of nothing": () => [query("UPDATE kv SET value = 2 WHERE key = 'none'")],
  "a rollback": () => ["BEGIN", INSERT, "ROLLBACK"].map(query),
  settings: () => ["SET work_mem = '8MB'", "RESET work_mem"].map(query),
};

async function answers(client: WireClient, sent: readonly Buffer[]): Promise<Frame[]> {
  const frames: Frame[] = [];
  for (const bytes of sent) {
    client.send(bytes);
    frames.push(...(await client.until("Z")));
  }
  return frames;
}

const texts = (frames: readonly Frame[], wanted: string, field: string): string[] =>
  frames.filter(({ type }) => type === wanted).map(({ bytes }) => reportField(bytes, 0, bytes.length, field));

/** For both rounds: the texts of the warnings, and the code of the last error. */
async function twice(client: WireClient, make: () => readonly Buffer[]) {
  await client.query(`SET highwater.id = '${newId()}'`);
  const outcomes = [];
  for (let round = 0; round < 2; round++) {
    const frames = await answers(client, make());
    outcomes.push({ notices: texts(frames, "N", "M"), code: texts(frames, "E", "C").at(-1) ?? "" });
  }
  await client.query("RESET highwater.id");
  return outcomes;
}

for (const ack of ["durable", "commit"]) {
  it(`with ack = ${ack}, each way to commit without a receipt gets one warning, and runs twice`, async () => {
    const client = await wire.open();
    await client.query(`SET highwater.ack = '${ack}'`);
    for (const [name, make] of Object.entries(WITHOUT))
      for (const { notices, code } of await twice(client, make)) {
        assert.equal(notices.length, 1, `${name}: ${notices.join(", ")}`);
        assert.match(notices[0] ?? "", WARNED, name);
        assert.equal(code, "", name);
      }
    client.end();
  });

  it(`with ack = ${ack}, what has a receipt runs once, without a warning`, async () => {
    const client = await wire.open();
    await client.query(`SET highwater.ack = '${ack}'`);
    for (const [name, make] of Object.entries(WITH))
      assert.deepEqual(
        await twice(client, make),
        ["", "23505"].map((code) => ({ notices: [], code })),
        name,
      );
    client.end();
  });
}

it("what writes nothing gets no warning, and may be sent again", async () => {
  const client = await wire.open();
  const outcome = { notices: [], code: "" };
  for (const [name, make] of Object.entries(READS))
    assert.deepEqual(await twice(client, make), [outcome, outcome], name);
  client.end();
});

for (const ack of ["durable", "commit"])
  it(`on the read port at the primary, with ack = ${ack}, each commit gets one warning, and runs twice`, async () => {
    const client = await WireClient.open(wire.system.pgReadUrl(HOME));
    await client.query(`SET default_transaction_read_only = off; SET highwater.ack = '${ack}'`);
    for (const [name, make] of Object.entries({ ...WITHOUT, ...WITH }))
      for (const { notices, code } of await twice(client, make)) {
        assert.equal(notices.length, 1, `${name}: ${notices.join(", ")}`);
        assert.match(notices[0] ?? "", WARNED, name);
        assert.equal(code, "", name);
      }
    client.end();
  });

it("what reads on the read port gets no warning, and at a replica nothing does", async () => {
  const reads = ["a read", "an extended read", "a block that reads", "settings"];
  const atReplica = ["BEGIN; SELECT 1; COMMIT", "DO $$BEGIN PERFORM 1; END$$"].map((text) => () => [
    query(text),
  ]);
  for (const region of [HOME, AWAY]) {
    const client = await WireClient.open(wire.system.pgReadUrl(region));
    const forms = reads.map((name) => READS[name] ?? assert.fail(name));
    const outcome = { notices: [], code: "" };
    for (const make of region === AWAY ? [...forms, ...atReplica] : forms)
      assert.deepEqual(await twice(client, make), [outcome, outcome]);
    client.end();
  }
});

it("COMMIT PREPARED gets the warning in front of its tag", async () => {
  const client = await wire.open();
  await client.query(`SET highwater.id = '${newId()}'`);
  const name = newId();
  await answers(client, ["BEGIN", INSERT, `PREPARE TRANSACTION '${name}'`].map(query));
  const { types, notice, tags } = await client.query(`COMMIT PREPARED '${name}'`);
  assert.equal(types, "NCZ");
  assert.match(notice, WARNED);
  assert.deepEqual(tags, ["COMMIT PREPARED"]);
  client.end();
});

for (const port of ["main", "read"])
  it(`on the ${port} port, an id that is set in the batch that commits gets a warning`, async () => {
    const { system } = wire;
    const client = await WireClient.open(port === "main" ? system.pgUrl(HOME) : system.pgReadUrl(HOME));
    await client.query("SET default_transaction_read_only = off");
    const set = `SET highwater.id = '${newId()}'`;
    const [late, read] = [INSERT, "SELECT 1"].map((text) => [
      Buffer.concat([...step(set), ...step(text), SYNC]),
    ]);
    for (const sent of [late ?? [], [query(`${set}; ${INSERT}`)]]) {
      const [first = "", ...more] = texts(await answers(client, sent), "N", "M");
      assert.match(first, sent === late ? WARNED : SET_TOO_LATE);
      assert.deepEqual(more, []);
      await client.query("RESET highwater.id");
    }
    assert.deepEqual(texts(await answers(client, read ?? []), "N", "M"), []);
    client.end();
  });

it("an id that comes too late gets a warning in a long text, and where the text does not show it", async () => {
  const client = await wire.open();
  const long = `INSERT INTO kv VALUES (gen_random_uuid()::text || '${"x".repeat(100_000)}', 1)`;
  const named = await answers(client, [query(`SET highwater.id = '${newId()}'; ${long}`)]);
  assert.deepEqual(
    texts(named, "N", "M").map((text) => SET_TOO_LATE.test(text)),
    [true],
  );
  await answers(client, [
    query("RESET highwater.id"),
    query(`PREPARE names AS SELECT set_config('highwater.id', '${newId()}', false)`),
  ]);
  const hidden = await answers(client, [
    query(`EXECUTE names; ${INSERT}`),
    query("SELECT 1"),
    query("SELECT 1"),
  ]);
  assert.deepEqual(
    texts(hidden, "N", "M").map((text) => SET_TOO_LATE.test(text)),
    [true],
    "once, with the answer to the next message",
  );
  client.end();
});

it("an id that is set in the batch whose COMMIT ends it gets no warning", async () => {
  const client = await wire.open();
  const batch = ["BEGIN", `SET LOCAL highwater.id = '${newId()}'`, INSERT, "COMMIT"].flatMap(step);
  assert.deepEqual(texts(await answers(client, [Buffer.concat([...batch, SYNC])]), "N", "M"), []);
  client.end();
});

it("in a database without receipts every commit with an id gets the warning", async () => {
  await wire.system.cluster.query(HOME, "CREATE DATABASE bare");
  await wire.system.cluster.query(HOME, "ALTER DATABASE bare OWNER TO app");
  const client = await wire.open({ parameters: { database: "bare" } });
  await client.query("CREATE TABLE t (key int)");
  await client.query(`SET highwater.id = '${newId()}'`);
  for (const form of ["query", "extended"] as const)
    assert.match((await client[form]("INSERT INTO t VALUES (1)")).notice, WARNED);
  client.end();
});
