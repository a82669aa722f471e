import assert from "node:assert/strict";
import { test } from "node:test";
import { CLOSED, failed, ModelSession, ready, tag } from "../../../test/support/wire-model.ts";
import { bind, execute, message, parse, query, SYNC } from "../frames/build.ts";

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

function inStaleBlock(): ModelSession {
  const session = new ModelSession();
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
