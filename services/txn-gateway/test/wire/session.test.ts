// Goal: the gateway keeps PostgreSQL's settings, keys, cancels, prepared statements and errors.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { eventually } from "@highwater/lab-system/testing";
import { reportField } from "../../src/wire/frames/build.ts";
import { writeCancel, writeStartup } from "../../src/wire/startup/packet.ts";
import {
  FLUSH,
  ServerAnswer,
  bind,
  describePortal,
  execute,
  message,
  parse,
  query,
  SYNC,
  WireClient,
  type WireError,
} from "./client.ts";
import { HOME, WireSystem } from "./system.ts";

let wire: WireSystem;
before(async () => {
  wire = await WireSystem.start();
});
after(async () => {
  await wire[Symbol.asyncDispose]();
});

it("synchronous_commit is off, also after DISCARD ALL and whatever the client asks for at the start", async () => {
  const client = await wire.open({
    parameters: { synchronous_commit: "on", options: "-c synchronous_commit=on -c work_mem=5MB" },
  });
  assert.deepEqual((await client.query("SHOW synchronous_commit")).rows, [["off"]]);
  assert.deepEqual((await client.query("SHOW work_mem")).rows, [["5MB"]]);
  await client.query("DISCARD ALL");
  assert.deepEqual((await client.query("SHOW synchronous_commit")).rows, [["off"]]);
  assert.deepEqual((await client.query("SELECT 1")).rows, [["1"]]);
  assert.deepEqual((await client.extended("SELECT 2")).rows, [["2"]]);
  client.end();
});

it("a Sync with a body is refused as by PostgreSQL, also in pieces, and the session goes on", async () => {
  const client = await wire.open();
  const long = message("S", Buffer.from("hallo"));
  client.send(query("SELECT 1"), long.subarray(0, 7));
  await client.until("Z");
  client.send(long.subarray(7));
  const refused = new ServerAnswer(await client.until("Z"));
  assert.equal(refused.code, "08P01");
  assert.deepEqual((await client.query("SELECT 2")).rows, [["2"]]);
  client.end();
});

it("a token never comes at the start, and the key is that of the server", async () => {
  const client = await wire.open({ parameters: { options: "-c highwater.ack=commit" } });
  assert.equal(new ServerAnswer(client.frames).token, null);
  const { rows } = await client.query("SELECT pg_backend_pid()");
  assert.equal(String(client.key.readInt32BE(0)), rows[0]?.[0]);
  assert.match((await client.query("INSERT INTO kv VALUES ('by options', 1)")).token ?? "", /^hw2_/);
  client.end();
});

it("protocol 3.2 and its long keys pass through, and the key cancels", async (t) => {
  if ((await wire.major()) < 18) return t.skip("protocol 3.2 came with PostgreSQL 18");
  const client = await wire.open({ version: 196_610 });
  assert.equal(client.key.length, 36);
  client.send(query("SELECT pg_sleep(600)"));
  await eventually("the statement runs", async () => {
    const sleeping = "SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    return (await wire.system.cluster.query(HOME, sleeping)).length === 1;
  });
  const canceller = await WireClient.dial(wire.url);
  canceller.send(writeCancel(client.key));
  assert.equal(new ServerAnswer(await client.until("Z")).code, "57014");
  client.end();
});

it("replication connections are refused", async () => {
  await assert.rejects(
    wire.open({ parameters: { replication: "database" } }),
    (error: WireError) => error.code === "0A000",
  );
});

it("another role is refused where there is no authentication", async () => {
  await assert.rejects(
    WireClient.open(wire.url.replace("app@", "postgres@")),
    (error: WireError) => error.code === "28000",
  );
});

it("a setting that is wrong counts as the safest one, with a WARNING; an empty one is unset", async () => {
  const client = await wire.open();
  await client.query("SET highwater.ack = 'maybe'");
  assert.match((await client.query("SELECT 1")).notice, /highwater\.ack is "maybe"/);
  await client.query("RESET highwater.ack");
  await client.query("BEGIN");
  await client.query("SET LOCAL highwater.level = 'disk'");
  await client.query("COMMIT");
  const after = await client.query("SELECT current_setting('highwater.level', true)");
  assert.deepEqual(after.rows, [[""]]);
  assert.equal(after.notice, "");
  client.end();
});

it("the client's unnamed statement and portal survive the gateway's statements", async () => {
  const client = await wire.open();
  client.send(parse("", "SELECT 7"), SYNC);
  await client.until("Z");
  client.send(bind("", ""), execute(""), SYNC);
  assert.deepEqual(new ServerAnswer(await client.until("Z")).rows, [["7"]]);
  client.send(bind("", ""), execute(""), SYNC);
  assert.deepEqual(new ServerAnswer(await client.until("Z")).rows, [["7"]]);
  await client.query("BEGIN");
  client.send(
    parse("", "SELECT generate_series(1, 3)"),
    bind("", ""),
    message("E", "\0", Buffer.from([0, 0, 0, 1])),
    SYNC,
  );
  assert.deepEqual(new ServerAnswer(await client.until("Z")).rows, [["1"]]);
  client.send(execute(""), SYNC);
  assert.deepEqual(new ServerAnswer(await client.until("Z")).rows, [["2"], ["3"]]);
  await client.query("COMMIT");
  client.end();
});

it("a simple Query leaves no unnamed statement, also one that fails, and one in front of a pipeline", async () => {
  const client = await wire.open();
  const describeUnnamed = message("D", "S\0");
  const codes = (frames: readonly { type: string; bytes: Buffer }[]): string[] =>
    frames.map(({ type, bytes }) => (type === "E" ? reportField(bytes, 0, bytes.length, "C") : type));
  for (const text of ["SELECT 1", "SELECT 1/0", "SELECT 1/(1 - g) FROM generate_series(1, 2) g"]) {
    await client.query(text);
    client.send(describeUnnamed, SYNC);
    assert.deepEqual(codes(await client.until("Z")), ["26000", "Z"], text);
    // The server skips the second Parse, which would replace an unnamed statement.
    client.send(query(text), parse("named", "SELEC"), parse("", "SELECT 2"), SYNC, describeUnnamed, SYNC);
    await client.until("Z");
    assert.deepEqual(codes(await client.until("Z")), ["42601", "Z"], text);
    assert.deepEqual(codes(await client.until("Z")), ["26000", "Z"], text);
    client.send(query(text), bind("", ""), SYNC);
    await client.until("Z");
    assert.deepEqual(codes(await client.until("Z")), ["26000", "Z"], text);
  }
  client.end();
});

it("a block of code that drops all prepared statements costs no answer", async () => {
  const client = await wire.open();
  await client.query("SELECT 1");
  const named = "SELECT count(*) FROM pg_prepared_statements WHERE name ~ '^highwater_[0-9a-f]{48}'";
  assert.deepEqual((await client.query(named)).rows, [["1"]]);
  await client.query("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$");
  assert.deepEqual((await client.query("SELECT 1")).rows, [["1"]]);
  client.end();
});

it("a text with BEGIN ATOMIC … END passes unchanged", async () => {
  const client = await wire.open();
  assert.deepEqual(
    (await client.query("CREATE FUNCTION atomic() RETURNS int BEGIN ATOMIC SELECT 1; END")).tags,
    ["CREATE FUNCTION"],
  );
  assert.deepEqual((await client.query("SELECT atomic()")).rows, [["1"]]);
  client.end();
});

it("errors keep their fields, also those of a read that is sent in another form", async () => {
  const direct = await wire.direct();
  const client = await wire.open();
  for (const text of ["SELECT  nope FROM kv", "SELECT 1/0", "SELEC", "SELECT $1"]) {
    const [ours, theirs] = [await client.query(text), await direct.query(text)];
    const error = (answer: ServerAnswer): string | undefined =>
      answer.frames.find(({ type }) => type === "E")?.bytes.toString();
    assert.equal(error(ours), error(theirs), text);
  }
  client.end();
  direct.end();
});

it("a failed block, a pipeline behind an error and VACUUM end as in PostgreSQL", async () => {
  const direct = await wire.direct();
  const client = await wire.open();
  const step = (text: string): Buffer[] => [parse("", text), bind("", ""), describePortal(""), execute("")];
  const runs: Buffer[][] = [
    [query("BEGIN"), query("SELECT nope"), query("COMMIT")],
    [query("BEGIN"), query("SELECT nope"), ...step("COMMIT"), SYNC],
    [...step("SELECT 1"), ...step("SELECT 1/0"), ...step("SELECT 2"), SYNC, ...step("SELECT 3"), SYNC],
    [query("VACUUM kv"), query("SELECT 1; SELECT 2"), query("")],
    [query("BEGIN; VACUUM kv"), query("ROLLBACK")],
    [...step("BEGIN"), SYNC, ...step("SELECT 1"), SYNC, SYNC, ...step("COMMIT"), SYNC],
    [...step("DEALLOCATE ALL"), ...step("SELECT 1/0"), SYNC, ...step("SELECT 3"), SYNC],
    [query("LISTEN c"), query("NOTIFY c"), query("UNLISTEN c")],
  ];
  for (const [at, messages] of runs.entries()) {
    const ends = messages.filter((bytes) => bytes[0] === 0x51 || bytes[0] === 0x53).length;
    const types = async (one: WireClient): Promise<string> => {
      one.send(...messages);
      let found = "";
      for (let end = 0; end < ends; end++) {
        const answer = new ServerAnswer(await one.until("Z"));
        found += answer.types.replaceAll(/[SN]/g, "") + answer.status;
      }
      return found;
    };
    assert.equal(await types(client), await types(direct), `run ${String(at)}`);
  }
  client.end();
  direct.end();
});

it("bytes that are no protocol end their own connection and nothing else", async () => {
  const other = await wire.open();
  for (const bytes of [
    Buffer.from([0, 0, 0, 3]),
    Buffer.from("GET / HTTP/1.1\r\n\r\n"),
    writeStartup(0x0002_0000, new Map([["user", "app"]])),
    Buffer.concat([Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]), Buffer.from("x")]),
  ]) {
    const client = await WireClient.dial(wire.url);
    client.send(bytes);
    await new Promise((resolve) => setTimeout(resolve, 100));
    client.socket.end();
    await client.closed();
  }
  assert.deepEqual((await other.query("SELECT 1")).rows, [["1"]]);
  other.end();
});

it("a large result and a large parameter pass without being held whole", async () => {
  const client = await wire.open();
  const { rows } = await client.query("SELECT repeat('x', 5000000)");
  assert.equal(rows[0]?.[0]?.length, 5_000_000);
  const many = await client.query("SELECT generate_series(1, 100000)");
  assert.equal(many.rows.length, 100_000);
  const text = `SELECT length('${"y".repeat(3_000_000)}')`;
  assert.deepEqual((await client.query(text)).rows, [["3000000"]]);
  client.end();
});

it("the gateway's check behind a read is read whole, also when it comes in two pieces", async () => {
  const before = await wire.open();
  for (const text of [
    "CREATE TABLE napped (key text)",
    "CREATE FUNCTION nap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.03); RETURN NULL; END $$",
    `CREATE CONSTRAINT TRIGGER nap AFTER INSERT ON napped DEFERRABLE INITIALLY DEFERRED
     FOR EACH ROW EXECUTE FUNCTION nap()`,
    `CREATE FUNCTION f_long(size int) RETURNS text LANGUAGE plpgsql AS $$
     BEGIN INSERT INTO napped VALUES ('x'); RETURN repeat('x', size); END $$`,
  ])
    assert.equal((await before.query(text)).error, "");
  before.end();
  const client = await wire.open();
  // The server sends each full buffer of 8,192 bytes at once, and the rest after its COMMIT.
  for (let size = 8_192 - 150; size < 8_192 - 50; size++) {
    const answer = await client.query(`SELECT f_long(${String(size)})`);
    assert.deepEqual(answer.tags, ["SELECT 1"], String(size));
  }
  client.end();
});

it("a Query in a batch without a Sync is part of its transaction, which ends as in PostgreSQL", async () => {
  const direct = await wire.direct();
  const insert = [parse("", "INSERT INTO kv VALUES ('unsynced', 1)"), bind("", ""), execute("")];
  const ways: readonly (readonly string[])[] = [
    ["SET application_name = 'x'", "ROLLBACK"],
    ["SET application_name = 'x'", "SELECT 1", "ROLLBACK"],
    ["SET application_name = 'x'", "SELECT 1/0", "ROLLBACK"],
    ["SET application_name = 'x'", "INSERT INTO kv VALUES ('unsynced', 2)", "ROLLBACK"],
    ["BEGIN", "SET LOCAL application_name = 'x'", "SELECT 1", "ROLLBACK"],
    ["SET application_name = 'x'", "COMMIT"],
  ];
  for (const ack of ["durable", "commit"]) {
    const client = await wire.open({ parameters: { options: `-c highwater.ack=${ack}` } });
    for (const texts of ways) {
      const endOf = async (session: WireClient): Promise<string> => {
        await session.query("SELECT 1");
        session.send(...insert);
        const ends: string[] = [];
        for (const text of texts) {
          const { types, status } = await session.query(text);
          ends.push(types.replaceAll("S", "") + status);
        }
        const { rows } = await session.query("SELECT count(*) FROM kv WHERE key = 'unsynced'");
        await session.query("DELETE FROM kv WHERE key = 'unsynced'");
        return `${ends.join(" ")}, ${rows[0]?.[0] ?? ""} rows`;
      };
      assert.equal(await endOf(client), await endOf(direct), `${texts.join("; ")}, ${ack}`);
    }
    client.end();
  }
  direct.end();
});

it("SET TRANSACTION in a pipeline of batches stands in front of the snapshot", async () => {
  const client = await wire.open();
  await client.query("SELECT 1");
  const texts = [
    "BEGIN ISOLATION LEVEL REPEATABLE READ",
    "SET TRANSACTION READ ONLY",
    "SAVEPOINT s",
    "RELEASE s",
    "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "SHOW transaction_isolation",
    "COMMIT",
  ];
  client.send(...texts.flatMap((text) => [parse("", text), bind("", ""), execute(""), SYNC]));
  for (const text of texts) {
    const answer = new ServerAnswer(await client.until("Z"));
    assert.equal(answer.error, "", text);
    if (text.startsWith("SHOW")) assert.deepEqual(answer.rows, [["serializable"]]);
  }
  client.end();
});

it("why the server ends a session that has only just logged in reaches the client", async () => {
  const { cluster } = wire.system;
  const find = async (where: string): Promise<number[]> => {
    const rows = await cluster.query(HOME, `SELECT pid FROM pg_stat_activity WHERE ${where}`);
    return rows.map((row) => Number(row["pid"]));
  };
  // The gateway checks that the node is still in its epoch before it hands the session over.
  const [logEnd = 0] = await find(`application_name = 'highwater:${HOME}:log-end'`);
  process.kill(logEnd, "SIGSTOP");
  const opening = wire.open({ parameters: { application_name: "ended early" } });
  try {
    const [pid = 0] = await eventually("it has logged in", async () => {
      const found = await find("application_name = 'ended early' AND wait_event = 'ClientRead'");
      return found.length > 0 ? found : undefined;
    });
    await cluster.query(HOME, `SELECT pg_terminate_backend(${String(pid)}, 10000)`);
  } finally {
    process.kill(logEnd, "SIGCONT");
  }
  const client = await opening;
  await client.closed();
  const codes = client.untaken.map(({ type, bytes }) => type + reportField(bytes, 0, bytes.length, "C"));
  assert.deepEqual(codes, ["E57P01"]);
});

const COPY_STEPS = [parse("", "COPY kv FROM STDIN"), bind("", ""), execute("")];
const PAUSE = Buffer.alloc(0);

function copyLine(key: string, value = "1"): Buffer {
  return message("d", `${key}\t${value}\n`);
}

/** Waits at each PAUSE until the server reads COPY data. Then ends what is open, and asks for a mark. */
async function typesOf(session: WireClient, sent: readonly Buffer[]): Promise<string> {
  await session.query("SELECT 1");
  let frames = "";
  const take = ({ type }: { type: string }): void => {
    // The gateway reports its tokens.
    if (type !== "S") frames += type;
  };
  for (const bytes of sent)
    if (bytes === PAUSE) for (const frame of await session.until("G")) take(frame);
    else session.send(bytes);
  session.send(query("SELECT 'end'"));
  for (let isEnd = false; !isEnd || session.untaken.length > 0 || !frames.endsWith("Z");) {
    const frame = await session.next();
    take(frame);
    isEnd ||= frame.type === "D" && frame.bytes.includes("end");
  }
  await session.query("DELETE FROM kv WHERE key LIKE 'copied %'");
  return frames;
}

async function assertSameTypes(ways: Readonly<Record<string, readonly Buffer[]>>): Promise<void> {
  const direct = await wire.direct();
  for (const ack of ["durable", "commit"]) {
    const client = await wire.open({ parameters: { options: `-c highwater.ack=${ack}` } });
    for (const [name, sent] of Object.entries(ways))
      assert.equal(await typesOf(client, sent), await typesOf(direct, sent), `${name}, ${ack}`);
    client.end();
  }
  direct.end();
}

it("a Sync behind data that makes a COPY fail is answered, and one that the COPY has read is not", async () => {
  const bad = copyLine("bad", "not a number");
  await assertSameTypes({
    "all at once": [...COPY_STEPS, bad, SYNC, query("SELECT 2")],
    "data behind the first answer": [...COPY_STEPS, PAUSE, bad, SYNC, query("SELECT 2")],
    "a Sync in front of the data": [...COPY_STEPS, SYNC, PAUSE, bad, message("c"), SYNC, query("SELECT 2")],
    "a Sync among the data": [
      ...[...COPY_STEPS, copyLine("copied 1"), SYNC, copyLine("copied 2"), message("c"), SYNC],
    ],
    "the same in a simple Query": [query("COPY kv FROM STDIN"), PAUSE, bad, SYNC, query("SELECT 2")],
    "two of them": [...COPY_STEPS, bad, SYNC, ...COPY_STEPS, bad, SYNC, query("SELECT 2")],
  });
});

it("a Sync among COPY data is answered as by PostgreSQL, wherever the COPY fails", async () => {
  const good = copyLine("copied 1");
  const bad = copyLine("bad", "not a number");
  const [done, fail] = [message("c"), message("f", "no\0")];
  const next = [parse("", "SELECT 3"), bind("", ""), execute(""), SYNC];
  /** What makes the COPY fail at its end, among its data, and not at all. */
  const data: Readonly<Record<string, readonly Buffer[]>> = {
    CopyFail: [good, SYNC, fail],
    "CopyFail behind two": [good, SYNC, good, SYNC, fail],
    "a row that does not end": [good, SYNC, message("d", "one column"), done],
    "a row between two": [good, SYNC, bad, SYNC, SYNC, good, done],
    "a row in front of both": [bad, SYNC, good, SYNC, done],
    nothing: [good, SYNC, copyLine("copied 2"), SYNC, FLUSH, done],
  };
  const behind: Readonly<Record<string, readonly Buffer[]>> = {
    "a Sync": [SYNC, query("SELECT 2")],
    "a statement": [...next, query("SELECT 2"), ...next],
    "a Query": [query("SELECT 2"), SYNC, ...next],
    "more data": [good, SYNC, SYNC, query("SELECT 2")],
  };
  const ways: Record<string, readonly Buffer[]> = {};
  for (const [what, sent] of Object.entries(data))
    for (const [where, more] of Object.entries(behind)) {
      // PostgreSQL's own answer to what follows the next Sync would be an internal error.
      if (what === "nothing" && where === "a Query") continue;
      for (const pause of [[PAUSE], []]) {
        const name = `${what}, then ${where}, ${pause.length === 0 ? "at once" : "with a pause"}`;
        ways[name] = [...COPY_STEPS, ...pause, ...sent, ...more, SYNC];
        ways[`${name}, in a Query`] = [query("COPY kv FROM STDIN"), ...pause, ...sent, ...more, SYNC];
      }
    }
  await assertSameTypes(ways);
});

it("the second COPY of a Query reads its own data, and a Sync among it is not answered", async () => {
  const first = [copyLine("copied 1"), message("c")];
  const second = [copyLine("copied 2"), SYNC, copyLine("copied 3"), message("c")];
  const bad = [copyLine("copied 2"), copyLine("bad", "not a number"), SYNC, message("c")];
  const both = query("COPY kv FROM STDIN; COPY kv FROM STDIN");
  await assertSameTypes({
    "data behind each answer": [both, PAUSE, ...first, PAUSE, ...second],
    "all at once": [both, ...first, ...second],
    "data behind the second answer that makes it fail": [both, PAUSE, ...first, PAUSE, ...bad],
    "another COPY in front": [query("COPY kv TO STDOUT; COPY kv FROM STDIN"), PAUSE, ...second],
  });
});

it("a statement behind a COPY that has ignored an early Sync is answered with the COPY", async () => {
  const early = [...COPY_STEPS, SYNC];
  const data = [copyLine("copied 1"), message("c")];
  const more = [copyLine("copied 2"), message("c")];
  const bad = [copyLine("bad", "not a number"), message("c")];
  const statement = [parse("", "INSERT INTO kv VALUES ('copied 2', 2)"), bind("", ""), execute(""), SYNC];
  // The server has read no Sync since the COPY began, so the Query does not commit.
  const select = [query("SELECT 2"), query("COMMIT")];
  await assertSameTypes({
    "a Query": [...early, PAUSE, ...data, ...select],
    "all at once": [...early, ...data, ...select],
    "a Flush": [...COPY_STEPS, FLUSH, SYNC, ...data, FLUSH, ...select],
    "a Flush among the data": [...early, PAUSE, copyLine("copied 3"), FLUSH, ...data, ...select],
    "an extended statement": [...early, PAUSE, ...data, ...statement],
    "an extended statement, all at once": [...early, ...data, ...statement],
    "two of them": [...early, ...data, ...early, ...more, ...select],
    "data that makes the COPY fail": [...early, PAUSE, ...bad, ...select, SYNC],
    "a block": [query("BEGIN"), ...early, PAUSE, ...data, query("COMMIT")],
  });
});

it("a statement behind a COPY that waits for its data is refused as by PostgreSQL", async () => {
  const ways: Readonly<Record<string, readonly Buffer[]>> = {
    "a Query": [query("COPY kv FROM STDIN"), query("SELECT 2")],
    "a Query behind data": [query("COPY kv FROM STDIN"), message("d", "unsent\t1\n"), query("SELECT 2")],
    "an extended statement": [query("COPY kv FROM STDIN"), parse("", "SELECT 2"), SYNC],
    "a Query behind an extended COPY": [...COPY_STEPS, SYNC, query("SELECT 2")],
  };
  for (const [name, sent] of Object.entries(ways)) {
    const refused = async (client: WireClient): Promise<string> => {
      client.send(...sent);
      await client.closed();
      const codes = client.untaken.map(({ type, bytes }) => type + reportField(bytes, 0, bytes.length, "C"));
      return codes.join(" ");
    };
    const expected = await refused(await wire.direct());
    assert.match(expected, /E08P01/, name);
    for (const ack of ["durable", "commit"]) {
      const client = await wire.open({ parameters: { options: `-c highwater.ack=${ack}` } });
      assert.equal(await refused(client), expected, `${name}, ${ack}`);
    }
  }
});

/** Characters whose second byte is an ASCII character in this encoding. */
const TRICKS: Readonly<Record<string, readonly string[]>> = {
  SJIS: ["835c", "837d", "8341"],
  BIG5: ["a55c", "a57d", "a441"],
  GBK: ["815c", "817d", "8141"],
  UHC: ["8141", "817a"],
  JOHAB: ["8861", "d93b"],
  GB18030: ["81308130", "815c"],
};

it("no client encoding hides a statement, or breaks what the gateway says", async () => {
  const direct = await wire.direct();
  const client = await wire.open();
  await client.query("SET highwater.ack = 'commit'");
  const message = (type: string, body: Buffer): Buffer => {
    const head = Buffer.alloc(5);
    head.write(type, "latin1");
    head.writeInt32BE(body.length + 5, 1);
    return Buffer.concat([head, body, Buffer.alloc(1)]);
  };
  for (const [encoding, letters] of Object.entries(TRICKS))
    for (const one of letters.map((hex) => Buffer.from(hex, "hex"))) {
      const texts = [
        ["SELECT '", one, "'"],
        ["SELECT '", one, "'; COMMIT; --'"],
        ["SELECT E'", one, "\\'; ROLLBACK --'"],
        ['SELECT 1 AS "', one, '" FOR UPDATE'],
        [one, "COMMIT"],
        ["/*", one, "*/ COMMIT"],
        ["INSERT INTO kv VALUES ('", one, "' || gen_random_uuid(), 1)"],
        ["SET application_name = '", one, "'"],
      ].map((parts) => Buffer.concat(parts.map((part) => Buffer.from(part))));
      for (const [at, text] of [[Buffer.from("BEGIN")], texts, [Buffer.from("COMMIT")], texts]
        .flat()
        .entries()) {
        const shown = async (session: WireClient): Promise<string[]> => {
          await session.query(`SET client_encoding = '${encoding}'`);
          session.send(message("Q", text));
          const frames = await session.until("Z");
          const said = frames.filter(({ type }) => type !== "S").map(({ bytes }) => bytes.toString("latin1"));
          await session.query("RESET client_encoding");
          return said;
        };
        const expected = await shown(direct);
        assert.deepEqual(await shown(client), expected, `${encoding} ${one.toString("hex")} ${String(at)}`);
      }
    }
  direct.end();
  client.end();
});
