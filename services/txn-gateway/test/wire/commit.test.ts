// Goal: with `highwater.ack = 'commit'`, only commits with an announced receipt are answered at
// once, with a token. Method: cut the link to the other region; held answers do not arrive.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { eventually, newId, stateOf, verdict } from "@highwater/lab-system/testing";
import { bind, execute, message, parse, query, SYNC, ServerAnswer, type WireClient } from "./client.ts";
import { HOME, WireSystem } from "./system.ts";

let wire: WireSystem;
before(async () => {
  wire = await WireSystem.start();
});
after(async () => {
  await wire[Symbol.asyncDispose]();
});

it("a fast commit is answered at the commit point with a token, and becomes durable", async () => {
  const client = await wire.open();
  await client.query("SET highwater.ack = 'commit'");
  await wire.cut();
  const simple = await client.query("INSERT INTO kv VALUES ('simple', 1)");
  assert.deepEqual(simple.tags, ["INSERT 0 1"]);
  assert.match(simple.token ?? "", /^hw2_/);
  const extended = await client.extended("INSERT INTO kv VALUES ('extended', 1)");
  assert.match(extended.token ?? "", /^hw2_/);
  await client.query("BEGIN");
  await client.query("INSERT INTO kv VALUES ('block', 1)");
  const block = await client.query("COMMIT");
  assert.match(block.token ?? "", /^hw2_/);
  await client.extended("BEGIN");
  await client.extended("INSERT INTO kv VALUES ('extended block', 1)");
  const last = await client.extended("COMMIT");
  assert.deepEqual(last.tags, ["COMMIT"]);
  assert.match(last.token ?? "", /^hw2_/);
  // The token is no setting, which the server has to say at once, too.
  assert.equal((await client.query("SHOW highwater.token")).code, "42704");
  assert.equal((await client.extended("SHOW highwater.token")).code, "42704");
  const tokens = [simple, extended, block, last].map(({ token }) => token ?? "");
  assert.equal(new Set(tokens).size, 4);
  await wire.heal();
  for (const token of tokens)
    assert.equal((await verdict(wire.system.tracker(HOME).url, token)).verdict, "durable");
  client.end();
});

it("the first statement fails, and a check comes between two receipts: every later commit has its receipt", async () => {
  const client = await wire.open({ parameters: { options: "-c highwater.ack=commit" } });
  const failed = await client.query("INSERT INTO kv VALUES ('prepared', 1 / 0)");
  assert.equal(failed.code, "22012");
  for (const key of ["prepared 1", "prepared 2"]) {
    const answer = await client.query(`INSERT INTO kv VALUES ('${key}', 1)`);
    assert.deepEqual(answer.tags, ["INSERT 0 1"]);
    assert.match(answer.token ?? "", /^hw2_/);
    assert.deepEqual((await client.query("SELECT 1")).tags, ["SELECT 1"]);
  }
  client.end();
});

it("a token is never older than the last transaction", async () => {
  const client = await wire.open();
  await client.query("SET highwater.ack = 'commit'");
  assert.match((await client.query("INSERT INTO kv VALUES ('t1', 1)")).token ?? "", /^hw2_/);
  assert.equal((await client.query("SELECT 1")).token, "");
  assert.equal((await client.query("SELECT 1")).token, null);
  client.end();
});

it("a commit that is released before its position is known leaves no older token", async () => {
  const client = await wire.open();
  await client.query("SET highwater.ack = 'commit'");
  await client.query("SET highwater.max_wait = '500ms'");
  assert.match((await client.query("INSERT INTO kv VALUES ('known', 1)")).token ?? "", /^hw2_/);
  const [row] = await wire.system.cluster.query(
    HOME,
    `SELECT pid FROM pg_stat_activity WHERE application_name = 'highwater:${HOME}:log-end'`,
  );
  const pid = Number(row?.["pid"]);
  process.kill(pid, "SIGSTOP");
  try {
    const released = await client.query("INSERT INTO kv VALUES ('released', 1)");
    assert.deepEqual([released.tags, released.token], [["INSERT 0 1"], ""]);
    assert.match(released.notice ?? "", /canceling wait/);
  } finally {
    process.kill(pid, "SIGCONT");
  }
  client.end();
});

it("the outcome of an id's earlier transaction waits at the level of the COMMIT that asked for it", async () => {
  const parameters = { options: "-c highwater.level=disk" };
  const [client, other] = [await wire.open({ parameters }), await wire.open({ parameters })];
  const begin = async (id: string, ...texts: readonly string[]): Promise<void> => {
    const insert = "INSERT INTO kv VALUES (gen_random_uuid()::text, 1)";
    for (const text of ["BEGIN", `SET LOCAL highwater.id = '${id}'`, ...texts, insert])
      await client.query(text);
  };
  const activity = async (where: string): Promise<number[]> => {
    const rows = await wire.system.cluster.query(HOME, `SELECT pid FROM pg_stat_activity WHERE ${where}`);
    return rows.map((row) => Number(row["pid"]));
  };
  const [known, id] = [newId(), newId()];
  for (const code of ["", "23505"]) {
    await begin(known);
    assert.equal((await client.query("COMMIT")).code, code);
  }
  await wire.cut();
  let lookUps: number[] = [];
  try {
    await begin(id);
    assert.deepEqual((await client.query("COMMIT")).tags, ["COMMIT"]);
    await begin(id, "SET LOCAL highwater.level = 'region'");
    // The look-up takes so long that the session's settings are read meanwhile.
    lookUps = await activity(`application_name = 'highwater:${HOME}:settle'`);
    assert.equal(lookUps.length, 1);
    for (const pid of lookUps) process.kill(pid, "SIGSTOP");
    const behind = "SELECT 1; SELECT 2";
    const isIdle = (what: string): Promise<true> =>
      eventually(`${what} is idle`, async () => (await activity(`${what} AND state = 'idle'`)).length === 1);
    client.send(query("COMMIT"), query(behind));
    await isIdle(`query = '${behind}'`);
    assert.equal(client.untaken.length, 0);
    const [pid = 0] = lookUps.splice(0);
    const [now] = await wire.system.cluster.query(HOME, "SELECT clock_timestamp()::text AS now");
    process.kill(pid, "SIGCONT");
    await isIdle(`pid = ${String(pid)} AND state_change > '${String(now?.["now"])}'`);
    // What is durable on the disk is answered.
    for (let count = 0; count < 5; count++)
      await other.query("INSERT INTO kv VALUES (gen_random_uuid()::text, 1)");
    assert.equal(client.untaken.length, 0, "the first is not durable at region");
  } finally {
    for (const pid of lookUps) process.kill(pid, "SIGCONT");
    await wire.heal();
  }
  assert.equal(new ServerAnswer(await client.until("Z")).code, "23505");
  client.end();
  other.end();
});

it("our statement is there behind a text that drops all", async () => {
  const client = await wire.open();
  await client.query("SELECT 1");
  client.send(query("SELECT 1; DEALLOCATE ALL"), parse("", "SELECT 2"), bind("", ""), execute(""), SYNC);
  assert.equal(new ServerAnswer(await client.until("Z")).code, "");
  const second = new ServerAnswer(await client.until("Z"));
  assert.deepEqual([second.code, second.tags], ["", ["SELECT 1"]]);
  client.end();
});

it("a pipelined transaction in commit mode gets its receipt", async () => {
  const client = await wire.open();
  await client.query("SET highwater.ack = 'commit'");
  const step = (text: string): Buffer[] => [parse("", text), bind("", ""), execute("")];
  client.send(...step("BEGIN"), ...step("INSERT INTO kv VALUES ('pipe', 1)"), ...step("COMMIT"), SYNC);
  const answer = new ServerAnswer(await client.until("Z"));
  assert.deepEqual(answer.tags, ["BEGIN", "INSERT 0 1", "COMMIT"]);
  assert.match(answer.token ?? "", /^hw2_/);
  client.send(query("INSERT INTO kv VALUES ('q1', 1)"), query("INSERT INTO kv VALUES ('q2', 1)"));
  const first = new ServerAnswer(await client.until("Z"));
  const second = new ServerAnswer(await client.until("Z"));
  assert.notEqual(first.token, second.token);
  client.end();
});

it("a COMMIT whose portal an earlier batch has bound gets its receipt", async () => {
  const client = await wire.open({ parameters: { options: "-c highwater.ack=commit" } });
  await client.query("BEGIN");
  await client.query("INSERT INTO kv VALUES ('bound before', 1)");
  client.send(parse("", "COMMIT"), bind("end", ""), SYNC);
  await client.until("Z");
  client.send(execute("end"), SYNC);
  assert.match(new ServerAnswer(await client.until("Z")).token ?? "", /^hw2_/);
  client.end();
});

it("a fast session's READ ONLY block, failed block and rollback end as in PostgreSQL", async () => {
  const client = await wire.open();
  await client.query("SET highwater.ack = 'commit'");
  await client.query("BEGIN READ ONLY");
  await client.query("SELECT 1");
  assert.deepEqual((await client.query("COMMIT")).tags, ["COMMIT"]);
  await client.query("BEGIN");
  assert.equal((await client.query("INSERT INTO nope VALUES (1)")).code, "42P01");
  assert.deepEqual((await client.query("COMMIT")).tags, ["ROLLBACK"]);
  await client.extended("BEGIN");
  await client.extended("INSERT INTO nope VALUES (1)");
  assert.deepEqual((await client.extended("COMMIT")).tags, ["ROLLBACK"]);
  await client.query("BEGIN");
  await client.query("INSERT INTO kv VALUES ('gone', 1)");
  assert.deepEqual((await client.query("ROLLBACK")).tags, ["ROLLBACK"]);
  client.end();
});

it("a fast session's locking reads do not wait", async () => {
  const client = await wire.open();
  await client.query("SET highwater.ack = 'commit'");
  await wire.cut();
  await client.query("INSERT INTO kv VALUES ('locked', 1)");
  await client.query("BEGIN");
  const { rows } = await client.query("SELECT value FROM kv WHERE key = 'locked' FOR UPDATE");
  assert.deepEqual(rows, [["1"]]);
  await client.query("UPDATE kv SET value = 2 WHERE key = 'locked'");
  assert.match((await client.query("COMMIT")).token ?? "", /^hw2_/);
  await wire.heal();
  client.end();
});

it("a transaction with highwater.id runs once", async () => {
  const id = newId();
  for (const form of ["query", "extended"] as const) {
    const client = await wire.open();
    const once = form === "query" ? id : newId();
    await client.query("BEGIN");
    await client.query(`SET LOCAL highwater.id = '${once}'`);
    await client.query(`INSERT INTO kv VALUES ('once-${form}', 1)`);
    assert.deepEqual((await client[form]("COMMIT")).tags, ["COMMIT"]);
    await client.query("BEGIN");
    await client.query(`SET LOCAL highwater.id = '${once}'`);
    await client.query(`INSERT INTO kv VALUES ('twice-${form}', 1)`);
    const again = await client[form]("COMMIT");
    assert.equal(again.code, "23505");
    assert.equal(again.status, "I");
    assert.doesNotMatch(again.frames.map(({ bytes }) => bytes.toString("latin1")).join(""), /tag/);
    assert.deepEqual((await client.query("SELECT key FROM kv WHERE key LIKE 'twice-%'")).rows, []);
    client.end();
  }
  const state = await eventually("the gateway knows the id", async () => {
    const { body } = await stateOf(wire.system.gateway(HOME).url, id);
    return body.state === "durable" ? body : undefined;
  });
  assert.equal(state.state, "durable");
});

it("a highwater.id counts in upper case, and any other spelling is refused with the transaction", async () => {
  const client = await wire.open();
  const id = newId();
  const commitAs = async (setting: string, key: string): Promise<ServerAnswer> => {
    await client.query("BEGIN");
    await client.query(`SET LOCAL highwater.id = '${setting}'`);
    await client.query(`INSERT INTO kv VALUES ('${key}', 1)`);
    return client.query("COMMIT");
  };
  assert.equal((await commitAs(id.toUpperCase(), "upper")).code, "");
  assert.equal((await commitAs(id, "lower")).code, "23505");
  for (const ack of ["commit", "durable"]) {
    await client.query(`SET highwater.ack = '${ack}'`);
    for (const spelled of [newId().replaceAll("-", ""), `{${newId()}}`, crypto.randomUUID(), "none"]) {
      const { code, error } = await commitAs(spelled, "spelled");
      assert.deepEqual([spelled, code, error.slice(0, 16)], [spelled, "22023", `highwater.id is `]);
    }
  }
  const { rows } = await client.query("SELECT key FROM kv WHERE key IN ('upper', 'lower', 'spelled')");
  assert.deepEqual(rows, [["upper"]]);
  client.end();
});

it("the highwater.id of a transaction that was undone in COMMIT is used up, and the answer says that it did not commit", async () => {
  await wire.system.cluster.query(
    HOME,
    `CREATE TABLE killed (key text PRIMARY KEY);
     GRANT ALL ON killed TO PUBLIC;
     CREATE FUNCTION kill() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
       IF NEW.key = 'first' THEN PERFORM pg_terminate_backend(pg_backend_pid(), 0); PERFORM pg_sleep(60); END IF;
       RETURN NULL;
     END $$;
     CREATE CONSTRAINT TRIGGER kills AFTER INSERT ON killed DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION kill()`,
  );
  for (const ack of ["commit", "durable"]) {
    const id = newId();
    const first = await wire.open();
    await first.query(`SET highwater.ack = '${ack}'`);
    await first.query("BEGIN");
    await first.query(`SET LOCAL highwater.id = '${id}'`);
    await first.query("INSERT INTO killed VALUES ('first')");
    first.send(query("COMMIT"));
    await first.closed();
    await eventually("the id is settled", async () => {
      const { body } = await stateOf(wire.system.gateway(HOME).url, id);
      return body.state === "aborted" || body.state === "lost";
    });

    const second = await wire.open();
    await second.query(`SET highwater.ack = '${ack}'`);
    await second.query("BEGIN");
    await second.query(`SET LOCAL highwater.id = '${id}'`);
    await second.query("INSERT INTO killed VALUES ('second')");
    const { code, status } = await second.query("COMMIT");
    assert.deepEqual([code, status], ["40001", "I"]);
    assert.deepEqual((await second.query("SELECT key FROM killed")).rows, []);
    second.end();
  }
});

it("a text of several statements that sets highwater.id and commits gets a warning", async () => {
  const client = await wire.open();
  const insert = "INSERT INTO kv VALUES (gen_random_uuid()::text, 1)";
  const id = `highwater.id = '${newId()}'`;
  for (const text of [
    `BEGIN; SET LOCAL ${id}; ${insert}; COMMIT`,
    `SET ${id}; ${insert}`,
    `${insert}; SELECT set_config('highwater.id', '${newId()}', false)`,
  ]) {
    const answer = await client.query(text);
    assert.match(answer.notice, /^highwater\.id has no effect on what the text/, text);
    assert.equal(answer.code, "", text);
    await client.query("RESET highwater.id");
  }
  for (const text of [
    `BEGIN; SET LOCAL ${id}; ${insert}`,
    "COMMIT",
    `SET ${id}; SET work_mem = '8MB'`,
    "RESET highwater.id; RESET work_mem",
    `BEGIN; ${insert}; COMMIT`,
  ])
    assert.equal((await client.query(text)).notice, "", text);
  client.end();
});

it("what a pipeline has set counts for what is behind it", async () => {
  const client = await wire.open();
  const step = (text: string): Buffer[] => [parse("", text), bind("", ""), execute("")];
  const block = (id: string, key: string): readonly string[] => [
    "BEGIN",
    `SET LOCAL highwater.id = '${id}'`,
    `INSERT INTO kv VALUES ('${key}', 1)`,
    "COMMIT",
  ];
  const known = (id: string): Promise<unknown> =>
    eventually("the gateway knows the id", async () => {
      const { body } = await stateOf(wire.system.gateway(HOME).url, id);
      return body.state === "durable" ? body : undefined;
    });
  const [simple, extended, batch, alone] = [newId(), newId(), newId(), newId()];
  client.send(...block(simple, "simple set").map(query));
  client.send(...block(extended, "extended set").flatMap((text) => [...step(text), SYNC]));
  client.send(...block(batch, "batch set").flatMap(step), SYNC);
  client.send(query(`SET highwater.id = '${alone}'`), query("INSERT INTO kv VALUES ('alone set', 1)"));
  for (let ready = 0; ready < 4 + 4 + 1; ready++) {
    const answer = new ServerAnswer(await client.until("Z"));
    assert.equal(answer.code, "");
  }
  assert.deepEqual(new ServerAnswer(await client.until("Z")).tags, ["SET"]);
  assert.deepEqual(new ServerAnswer(await client.until("Z")).tags, ["INSERT 0 1"]);
  for (const id of [simple, extended, batch, alone]) await known(id);
  client.send(query("RESET highwater.id"), query("SET highwater.ack = commit"));
  client.send(query("INSERT INTO kv VALUES ('fast set', 1)"));
  await client.until("Z");
  await client.until("Z");
  assert.match(new ServerAnswer(await client.until("Z")).token ?? "", /^hw2_/);
  client.end();
});

it("what has no receipt is held, whatever the session asked for", async () => {
  const client = await wire.open();
  await client.query("SET highwater.ack = 'commit'");
  await wire.cut();
  client.send(query("BEGIN; INSERT INTO kv VALUES ('text', 1); COMMIT"));
  await eventually("BEGIN and INSERT are answered", () => client.untaken.length >= 2);
  const other = await wire.open();
  await other.query("SET highwater.ack = 'commit'");
  assert.match((await other.query("INSERT INTO kv VALUES ('beside', 1)")).token ?? "", /^hw2_/);
  assert.deepEqual(
    client.untaken.map(({ type }) => type),
    ["C", "C"],
    "BEGIN and INSERT, and not COMMIT",
  );
  await wire.heal();
  assert.deepEqual(new ServerAnswer(await client.until("Z")).tags, ["BEGIN", "INSERT 0 1", "COMMIT"]);
  client.end();
  other.end();
});

it("a role or a setting under which no receipt can be written does not undo a transaction", async () => {
  const { cluster } = wire.system;
  await cluster.query(HOME, "CREATE ROLE tenant IN ROLE pg_monitor; GRANT ALL ON kv TO tenant");
  await cluster.query(HOME, "GRANT tenant TO app");
  const client = await wire.open({ parameters: { options: "-c highwater.ack=commit" } });
  const ways = [
    "SET LOCAL row_security = off",
    "SELECT set_config('row_security', 'off', true)",
    "SET LOCAL ROLE tenant",
    "SELECT set_config('role', 'tenant', true)",
  ];
  for (const [at, way] of ways.entries()) {
    const insert = (form: string): string => `INSERT INTO kv VALUES ('without ${form} ${String(at)}', 1)`;
    await client.query("BEGIN");
    await client.query(way);
    await client.query(insert("simple"));
    const simple = await client.query("COMMIT");
    assert.deepEqual(simple.tags, ["COMMIT"], `${way}: ${simple.error}`);
    assert.equal(simple.token ?? "", "", way);
    const step = (text: string): Buffer[] => [parse("", text), bind("", ""), execute("")];
    client.send(...["BEGIN", way, insert("extended"), "COMMIT"].flatMap(step), SYNC);
    const extended = new ServerAnswer(await client.until("Z"));
    assert.equal(extended.tags.at(-1), "COMMIT", `${way}: ${extended.error}`);
    assert.equal(extended.token ?? "", "", way);
    const next = await client.query(insert("next"));
    assert.deepEqual(next.tags, ["INSERT 0 1"]);
    assert.match(next.token ?? "", /^hw2_/, way);
  }
  client.end();
});

it("a transaction with highwater.id runs once, whatever it consists of", async () => {
  const client = await wire.open();
  await client.query(`CREATE FUNCTION put(k text) RETURNS int LANGUAGE sql AS
    $$ INSERT INTO kv VALUES (k || gen_random_uuid()::text, 1) RETURNING 1 $$`);
  const limited = message("E", "\0", Buffer.from([0, 0, 0, 1]));
  const insert = "INSERT INTO kv VALUES (gen_random_uuid()::text, 1)";
  const bodies: Readonly<Record<string, readonly Buffer[]>> = {
    "a savepoint": ["SAVEPOINT s", "ROLLBACK TO s"].map(query),
    "a function": [query("SELECT put('fn')")],
    WITH: [query(`WITH w AS (${insert} RETURNING key) SELECT count(*) FROM w`)],
    "rows up to a limit": [
      Buffer.concat([parse("", `${insert} RETURNING key`), bind("", ""), limited, SYNC]),
    ],
    "a chain": [query(`COMMIT AND CHAIN; ${insert}`)],
  };
  for (const [name, body] of Object.entries(bodies)) {
    const id = newId();
    const codes: string[] = [];
    for (let round = 0; round < 2; round++) {
      await client.query("BEGIN");
      await client.query(`SET ${name === "a chain" ? "" : "LOCAL"} highwater.id = '${id}'`);
      if (name === "a savepoint") await client.query(insert);
      for (const bytes of body) {
        client.send(bytes);
        await client.until("Z");
      }
      codes.push((await client.query("COMMIT")).code);
      await client.query("RESET highwater.id");
    }
    assert.deepEqual(codes, ["", "23505"], name);
  }
  const id = newId();
  await client.query(`SET highwater.id = '${id}'`);
  assert.equal((await client.query("SELECT put('alone')")).code, "");
  assert.equal((await client.query("SELECT put('alone')")).code, "23505");
  assert.equal((await client.extended("SELECT put('alone')")).code, "23505");
  client.end();
});

it("commit and read_ack = durable: what says something of others is held, with rows or without", async () => {
  const open = async (...settings: readonly string[]) => {
    const client = await wire.open();
    for (const each of settings) await client.query(`SET highwater.${each}`);
    return client;
  };
  const writer = await open("ack = commit");
  await writer.query("INSERT INTO kv VALUES ('gone soon', 1)");
  const readers = [];
  for (let count = 0; count < 3; count++) readers.push(await open("ack = commit", "read_ack = durable"));
  const [empty, duplicate, limited] = readers as [WireClient, WireClient, WireClient];
  const some = [bind("", "p"), message("E", "\0", Buffer.from([0, 0, 0, 1])), SYNC];
  limited.send(parse("p", "SELECT count(*) FROM kv"), SYNC);
  await limited.until("Z");
  limited.send(...some);
  await limited.until("Z");
  await wire.cut();
  await writer.query("DELETE FROM kv WHERE key = 'gone soon'");
  await writer.query("INSERT INTO kv VALUES ('there', 1)");
  empty.send(query("SELECT key FROM kv WHERE key = 'gone soon'"));
  duplicate.send(query("INSERT INTO kv VALUES ('there', 1)"));
  limited.send(...some);
  // Before they begin none is active either: two of them show that they have run.
  await eventually("all have run", async () => {
    const [row] = await wire.system.cluster.query(
      HOME,
      "SELECT count(*)::int AS n FROM pg_stat_activity WHERE usename = 'app' AND state = 'active'",
    );
    return row?.["n"] === 0 && [empty, limited].every(({ untaken }) => untaken.length > 0);
  });
  await writer.query("SELECT 1");
  assert.deepEqual(
    readers.map((reader) => reader.untaken.map(({ type }) => type).join("")),
    ["T", "", "2"],
  );
  await wire.heal();
  for (const reader of readers) await reader.until("Z");
  for (const client of [writer, ...readers]) client.end();
});

it("a function that changes the role inside of a block: COMMIT says why the transaction is undone", async () => {
  const { cluster } = wire.system;
  await cluster.query(HOME, "CREATE ROLE guest; GRANT ALL ON kv TO guest; GRANT guest TO app");
  const client = await wire.open();
  await client.query(`CREATE FUNCTION f_guest() RETURNS text LANGUAGE sql
    AS $$ SELECT set_config('role', 'guest', true) $$`);
  for (const how of ["query", "extended"] as const) {
    await client.query("SET highwater.ack = 'commit'");
    await client.query("BEGIN");
    await client.query("SELECT f_guest()");
    await client.query(`INSERT INTO kv VALUES ('guest ${how}', 1)`);
    const refused = await client[how]("COMMIT");
    assert.deepEqual([refused.code, refused.status, refused.tags], ["42501", "I", []]);
    assert.match(refused.error, /^the transaction was rolled back: its role cannot write the receipt/);
    assert.deepEqual((await client.query("SELECT key FROM kv WHERE key LIKE 'guest %'")).rows, []);
    await client.query("SET highwater.ack = 'durable'");
    await client.query("BEGIN");
    await client.query("SELECT f_guest()");
    await client.query(`INSERT INTO kv VALUES ('safe ${how}', 1)`);
    assert.deepEqual((await client[how]("COMMIT")).tags, ["COMMIT"]);
  }
  client.end();
});
