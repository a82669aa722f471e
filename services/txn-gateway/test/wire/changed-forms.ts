// Forms in which the settings change in the message or the pipeline that commits, and which frames
// of each answer may come while the link to the other region is cut.
import { bind, execute, parse, query, SYNC, type WireClient } from "./client.ts";
import { type Form, INSERT, sending, step } from "./safe-forms.ts";

const atDisk = (client: WireClient): Promise<unknown> => client.query("SET highwater.level = 'disk'");
const AT_DISK = { options: "-c highwater.level=disk" };
const TO_REGION = "SET highwater.level = 'region'";
const BLOCK_AT_DISK = ["BEGIN", "SET LOCAL highwater.level = 'disk'", INSERT, "COMMIT"];
/** More than the gateway reads of a text. */
const LENGTH = 100_000;
const longInsert = (value: string): string =>
  `INSERT INTO kv VALUES (gen_random_uuid()::text || '${value}${"x".repeat(LENGTH)}', 1)`;
const HIDDEN = "SELECT set_config('highwater.level', 'region', false)";
/** Longer than the names that the gateway keeps. */
const LONG_NAME = "n".repeat(80);

/** Prepares statements in the extended protocol. The server refuses a second one of a name. */
const prepared =
  (...statements: readonly (readonly [name: string, text: string])[]) =>
  async (client: WireClient): Promise<void> => {
    for (const [name, text] of statements) {
      client.send(parse(name, text), SYNC);
      await client.until("Z");
    }
    await atDisk(client);
  };
const asked =
  (...texts: readonly string[]) =>
  async (client: WireClient): Promise<void> => {
    for (const text of [...texts, "SET highwater.level = 'disk'"]) await client.query(text);
  };

export const CHANGED: readonly Form[] = [
  {
    name: "a pipeline behind a block at disk",
    send: sending(...[...BLOCK_AT_DISK, INSERT].map(query)),
    early: "CZCZCZCZ",
    late: "CZ",
  },
  {
    name: "a batch behind a block at disk",
    send: sending(...BLOCK_AT_DISK.flatMap((text) => step(text)), ...step(INSERT), SYNC),
    early: "12C12C12C12C12C",
    late: "Z",
  },
  {
    name: "a batch behind a batch at disk",
    send: sending(...BLOCK_AT_DISK.flatMap((text) => step(text)), SYNC, ...step(INSERT), SYNC),
    early: "12C12C12C12CZ12C",
    late: "Z",
  },
  {
    name: "a text behind COMMIT of a block at disk",
    prepare: async (client) => {
      for (const text of BLOCK_AT_DISK.slice(0, -1)) await client.query(text);
    },
    send: sending(query(`COMMIT; ${INSERT}`)),
    early: "C",
    late: "CZ",
  },
  {
    name: "a text that sets the level and writes",
    prepare: atDisk,
    send: sending(query(`${TO_REGION}; ${INSERT}`)),
    early: "C",
    late: "CZ",
  },
  {
    name: "the level in another spelling",
    prepare: atDisk,
    send: sending(query(`SET "HighWater" . level TO region; ${INSERT}`)),
    early: "C",
    late: "CZ",
  },
  {
    name: "a text with a block at region",
    prepare: atDisk,
    send: sending(query(`BEGIN; SET LOCAL highwater.level = 'region'; ${INSERT}; COMMIT`)),
    early: "CCC",
    late: "CZ",
  },
  {
    name: "RESET ALL in front of a write",
    prepare: atDisk,
    send: sending(query(`RESET ALL; ${INSERT}`)),
    early: "C",
    late: "CZ",
  },
  {
    name: "DISCARD ALL in a pipeline",
    prepare: atDisk,
    send: sending(query("DISCARD ALL"), query(INSERT)),
    early: "CZ",
    late: "CZ",
  },
  {
    name: "the level in a batch that writes",
    prepare: atDisk,
    send: sending(...step(TO_REGION), ...step(INSERT), SYNC),
    early: "12C12C",
    late: "Z",
  },
  {
    name: "the level as a parameter of set_config",
    prepare: atDisk,
    send: sending(
      parse("", "SELECT set_config($1, $2, false)"),
      ...[bind("", "", ["highwater.level", "region"]), execute("")],
      ...[...step(INSERT), SYNC],
    ),
    early: "12DC12",
    late: "CZ",
  },
  {
    name: "max_wait of a block, and what follows it",
    send: sending(...["BEGIN", "SET LOCAL highwater.max_wait = 100", "COMMIT", INSERT].map(query)),
    early: "CZCZCZ",
    late: "CZ",
  },
  {
    name: "read_ack in front of a read",
    send: sending(query("SET highwater.read_ack = 'durable'; SELECT key FROM kv WHERE key = 'others'")),
    early: "CT",
    late: "DCZ",
  },
  {
    name: "read_ack in front of an UPDATE in a block",
    prepare: async (client) => {
      await client.query("INSERT INTO kv VALUES ('mine', 1)");
      await client.query("BEGIN");
    },
    send: sending(
      query("SET LOCAL highwater.read_ack = 'durable'; UPDATE kv SET value = 3 WHERE key = 'mine'"),
    ),
    early: "C",
    late: "CZ",
  },
  {
    name: "set_config by EXECUTE in front of a write",
    prepare: async (client) => {
      await atDisk(client);
      await client.query("PREPARE p(text, text) AS SELECT set_config($1, $2, false)");
    },
    send: sending(query(`EXECUTE p('highwater.level', 'region'); ${INSERT}`)),
    early: "TDC",
    late: "CZ",
  },
  {
    name: "set_config in a long text",
    prepare: atDisk,
    send: sending(query(`${HIDDEN} WHERE '${"x".repeat(LENGTH)}' <> ''; ${INSERT}`)),
    early: "TDC",
    late: "CZ",
  },
  {
    name: "the level in a long statement of a batch",
    prepare: atDisk,
    send: sending(
      ...step(`SELECT '${"x".repeat(LENGTH)}' <> '' AND ${HIDDEN.slice(7)} <> ''`),
      ...[...step(INSERT), SYNC],
    ),
    early: "12DC12",
    late: "CZ",
  },
  {
    name: "EXECUTE of what sets the level, in front of a write",
    prepare: asked(`PREPARE p AS ${HIDDEN}`),
    send: sending(query(`EXECUTE p; ${INSERT}`)),
    early: "TDC",
    late: "CZ",
  },
  {
    name: "the same in a pipeline",
    prepare: asked(`PREPARE p AS ${HIDDEN}`),
    send: sending(query("EXECUTE p"), query(INSERT)),
    early: "TD",
    late: "CZCZ",
  },
  {
    name: "the same behind its PREPARE in a text of several statements",
    prepare: asked(`SELECT 1; PREPARE p AS ${HIDDEN}`),
    send: sending(query("EXECUTE p"), query(INSERT)),
    early: "TD",
    late: "CZCZ",
  },
  {
    name: "FETCH of what sets the level, in front of COMMIT",
    prepare: asked("BEGIN", INSERT, `DECLARE c CURSOR FOR ${HIDDEN}`),
    send: sending(query("FETCH c; COMMIT")),
    early: "TDC",
    late: "CZ",
  },
  {
    name: "a Bind of what PREPARE has prepared",
    prepare: asked(`PREPARE p AS ${HIDDEN}`),
    send: sending(bind("", "p"), execute(""), ...step(INSERT), SYNC),
    early: "2DC12",
    late: "CZ",
  },
  {
    name: "EXECUTE of what a Parse has prepared",
    prepare: prepared(["s", HIDDEN]),
    send: sending(query(`EXECUTE s; ${INSERT}`)),
    early: "TDC",
    late: "CZ",
  },
  {
    name: "a statement with a name that is not kept",
    prepare: prepared([LONG_NAME, HIDDEN]),
    send: sending(bind("", LONG_NAME), execute(""), ...step(INSERT), SYNC),
    early: "2DC12",
    late: "CZ",
  },
  {
    name: "a statement whose name was prepared again, which the server has refused",
    prepare: prepared(["s", HIDDEN], ["s", "SELECT 1"]),
    send: sending(bind("", "s"), execute(""), ...step(INSERT), SYNC),
    early: "2DC12",
    late: "CZ",
  },
  // What follows may be answered at once.
  {
    name: "EXECUTE at disk of what sets nothing",
    prepare: asked(`PREPARE p AS ${HIDDEN}`, "PREPARE q AS SELECT 1"),
    send: sending(query("EXECUTE q"), query(INSERT)),
    early: "TDCZCZ",
    late: "",
  },
  {
    name: "a text with EXECUTE at disk, where nothing prepared sets anything",
    prepare: asked("PREPARE q AS SELECT 1"),
    send: sending(query(`EXECUTE q; ${INSERT}`)),
    early: "TDCCZ",
    late: "",
  },
  {
    name: "a long value at disk that looks like a setting",
    prepare: atDisk,
    send: sending(query(longInsert("highwater.level "))),
    early: "CZ",
    late: "",
  },
  {
    name: "the reset of asyncpg's pool, at the level of the session's start",
    prepare: (client) => client.query(INSERT),
    parameters: AT_DISK,
    send: sending(query("SELECT pg_advisory_unlock_all();CLOSE ALL;UNLISTEN *;RESET ALL;")),
    early: "TDCCCCZ",
    late: "",
  },
  {
    name: "the reset of Npgsql, at the level of the session's start",
    prepare: (client) => client.query(INSERT),
    parameters: AT_DISK,
    send: sending(
      query(
        "SET SESSION AUTHORIZATION DEFAULT;RESET ALL;CLOSE ALL;UNLISTEN *;SELECT pg_advisory_unlock_all();DISCARD SEQUENCES;DISCARD TEMP",
      ),
    ),
    early: "CCCCTDCCCZ",
    late: "",
  },
  {
    name: "an id in a batch that reads",
    prepare: (client) => client.query("BEGIN"),
    parameters: AT_DISK,
    send: sending(
      ...step("SET LOCAL highwater.id = '01a2199f-bad1-7d6c-8000-000000000001'"),
      ...step("SELECT 1"),
      SYNC,
    ),
    early: "12C12DCZ",
    late: "",
  },
  {
    name: "DISCARD ALL in a block",
    prepare: (client) => client.query("BEGIN"),
    parameters: AT_DISK,
    send: sending(query("DISCARD ALL")),
    early: "EZ",
    late: "",
  },
  { name: "the level alone", send: sending(query("SET highwater.level = 'disk'")), early: "CZ", late: "" },
  {
    name: "two settings",
    send: sending(query("SET highwater.level = 'disk'; SET highwater.max_wait = 100")),
    early: "CCZ",
    late: "",
  },
  {
    name: "the level at disk, and a write behind it",
    send: sending(query("SET highwater.level = 'disk'"), query(INSERT)),
    early: "CZCZ",
    late: "",
  },
  {
    name: "the level at disk in the batch that writes",
    send: sending(...step("SET highwater.level = 'disk'"), ...step(INSERT), SYNC),
    early: "12C12CZ",
    late: "",
  },
  {
    name: "a long text at disk",
    prepare: atDisk,
    send: sending(query(longInsert(""))),
    early: "CZ",
    late: "",
  },
  {
    name: "a value at disk that looks like a setting",
    prepare: atDisk,
    send: sending(query("INSERT INTO kv VALUES ('; highwater.level ' || gen_random_uuid()::text, 1)")),
    early: "CZ",
    late: "",
  },
  {
    name: "a text at disk that sets something else",
    prepare: atDisk,
    send: sending(query(`SET work_mem = '8MB'; ${INSERT}`)),
    early: "CCZ",
    late: "",
  },
];
