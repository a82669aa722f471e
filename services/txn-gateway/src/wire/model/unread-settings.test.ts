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
import { bind, closeStatement, execute, message, parse, query, SYNC } from "../frames/build.ts";

const UPDATE = query("UPDATE t SET value = 1");
const EXTENDED = [parse("", "UPDATE t SET value = 1"), bind("", ""), execute("")];

function stale(): ModelSession {
  const session = new ModelSession();
  session.state.probed = { role: null, canWrite: true };
  session.state.isStale = true;
  return session;
}

test("a question for the settings that fails is asked once more, and then the Query gets its error", () => {
  const session = stale();
  for (let unit = 0; unit < 2; unit++) {
    session.client(UPDATE);
    for (let question = 0; question < 2; question++) {
      assert.match(session.sent(), /^CPBECS$/, "the question, and not the Query");
      session.server(CLOSED, failed("57014"), ready("I"));
    }
    assert.equal(session.received(), "EZ");
    assert.equal(session.sent(), "");
  }
});

test("an extended statement gets the error, and what follows it is skipped up to the Sync", () => {
  const session = stale();
  session.client(...EXTENDED, SYNC, ...EXTENDED, SYNC);
  for (let question = 0; question < 2; question++) session.server(CLOSED, failed("57014"), ready("I"));
  assert.equal(session.received(), "E");
  session.sent();
  session.server(ready("I"));
  assert.equal(session.received(), "Z");
  assert.equal(session.sent(), "CPBECS", "the question of the next statement");
});

test("what was sent before the Query goes to the server before the questions for it", () => {
  const session = stale();
  session.state.probed = null;
  session.client(message("f", "none\0"), UPDATE);
  assert.equal(session.sent(), "fCPBESCPBECS");
});

function inStaleBlock(session = new ModelSession()): ModelSession {
  session.client(query("BEGIN"));
  session.server(tag("BEGIN"), ready("T"));
  session.state.isStale = true;
  session.received();
  session.sent();
  return session;
}

test("in a block the failure has undone the block, so the statement gets the error at once", () => {
  const session = inStaleBlock();
  session.client(UPDATE);
  session.server(CLOSED, failed("57014"), ready("E"));
  assert.equal(session.received(), "EZ");
  session.sent();
  session.client(query("ROLLBACK"));
  assert.equal(session.sent(), "Q", "nothing is asked in a failed block");
});

test("ROLLBACK goes to the server without a question, and a COMMIT whose question fails ends its block", () => {
  for (const text of ["ROLLBACK", "ROLLBACK TO s", "abort"]) {
    const session = inStaleBlock();
    session.client(query(text));
    assert.equal(session.sent(), "Q");
  }
  const session = inStaleBlock();
  session.client(query("COMMIT"));
  session.sent();
  session.server(CLOSED, failed("57014"), ready("E"));
  assert.deepEqual(session.toClient.at(-1), ready("I"));
  assert.equal(session.received(), "EZ");
  assert.equal(session.sent(), "Q", "the gateway's own ROLLBACK");
});

/** The answers to a question that also prepares it. */
const ANSWERED = [CLOSED, PARSED, BOUND, dataRow("f", ...WIRE_SETTINGS.map(() => null), "app")];

test("in a block nothing is asked in front of a prepared SET TRANSACTION, which would come too late", () => {
  const session = new ModelSession();
  session.client(parse("set", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"), SYNC);
  session.client(parse("read", "SELECT 1"), SYNC);
  session.server(PARSED, ready("I"), PARSED, ready("I"));
  inStaleBlock(session);
  session.client(bind("", "set"), execute(""), SYNC);
  assert.equal(session.sent(), "BES");
  session.server(BOUND, tag("SET"), ready("T"));
  session.client(bind("", "read"), execute(""), SYNC);
  assert.equal(session.sent().slice(0, 6), "CPBECS", "a read takes the snapshot itself");
});

test("a batch in a block that begins with Close or SET is asked for before it takes a snapshot", () => {
  for (const [first, types, answers] of [
    [[closeStatement("old")], "C", [CLOSED]],
    [[parse("", "SET a.b = 1"), bind("", ""), execute("")], "PBE", [PARSED, BOUND, tag("SET")]],
  ] as const) {
    const session = inStaleBlock();
    session.client(...first, ...EXTENDED, SYNC);
    assert.equal(session.sent(), `${types}H`);
    session.server(...answers);
    assert.equal(session.sent(), "CPBECH", "the question");
    session.server(...ANSWERED, tag("SELECT 1"), CLOSED);
    assert.equal(session.sent(), "PBES");
    session.server(PARSED, BOUND, tag("UPDATE 1"), ready("T"));
    assert.equal(session.state.settingsText, WIRE_SETTINGS.map(() => "").join("\0"));
  }
});

test("behind an error such a question is not sent, and its own error ends the batch", () => {
  for (const isOurs of [false, true]) {
    const session = inStaleBlock();
    session.client(closeStatement("old"), ...EXTENDED, SYNC);
    session.sent();
    if (isOurs) {
      session.server(CLOSED);
      assert.equal(session.sent(), "CPBECH");
      session.server(CLOSED, PARSED, BOUND);
    }
    session.server(failed("57014"));
    assert.equal(session.sent(), "PBES", "the server skips them");
    session.server(ready("E"));
    assert.equal(session.received(), isOurs ? "3EZ" : "EZ");
  }
});
