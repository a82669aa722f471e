import assert from "node:assert/strict";
import { test } from "node:test";
import {
  BOUND,
  CLOSED,
  failed,
  ModelSession,
  PARSED,
  ready,
  row,
  tag,
} from "../../../test/support/wire-model.ts";
import { bind, describePortal, execute, message, parse, query, type Report, SYNC } from "../frames/build.ts";

const SET = [parse("", "SET statement_timeout = 1000"), bind("", ""), describePortal(""), execute("")];
const READ = [parse("", "SELECT 1"), bind("", ""), execute("")];
const WAS_SET = [PARSED, BOUND, message("n"), tag("SET")];
const WAS_READ = [PARSED, BOUND, row(), tag("SELECT 1")];
const LOST: Report = { severity: "ERROR", code: "40001", message: "lost" };

/** A session of the read port that has `highwater.after`. */
function awaiting(): ModelSession {
  const session = new ModelSession({ isReader: true });
  session.state.after = "token";
  session.state.isAwaiting = true;
  return session;
}

test("a read waits behind a SET of its batch, which is answered before", () => {
  const session = awaiting();
  session.client(...SET, ...READ, SYNC);
  assert.equal(session.sent(), "PBDEH");
  session.server(...WAS_SET);
  assert.equal(session.received(), "12nC");
  assert.deepEqual(session.awaited, ["token"]);
  assert.equal(session.sent(), "");
  session.arrived();
  assert.match(session.sent(), /^PBE.*S$/);
  session.server(...WAS_READ);
  assert.equal(session.received(), "12DC");
});

test("so does a Bind of a statement that reads, and a Query in place of the Sync", () => {
  for (const read of [bind("", "read"), query("SELECT 1")]) {
    const session = new ModelSession({ isReader: true });
    session.client(parse("read", "SELECT 1"), SYNC);
    session.server(PARSED, ready("I"));
    session.sent();
    session.state.after = "token";
    session.state.isAwaiting = true;
    session.client(...SET, read, SYNC);
    assert.equal(session.sent(), "PBDEH");
    session.server(...WAS_SET);
    assert.equal(session.sent(), "");
    session.arrived();
    assert.match(session.sent(), /^[BQ].*S$/);
  }
});

test("a SET does not wait, prepared or not", () => {
  const session = awaiting();
  session.client(...SET, SYNC);
  assert.match(session.sent(), /^PBDE.*S$/);
  session.server(...WAS_SET, CLOSED, PARSED, BOUND, failed("57014"), ready("I"));
  assert.deepEqual(session.awaited, []);
});

test("the refusal undoes its batch, and is not sent behind an error", () => {
  for (const fails of [false, true]) {
    const session = awaiting();
    session.client(...SET, ...READ, SYNC);
    session.sent();
    session.server(...(fails ? [PARSED, BOUND, failed("22023")] : WAS_SET));
    assert.equal(session.received(), fails ? "12E" : "12nC");
    if (fails) assert.equal(session.sent(), "PBES", "the server skips them");
    else {
      session.arrived(LOST);
      assert.equal(session.sent().slice(0, 7), "CPBEPBE", "a statement that fails comes before the read");
      session.server(CLOSED, PARSED, BOUND, failed("40001"));
      assert.equal(session.received(), "E");
      assert.equal(session.state.after, "", "the next read asks again");
    }
    session.server(ready("I"));
    assert.equal(session.received(), "Z");
  }
});

test("of a batch at a replica only the first read asks how old the state is", () => {
  const session = new ModelSession({ isReader: true, isAtReplica: true });
  session.state.settings = { ...session.state.settings, isDurableOnly: true };
  session.client(...SET, ...READ, ...READ, SYNC);
  session.server(...WAS_SET);
  session.sent();
  assert.deepEqual(session.awaited, [""]);
  session.state.nextLook = { found: null };
  session.arrived();
  assert.match(session.sent(), /^PBEPBE/);
  assert.deepEqual(session.awaited, [""]);
});
