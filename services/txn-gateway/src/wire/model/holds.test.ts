import assert from "node:assert/strict";
import { test } from "node:test";
import { WIRE_SETTINGS } from "@highwater/store";
import {
  BOUND,
  CLOSED,
  dataRow,
  failed,
  ModelSession,
  PARSED,
  ready,
  row,
  ROW_DESCRIPTION,
  tag,
} from "../../../test/support/wire-model.ts";
import { message, query } from "../frames/build.ts";

const UPDATE = query("UPDATE t SET value = 1");
/** More than the gateway holds of a locking read's rows. */
const LARGE_BYTES = 40_000;

/** A session inside a block. */
function inBlock(): ModelSession {
  const session = new ModelSession();
  session.client(query("BEGIN"));
  session.server(tag("BEGIN"), ready("T"));
  assert.equal(session.received(), "CZ");
  return session;
}

test("a statement that commits by itself is answered when its gate opens", () => {
  const session = new ModelSession();
  session.client(UPDATE);
  session.server(tag("UPDATE 1"), ready("I"));
  assert.equal(session.received(), "");
  assert.deepEqual(
    session.gates.map(({ isCommit }) => isCommit),
    [true],
  );
  session.open(session.gates[0]);
  assert.equal(session.received(), "CZ");
});

test("of the statements of a Query only the last waits for their commit", () => {
  const session = new ModelSession();
  session.client(query("INSERT INTO t VALUES (1); SELECT 1"));
  session.server(tag("INSERT 0 1"), ROW_DESCRIPTION, row(), tag("SELECT 1"), ready("I"));
  assert.equal(session.received(), "CTD");
  assert.equal(session.gates.length, 1);
  session.open(session.gates[0]);
  assert.equal(session.received(), "CZ");
});

test("much behind a statement that may have been the last goes out when the log so far is durable", () => {
  const session = new ModelSession();
  session.client(query("INSERT INTO t VALUES (1); DO ''"));
  session.server(tag("INSERT 0 1"), message("N", "x".repeat(LARGE_BYTES)));
  assert.equal(session.received(), "");
  session.open(session.gates[0]);
  assert.equal(session.received(), "CN");
  session.server(tag("DO"), ready("I"));
  assert.equal(session.received(), "");
  assert.equal(session.gates.length, 2);
  session.open(session.gates[1]);
  assert.equal(session.received(), "CZ");
});

test("an error of class 23 is held, another one is not", () => {
  const session = inBlock();
  session.client(UPDATE);
  session.server(failed("42601"), ready("E"));
  assert.equal(session.received(), "EZ");
  session.client(query("ROLLBACK"), UPDATE);
  session.server(tag("ROLLBACK"), ready("I"), failed("23505"), ready("I"));
  assert.equal(session.received(), "CZ");
  assert.deepEqual(
    session.gates.map(({ isCommit }) => isCommit),
    [false],
  );
  session.open(session.gates[0]);
  assert.equal(session.received(), "EZ");
});

test("a write that finds nothing is held in a block, one that finds something is not", () => {
  const session = inBlock();
  session.client(UPDATE);
  session.server(tag("UPDATE 1"), ready("T"));
  assert.equal(session.received(), "CZ");
  session.client(UPDATE);
  session.server(tag("UPDATE 0"), ready("T"));
  assert.equal(session.received(), "");
  session.open(session.gates[0]);
  assert.equal(session.received(), "CZ");
});

test("rows of a locking read wait for a position that is asked behind the last of them", () => {
  const session = inBlock();
  session.client(query("SELECT * FROM t FOR UPDATE"));
  session.server(ROW_DESCRIPTION, row(), row());
  assert.equal(session.received(), "T");
  assert.equal(session.gates.length, 0);
  session.server(tag("SELECT 2"), ready("T"));
  assert.equal(session.gates.length, 1);
  assert.equal(session.received(), "");
  session.open(session.gates[0]);
  assert.equal(session.received(), "DDCZ");
});

test("many rows of a locking read wait in several lots", () => {
  const session = inBlock();
  session.client(query("SELECT * FROM t FOR UPDATE"));
  session.server(ROW_DESCRIPTION, row(LARGE_BYTES), row());
  assert.equal(session.gates.length, 1, "the shell reads no more while so much is held");
  session.server(tag("SELECT 2"), ready("T"));
  assert.equal(session.gates.length, 2);
  session.open(session.gates[0]);
  assert.equal(session.received(), "TD");
  session.open(session.gates[1]);
  assert.equal(session.received(), "DCZ");
});

test("with read_ack = durable the first row waits, and so does the end", () => {
  const session = inBlock();
  session.state.settings = { ...session.state.settings, readsDurably: true };
  session.client(query("SELECT 1"));
  session.server(ROW_DESCRIPTION, row(), row(), tag("SELECT 2"), ready("T"));
  assert.equal(session.received(), "T");
  assert.equal(session.gates.length, 2);
  session.open(session.gates[1]);
  assert.equal(session.received(), "", "the order is kept");
  session.open(session.gates[0]);
  assert.equal(session.received(), "DDCZ");
});

test("in commit mode nothing waits for commits of others", () => {
  const session = inBlock();
  session.state.settings = { ...session.state.settings, ack: "commit" };
  session.client(UPDATE);
  session.server(tag("UPDATE 0"), ready("T"));
  session.client(query("SELECT * FROM t FOR UPDATE"));
  session.server(ROW_DESCRIPTION, row(), tag("SELECT 1"), ready("T"));
  session.client(UPDATE);
  session.server(failed("23505"), ready("E"));
  assert.equal(session.received(), "CZTDCZEZ");
  assert.equal(session.gates.length, 0);
});

test("behind the token of an earlier transaction one without a token says so", () => {
  const session = new ModelSession();
  session.state.hasOldToken = true;
  session.client(UPDATE);
  session.server(tag("UPDATE 1"), ready("I"));
  session.open(session.gates[0]);
  assert.equal(session.received(), "SSCZ", "in place of the token of an early answer");
  assert.equal(session.state.lastCommit, session.gates[0]);
  session.client(query("SET a.b = 1"));
  session.server(tag("SET"), ready("I"));
  assert.equal(session.received(), "CZ", "once is enough");
  session.state.hasOldToken = true;
  session.state.isStale = false;
  session.client(query("SET a.b = 2"));
  session.server(tag("SET"), ready("I"));
  assert.equal(session.received(), "CSSZ");
  assert.equal(session.state.lastCommit, null);
  session.state.hasOldToken = true;
  session.state.hasSaidKept = true;
  session.state.isStale = false;
  session.client(query("SET a.b = 3"));
  session.server(tag("SET"), ready("I"));
  assert.equal(session.received(), "CSSSZ", "and that nothing is kept");
});

test("behind COMMIT AND CHAIN its token is that of an earlier transaction", () => {
  const session = inBlock();
  session.wantReceipts();
  session.client(UPDATE);
  session.server(tag("UPDATE 1"), ready("T"));
  session.client(query("COMMIT AND CHAIN"));
  const answer = dataRow("t", "commit", ...WIRE_SETTINGS.slice(1).map(() => null), "app", "t");
  session.server(CLOSED, PARSED, BOUND, answer, tag("SELECT 1"), CLOSED, ready("T"));
  session.server(tag("COMMIT"), ready("T"));
  session.open(session.gates[0]);
  assert.equal(session.received(), "CZCZ");
  session.client(query("ROLLBACK"));
  session.server(tag("ROLLBACK"), ready("I"));
  assert.equal(session.received(), "CSSZ");
});
