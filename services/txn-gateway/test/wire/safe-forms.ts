// The forms in which a client commits, or learns of a commit, and which frames of each answer may
// come before the commit is durable. They use what safe.test.ts creates.
import assert from "node:assert/strict";
import { bind, execute, FLUSH, message, parse, query, SYNC, type WireClient } from "./client.ts";

const NEW = "gen_random_uuid()::text, 1";
export const INSERT = `INSERT INTO kv VALUES (${NEW})`;
const MERGE = `MERGE INTO kv USING (SELECT ${NEW}) n(k, v) ON key = k
  WHEN NOT MATCHED THEN INSERT VALUES (k, v) RETURNING key`;
export const step = (text: string, name = ""): Buffer[] => [parse(name, text), bind("", name), execute("")];

const LOCKING = "SELECT * FROM kv WHERE key = 'shared' FOR SHARE";
const executeOne = (portal: string): Buffer => message("E", `${portal}\0`, Buffer.from([0, 0, 0, 1]));

export interface Form {
  readonly name: string;
  /** The first version of PostgreSQL that has it. */
  readonly since?: number;
  /** Of the connection. */
  readonly parameters?: Readonly<Record<string, string>>;
  /** Runs before the link is cut. */
  readonly prepare?: (client: WireClient) => Promise<unknown>;
  readonly send: (client: WireClient) => void;
  /** The types of the frames that arrive while the link is cut. */
  readonly early: string;
  /** The types of the frames that arrive after it is healed. */
  readonly late: string;
  /** These two before PostgreSQL 18, where a Query commits what a batch without Sync has written. */
  readonly before18?: Pick<Form, "early" | "late">;
}

const inBlock = async (client: WireClient): Promise<void> => {
  await client.query("BEGIN");
  await client.query(INSERT);
};
const preparedInBlock =
  (text: string) =>
  async (client: WireClient): Promise<void> => {
    await client.query("BEGIN");
    assert.equal((await client.query(text)).error, "");
  };
export const sending =
  (...messages: readonly Buffer[]) =>
  (client: WireClient): void => {
    client.send(...messages);
  };
let insertOid = 0;
const findInsert = async (client: WireClient): Promise<void> => {
  insertOid = Number((await client.query("SELECT 'f_insert'::regproc::oid")).rows[0]?.[0]);
};
const callInsert = (client: WireClient): void => {
  const body = Buffer.alloc(10);
  body.writeUInt32BE(insertOid);
  client.send(message("F", body));
};

export const HELD: readonly Form[] = [
  { name: "autocommit", send: sending(query(INSERT)), early: "", late: "CZ" },
  { name: "COMMIT", prepare: inBlock, send: sending(query("COMMIT")), early: "", late: "CZ" },
  {
    name: "END with a comment",
    prepare: inBlock,
    send: sending(query("/* a /* b */ */ end;")),
    early: "",
    late: "CZ",
  },
  {
    name: "COMMIT AND CHAIN",
    prepare: inBlock,
    send: sending(query("COMMIT AND CHAIN")),
    early: "",
    late: "CZ",
  },
  {
    name: "COMMIT AND CHAIN by name, with Flush and no Sync",
    prepare: async (client) => {
      client.send(parse("c", "COMMIT AND CHAIN"), SYNC);
      await client.until("Z");
      await inBlock(client);
    },
    send: sending(bind("", "c"), execute(""), FLUSH),
    early: "2",
    late: "C",
  },
  {
    name: "Execute COMMIT with Flush and no Sync",
    prepare: inBlock,
    send: sending(...step("COMMIT"), FLUSH),
    early: "12",
    late: "C",
  },
  {
    name: "INSERT; COMMIT; BEGIN",
    send: sending(query(`${INSERT}; COMMIT; BEGIN`)),
    early: "C",
    late: "CCZ",
  },
  {
    name: "BEGIN; INSERT; COMMIT",
    send: sending(query(`BEGIN; ${INSERT}; COMMIT`)),
    early: "CC",
    late: "CZ",
  },
  {
    name: "two statements of one text",
    send: sending(query(`${INSERT}; ${INSERT}`)),
    early: "C",
    late: "CZ",
  },
  {
    name: "SHOW behind INSERT in one text",
    send: sending(query(`${INSERT}; SHOW datestyle`)),
    early: "CTD",
    late: "CZ",
  },
  { name: "extended autocommit", send: sending(...step(INSERT), SYNC), early: "12C", late: "Z" },
  {
    name: "two transactions in a pipeline",
    send: sending(...step(INSERT), SYNC, ...step(INSERT), SYNC),
    early: "12C",
    late: "Z12CZ",
  },
  {
    name: "a Sync behind a Query of the same batch",
    send: sending(...step(INSERT), query("SHOW datestyle"), SYNC),
    early: "12CTDCZ",
    late: "Z",
    before18: { early: "12CTD", late: "CZZ" },
  },
  {
    name: "COMMIT behind a Query of a batch without Sync",
    send: sending(...step(INSERT), query("SHOW datestyle"), query("COMMIT")),
    early: "12CTDCZ",
    late: "CZ",
    before18: { early: "12CTD", late: "CZCZ" },
  },
  {
    name: "INSERT … RETURNING up to a limit of rows",
    send: sending(parse("", `${INSERT} RETURNING key`), bind("", ""), executeOne(""), SYNC),
    early: "12Ds",
    late: "Z",
  },
  {
    name: "a SELECT that writes up to a limit of rows, in front of a COPY",
    send: sending(
      ...[parse("", "SELECT f_insert()"), bind("", ""), executeOne("")],
      ...[...step("COPY (SELECT 1) TO STDOUT"), SYNC],
    ),
    early: "12Ds12HdcC",
    late: "Z",
  },
  {
    name: "MERGE … RETURNING up to a limit of rows",
    since: 17,
    send: sending(parse("", MERGE), bind("", ""), executeOne(""), SYNC),
    early: "12Ds",
    late: "Z",
  },
  {
    name: "CALL of a procedure that commits, up to a limit of rows, without Sync",
    send: sending(parse("", "CALL p_commits(1)"), bind("", ""), executeOne(""), FLUSH),
    early: "12D",
    late: "s",
  },
  {
    name: "the session's own notification",
    prepare: (client) => client.query("LISTEN own"),
    send: sending(query("SELECT f_notifies()")),
    early: "TD",
    late: "ACZ",
  },
  { name: "FunctionCall", prepare: findInsert, send: callInsert, early: "V", late: "Z" },
  { name: "SELECT f_insert()", send: sending(query("SELECT f_insert()")), early: "TD", late: "CZ" },
  {
    name: "extended SELECT f_insert()",
    send: sending(...step("SELECT f_insert()"), SYNC),
    early: "12DC",
    late: "Z",
  },
  {
    name: "WITH … INSERT",
    send: sending(query(`WITH w AS (${INSERT} RETURNING key) SELECT count(*) FROM w`)),
    early: "TD",
    late: "CZ",
  },
  {
    name: "EXPLAIN ANALYZE",
    send: sending(query(`EXPLAIN (ANALYZE, FORMAT JSON) ${INSERT}`)),
    early: "TD",
    late: "CZ",
  },
  {
    name: "a procedure that commits and fails",
    send: sending(query("CALL p_fails()")),
    early: "E",
    late: "Z",
  },
  { name: "a DO block", send: sending(query("DO 'BEGIN PERFORM f_insert(); END'")), early: "", late: "CZ" },
  {
    name: "a cursor WITH HOLD that writes when its transaction commits",
    prepare: async (client) => {
      await client.query("BEGIN");
      await client.query("DECLARE c CURSOR WITH HOLD FOR SELECT f_insert()");
    },
    send: sending(query("COMMIT")),
    early: "",
    late: "CZ",
  },
  {
    name: "PREPARE TRANSACTION",
    prepare: inBlock,
    send: sending(query("PREPARE TRANSACTION 'held'")),
    early: "",
    late: "CZ",
  },
  { name: "CREATE TABLE", send: sending(query("CREATE TABLE made (x int)")), early: "", late: "CZ" },
  {
    name: "COPY",
    prepare: async (client) => {
      client.send(query("COPY kv FROM STDIN"));
      await client.until("G");
    },
    send: sending(message("d", `copied\t1\n`), message("c")),
    early: "",
    late: "CZ",
  },
  {
    name: "extended COPY, whose first Sync the server ignores",
    prepare: async (client) => {
      client.send(...step("COPY kv FROM STDIN"), SYNC);
      await client.until("G");
    },
    send: sending(message("d", `copied too\t1\n`), message("c"), SYNC),
    early: "C",
    late: "Z",
  },
  // Answers that reveal commits of others that are not durable yet.
  {
    name: "a duplicate key",
    send: sending(query("INSERT INTO kv VALUES ('others', 1)")),
    early: "",
    late: "EZ",
  },
  {
    name: "a duplicate key in a block",
    prepare: (client) => client.query("BEGIN"),
    send: sending(...step("INSERT INTO kv VALUES ('others', 1)"), SYNC),
    early: "12",
    late: "EZ",
  },
  {
    name: "an UPDATE in a block that finds nothing",
    prepare: (client) => client.query("BEGIN"),
    send: sending(query("UPDATE kv SET value = 2 WHERE key = 'nothing'")),
    early: "",
    late: "CZ",
  },
  {
    name: "rows that are locked",
    prepare: (client) => client.query("BEGIN"),
    send: sending(query("SELECT * FROM kv WHERE key = 'seen' FOR UPDATE")),
    early: "T",
    late: "DCZ",
  },
  {
    name: "rows that are locked, with comments between the words",
    prepare: (client) => client.query("BEGIN"),
    send: sending(query("SELECT * FROM kv WHERE key = 'others' FOR/* no */--\n KEY/**/SHARE")),
    early: "T",
    late: "DCZ",
  },
  {
    name: "rows that are locked, in a text of several statements",
    send: sending(query("BEGIN; SELECT * FROM kv WHERE key = 'shared' FOR SHARE")),
    early: "CT",
    late: "DCZ",
  },
  {
    name: "rows that COPY locks",
    prepare: (client) => client.query("BEGIN"),
    send: sending(query("COPY (SELECT * FROM kv WHERE key = 'shared' FOR SHARE) TO STDOUT")),
    early: "H",
    late: "dcCZ",
  },
  {
    name: "rows that are locked, up to a limit, with Flush and no Sync",
    prepare: (client) => client.query("BEGIN"),
    send: sending(parse("", LOCKING), bind("", ""), executeOne(""), FLUSH),
    early: "12",
    late: "Ds",
  },
  {
    name: "rows that EXECUTE locks",
    prepare: preparedInBlock(`PREPARE l AS ${LOCKING}`),
    send: sending(query("EXECUTE l")),
    early: "T",
    late: "DCZ",
  },
  {
    name: "rows that an extended EXECUTE locks",
    prepare: preparedInBlock(`PREPARE l (text) AS SELECT * FROM kv WHERE key = $1 FOR SHARE`),
    send: sending(...step("EXECUTE l ('shared')"), SYNC),
    early: "12",
    late: "DCZ",
  },
  {
    name: "an EXECUTE that finds nothing to lock",
    prepare: preparedInBlock(`PREPARE l AS SELECT * FROM kv WHERE key = 'nothing' FOR SHARE`),
    send: sending(query("EXECUTE l")),
    early: "T",
    late: "CZ",
  },
  {
    name: "rows that EXECUTE locks, of a statement that was prepared out of sight",
    prepare: preparedInBlock(`DO $$ BEGIN EXECUTE 'PREPARE l AS ${LOCKING.replaceAll("'", "''")}'; END $$`),
    send: sending(query("EXECUTE l")),
    early: "T",
    late: "DCZ",
  },
  {
    name: "rows that EXECUTE locks, of a statement that could not be replaced",
    prepare: async (client) => {
      await client.query(`PREPARE l AS ${LOCKING}`);
      assert.equal((await client.query("PREPARE l AS SELECT 1")).code, "42P05");
      await client.query("BEGIN");
    },
    send: sending(query("EXECUTE l")),
    early: "T",
    late: "DCZ",
  },
  {
    name: "rows that EXECUTE locks, of a statement of the extended protocol",
    prepare: async (client) => {
      client.send(parse("l", LOCKING), SYNC);
      await client.until("Z");
      await client.query("BEGIN");
    },
    send: sending(query("EXECUTE l")),
    early: "T",
    late: "DCZ",
  },
  {
    name: "rows that a cursor locks",
    prepare: preparedInBlock(`DECLARE "C 1" CURSOR FOR ${LOCKING}`),
    send: sending(query('FETCH FORWARD 10 FROM "C 1"')),
    early: "T",
    late: "DCZ",
  },
  {
    name: "rows that a cursor locks and skips",
    prepare: preparedInBlock(`DECLARE c CURSOR FOR ${LOCKING}`),
    send: sending(query("MOVE 1 IN c")),
    early: "",
    late: "CZ",
  },
  {
    name: "rows that a portal locks, by FETCH",
    prepare: async (client) => {
      await client.query("BEGIN");
      client.send(parse("", LOCKING), bind("p", ""), SYNC);
      await client.until("Z");
    },
    send: sending(query("FETCH ALL FROM p")),
    early: "T",
    late: "DCZ",
  },
  {
    name: "a deferred constraint",
    prepare: async (client) => {
      await client.query("BEGIN");
      await client.query("INSERT INTO late VALUES (1)");
    },
    send: sending(query("COMMIT")),
    early: "",
    late: "EZ",
  },
];

export const FREE: readonly Form[] = [
  {
    name: "EXECUTE of a statement that locks nothing",
    prepare: preparedInBlock("PREPARE p (int) AS SELECT $1, 'for nobody'"),
    send: sending(query("EXECUTE P(1)")),
    early: "TDCZ",
    late: "",
  },
  {
    name: "EXECUTE of a statement that writes",
    prepare: preparedInBlock(`PREPARE p AS ${INSERT}`),
    send: sending(query("EXECUTE p")),
    early: "CZ",
    late: "",
  },
  {
    name: "FETCH from a cursor that locks nothing",
    prepare: preparedInBlock('DECLARE "c" NO SCROLL CURSOR WITHOUT HOLD FOR SELECT 1'),
    send: sending(query("FETCH NEXT FROM c;")),
    early: "TDCZ",
    late: "",
  },
  {
    name: "extended FETCH from such a cursor",
    prepare: async (client) => {
      await client.extended("BEGIN");
      await client.extended("DECLARE c CURSOR FOR SELECT 1");
    },
    send: sending(...step("FETCH 1 FROM c"), SYNC),
    early: "12DCZ",
    late: "",
  },
  {
    name: "FETCH from a cursor WITH HOLD of an earlier transaction",
    prepare: async (client) => {
      await client.query("BEGIN");
      await client.query("DECLARE c CURSOR WITH HOLD FOR SELECT 1");
      await client.query("COMMIT");
      await client.query("BEGIN");
    },
    send: sending(query("FETCH c")),
    early: "TDCZ",
    late: "",
  },
  {
    name: "a portal that goes on behind a Sync",
    prepare: async (client) => {
      await client.query("BEGIN");
      client.send(parse("s", "SELECT generate_series(1, 3)"), bind("p", "s"), executeOne("p"), SYNC);
      await client.until("Z");
      await client.extended("SELECT 1");
    },
    send: sending(execute("p"), SYNC),
    early: "DDCZ",
    late: "",
  },
  {
    name: "a statement in a block whose value looks like others",
    prepare: inBlock,
    send: sending(query(`INSERT INTO kv VALUES (gen_random_uuid()::text || '; fetch for update', 1)`)),
    early: "CZ",
    late: "",
  },
  { name: "SELECT", send: sending(query("SELECT count(*) FROM late")), early: "TDCZ", late: "" },
  { name: "extended SELECT", send: sending(...step("SELECT 1"), SYNC), early: "12DCZ", late: "" },
  { name: "a syntax error", send: sending(query("SELECT 1 FROM FROM")), early: "EZ", late: "" },
  { name: "BEGIN", send: sending(query("BEGIN")), early: "CZ", late: "" },
  { name: "a statement in a block", prepare: inBlock, send: sending(query(INSERT)), early: "CZ", late: "" },
  { name: "ROLLBACK", prepare: inBlock, send: sending(query("ROLLBACK")), early: "CZ", late: "" },
  { name: "SET", send: sending(query("SET work_mem = '8MB'")), early: "CZ", late: "" },
  {
    name: "DISCARD ALL, which drops only what the session alone has",
    prepare: (client) => client.query("CREATE TEMP TABLE t (x int)"),
    send: sending(query("DISCARD ALL")),
    early: "CZ",
    late: "",
  },
  { name: "an empty query", send: sending(query("")), early: "IZ", late: "" },
  {
    name: "COMMIT of a block that has read",
    prepare: async (client) => {
      await client.query("BEGIN");
      await client.query("SELECT count(*) FROM late");
    },
    send: sending(query("COMMIT")),
    early: "CZ",
    late: "",
  },
  {
    name: "extended COMMIT of such a block",
    prepare: async (client) => {
      await client.query("BEGIN");
      await client.query("SELECT count(*) FROM late");
    },
    send: sending(...step("COMMIT"), SYNC),
    early: "12CZ",
    late: "",
  },
];
