// Goal: the client gets the notices of its own statements, each once and in order, and none of the
// gateway's, which would show the receipt's tag when plans are printed. Method: send the same
// messages to PostgreSQL directly and through the gateway, with every setting that makes notices.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { eventually } from "@highwater/lab-tools/process";
import { reportField } from "../../src/wire/frames/build.ts";
import { bind, describePortal, execute, parse, query, SYNC, type Frame, type WireClient } from "./client.ts";
import { HOME, WireSystem } from "./system.ts";

const VERBOSE = [
  "SET client_min_messages = log",
  "SET debug_print_parse = on",
  "SET debug_print_rewritten = on",
  "SET debug_print_plan = on",
  "SET log_parameter_max_length_on_error = -1",
];

let wire: WireSystem;
before(async () => {
  wire = await WireSystem.start();
  const { cluster } = wire.system;
  for (const text of [
    // After its answer, the server reports how long each extended message took.
    "ALTER ROLE app SET log_min_duration_statement = 0",
    `CREATE FUNCTION say() RETURNS trigger LANGUAGE plpgsql AS $$
     BEGIN RAISE NOTICE 'trigger %', TG_ARGV[0]; RETURN NULL; END $$`,
    "CREATE TABLE said (key text)",
    "GRANT ALL ON said TO app",
    "CREATE TRIGGER at_once AFTER INSERT ON said FOR EACH ROW EXECUTE FUNCTION say('at once')",
    `CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON said DEFERRABLE INITIALLY DEFERRED
     FOR EACH ROW EXECUTE FUNCTION say('at commit')`,
    `CREATE FUNCTION f_say() RETURNS int LANGUAGE plpgsql AS $$
     BEGIN RAISE NOTICE 'read'; INSERT INTO said VALUES ('by a read'); RETURN 1; END $$`,
  ])
    await cluster.query(HOME, text);
  // A new schema invalidates the plans of functions, and the next call would print new ones.
  await eventually("the trackers have made their schemas", async () => {
    const [row] = await cluster.query(
      HOME,
      "SELECT to_regclass('highwater_jobs.job') IS NOT NULL AS is_made",
    );
    return row?.["is_made"] === true;
  });
});
after(async () => {
  await wire[Symbol.asyncDispose]();
});

const step = (text: string): Buffer[] => [parse("", text), bind("", ""), describePortal(""), execute("")];
const SAY = "INSERT INTO said VALUES ('x')";

/** The messages of one write, and how many ReadyForQuery answer them. */
const SENT: Readonly<Record<string, readonly Buffer[]>> = {
  "simple, alone": [query(SAY)],
  "a read that writes": [query("SELECT f_say()")],
  "simple, in a block": [query("BEGIN"), query(SAY), query("COMMIT")],
  "several in one text": [query(`${SAY}; ${SAY}; SELECT f_say()`)],
  "extended, alone": [...step(SAY), SYNC],
  "an extended read": [...step("SELECT f_say()"), SYNC],
  "extended, in a block": [...step("BEGIN"), SYNC, ...step(SAY), SYNC, ...step("COMMIT"), SYNC],
  "a pipeline": [...step("BEGIN"), ...step(SAY), ...step("SELECT f_say()"), ...step("COMMIT"), SYNC],
  "a pipeline of several": [
    ...step(SAY),
    SYNC,
    ...step("SELECT f_say()"),
    SYNC,
    query(SAY),
    ...step(SAY),
    SYNC,
  ],
};

/** Frame types, and the text of each notice without times. */
function shown(frames: readonly Frame[], hasDurations: boolean): string[] {
  return frames
    .filter(({ type }) => type !== "S")
    .map(({ type, bytes }) => {
      if (type !== "N") return type;
      const field = (name: string): string => reportField(bytes, 0, bytes.length, name);
      const text = field("M").replace(/^duration: \S+ ms/, "duration");
      return `${field("S")} ${text} ${field("D")}`;
    })
    .filter((text) => hasDurations || !text.startsWith("LOG duration"));
}

async function answers(client: WireClient, sent: readonly Buffer[]): Promise<Frame[]> {
  client.send(...sent);
  const frames: Frame[] = [];
  const ends = sent.filter((bytes) => bytes === SYNC || bytes[0] === "Q".charCodeAt(0)).length;
  for (let count = 0; count < ends; count++) frames.push(...(await client.until("Z")));
  return frames;
}

for (const ack of ["durable", "commit"]) {
  it(`the client of a session with ack = ${ack} gets its own notices, in their places, and no others`, async () => {
    const direct = await wire.direct();
    const client = await wire.open();
    for (const text of VERBOSE) await direct.query(text);
    for (const text of [`SET highwater.ack = '${ack}'`, ...VERBOSE]) await client.query(text);
    for (const [name, sent] of Object.entries(SENT)) {
      // The gateway may send a simple Query as several messages, each with a time of its own.
      const isExtended = sent.every((bytes) => bytes[0] !== "Q".charCodeAt(0));
      const expected = shown(await answers(direct, sent), isExtended);
      assert.deepEqual(shown(await answers(client, sent), isExtended), expected, name);
      assert.ok(expected.includes("NOTICE trigger at commit "), name);
    }
    direct.end();
    client.end();
  });
}

it("of any number and size, and notifications, come with the answer that they are in", async () => {
  const notify = Array.from({ length: 20 }, (_, n) => `NOTIFY many, '${String(n)}${"x".repeat(7_900)}'`);
  const raise = (times: number, size: number): string =>
    `DO $$BEGIN FOR i IN 1..${String(times)} LOOP RAISE NOTICE '%', repeat('x', ${String(size)}); END LOOP; END$$`;
  const texts: Readonly<Record<string, string>> = {
    "notifications behind the last statement": notify.join("; "),
    "many notices behind a statement": `${SAY}; ${raise(300, 900)}`,
    "a large notice behind a statement": `${SAY}; ${raise(1, 200_000)}`,
    "notices between two statements": `${SAY}; ${raise(300, 900)}; ${SAY}`,
  };
  const shown = async (session: WireClient, text: string): Promise<string> => {
    await session.query("LISTEN many");
    const { frames } = await session.query(text);
    return frames
      .map(({ type }) => type)
      .filter((type) => "CNAZ".includes(type))
      .join("");
  };
  for (const [name, text] of Object.entries(texts)) {
    const direct = await wire.direct();
    const expected = await shown(direct, text);
    direct.end();
    assert.match(expected, /N|A{20}Z/, name);
    for (const ack of ["durable", "commit"]) {
      const client = await wire.open({ parameters: { options: `-c highwater.ack=${ack}` } });
      assert.equal(await shown(client, text), expected, `${name}, ${ack}`);
      assert.deepEqual((await client.query("SELECT 1")).rows, [["1"]]);
      client.end();
    }
  }
});
