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
  tag,
} from "../../../test/support/wire-model.ts";
import { bind, execute, parse, query, SYNC } from "../frames/build.ts";

const COMMIT = [parse("", "COMMIT"), bind("", ""), execute("")];
const SETTINGS = WIRE_SETTINGS.map(() => null);

/** The server's answers to a session's first check, which may write a receipt. */
function checked(hasWritten: boolean, ...receipt: readonly string[]): Buffer[] {
  const answer = dataRow(hasWritten ? "t" : "f", ...SETTINGS, "app", ...receipt);
  return [CLOSED, PARSED, BOUND, answer, tag("SELECT 1"), CLOSED];
}

/** A session inside a block that has written. */
function written(): ModelSession {
  const session = new ModelSession();
  session.client(query("BEGIN"));
  session.server(tag("BEGIN"), ready("T"));
  session.client(query("UPDATE t SET value = 1"));
  session.server(tag("UPDATE 1"), ready("T"));
  session.received();
  session.sent();
  return session;
}

test("the first statement of its batch, and no receipt: a check goes along in front", () => {
  for (const hasWritten of [false, true]) {
    const session = written();
    session.client(...COMMIT, SYNC);
    assert.equal(session.sent(), "PBCPBECES");
    session.server(PARSED, BOUND, ...checked(hasWritten), tag("COMMIT"), ready("I"));
    assert.equal(session.gates.length, hasWritten ? 1 : 0);
    assert.equal(session.received(), hasWritten ? "12" : "12CZ");
  }
});

test("behind another statement of its batch it has no check, and is held", () => {
  const session = written();
  const update = [parse("", "UPDATE t SET value = 2"), bind("", ""), execute("")];
  session.client(...update, ...COMMIT, SYNC);
  assert.equal(session.sent(), "PBEPBES");
  session.server(PARSED, BOUND, tag("UPDATE 1"), PARSED, BOUND, tag("COMMIT"), ready("I"));
  assert.equal(session.received(), "12C12");
  assert.equal(session.gates.length, 1);
});

test("for a receipt it waits for the answers before it, and then for the receipt", () => {
  const session = written();
  session.wantReceipts();
  session.client(...COMMIT, SYNC);
  assert.equal(session.sent(), "PBH");
  session.server(PARSED);
  assert.equal(session.sent(), "", "the server has not answered everything");
  session.server(BOUND);
  assert.equal(session.sent(), "CPBECH");
  session.server(...checked(true, "t"));
  assert.equal(session.sent(), "ES");
  session.server(tag("COMMIT"), ready("I"));
  assert.equal(session.gates[0]?.attempt, session.attempts[0]);
  session.open(session.gates[0]);
  assert.equal(session.received(), "12CZ");
});

test("a portal of an earlier batch has no answers before it to wait for", () => {
  const session = written();
  session.wantReceipts();
  session.client(parse("", "COMMIT"), bind("end", ""), SYNC);
  session.server(PARSED, BOUND, ready("T"));
  session.sent();
  session.client(execute("end"), SYNC);
  assert.equal(session.sent(), "CPBECH");
  session.server(...checked(true, "t"));
  assert.equal(session.sent(), "ES");
});

test("behind an error nothing of ours is added", () => {
  const session = written();
  session.wantReceipts();
  session.client(parse("", "SELECT 1/0"), bind("", ""), execute(""), ...COMMIT, SYNC);
  assert.equal(session.sent(), "PBEPBH");
  session.server(PARSED, BOUND, failed("22012"));
  assert.equal(session.sent(), "ES", "the server skips the COMMIT up to the Sync");
  session.server(ready("E"));
  assert.equal(session.received(), "12EZ");
});

/** A session after the server refused the receipt of a COMMIT and answered the rest. */
function refused(sqlstate: string): ModelSession {
  const session = written();
  session.wantReceipts();
  session.client(...COMMIT, SYNC);
  session.server(PARSED, BOUND);
  session.sent();
  session.server(CLOSED, PARSED, BOUND, failed(sqlstate));
  assert.equal(session.sent(), "SQS", "our Sync and ROLLBACK, and then the client's Sync");
  session.server(ready("E"), tag("ROLLBACK"), ready("I"), ready("I"));
  assert.equal(session.attempts[0]?.isWithdrawn, true);
  assert.equal(session.gates.length, 0);
  return session;
}

test("a receipt that fails undoes the transaction, and the client gets its error", () => {
  assert.equal(refused("53100").received(), "12EZ");
});

test("a receipt that was there already is explained first", () => {
  const session = refused("23505");
  assert.equal(session.received(), "12");
  const [explained] = session.explained;
  assert.equal(explained?.used, session.attempts[0]?.receipt);
  session.open(explained?.gate);
  assert.equal(session.received(), "Z");
});

test("a session that ends in its COMMIT leaves the outcome open", () => {
  const session = written();
  session.wantReceipts();
  session.client(...COMMIT, SYNC);
  session.server(PARSED, BOUND);
  session.server(...checked(true, "t"));
  session.server(failed("57P01", "FATAL"));
  assert.equal(session.received(), "12E");
  assert.equal(session.attempts[0]?.isWithdrawn, false);
});

test("settings of the same batch are read before the receipt", () => {
  const session = written();
  const set = [parse("", "SET highwater.ack = 'commit'"), bind("", ""), execute("")];
  session.client(...set, ...COMMIT, SYNC);
  assert.equal(session.sent(), "PBEPBH");
  session.server(PARSED, BOUND, tag("SET"), PARSED, BOUND);
  assert.equal(session.sent(), "CPBECH", "the settings");
  session.server(...checked(true));
  assert.equal(session.sent(), "CBECH", "the check, which is prepared by now");
  session.server(CLOSED, BOUND, dataRow("t", ...SETTINGS, "app"), tag("SELECT 1"), CLOSED);
  assert.equal(session.sent(), "ES");
  session.server(tag("COMMIT"), ready("I"));
  assert.equal(session.received(), "12C12");
  assert.equal(session.gates.length, 1);
});
