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
  tag,
} from "../../../test/support/wire-model.ts";
import { bind, execute, parse, query, SYNC } from "../frames/build.ts";

const read = (text: string): Buffer[] => [parse("", text), bind("", ""), execute(""), SYNC];

test("behind an error a check that was to be prepared is prepared again", () => {
  const session = new ModelSession();
  session.state.role = "app";
  session.state.probed = { role: "app", canWrite: true };
  session.client(query("DEALLOCATE ALL"));
  session.server(tag("DEALLOCATE ALL"), ready("I"));
  session.sent();
  session.client(...read("SELECT 1/0"), ...read("SELECT f_insert()"), ...read("SELECT 2"));
  assert.equal(session.sent(), "PBECPBECS", "the first batch alone");
  session.server(PARSED, BOUND, failed("22012"), ready("I"));
  assert.equal(session.sent(), "PBECPBECS", "the check is prepared with the second");
  session.server(PARSED, BOUND, row(), tag("SELECT 1"));
  const answer = dataRow("f", ...WIRE_SETTINGS.map(() => null), "app");
  session.server(CLOSED, PARSED, BOUND, answer, tag("SELECT 1"), CLOSED, ready("I"));
  session.client(...read("SELECT 3"), ...read("SELECT 4"));
  assert.equal(session.sent(), "PBECBECSPBECBECSPBECBECS", "then nothing waits any more");
});

test("a bound COMMIT behind a batch that fails has no check in front, and answers ROLLBACK", () => {
  const session = new ModelSession();
  session.client(query("BEGIN"));
  session.server(tag("BEGIN"), ready("T"));
  session.received();
  session.sent();
  const failing = [parse("", "INSERT INTO nope VALUES (1)"), bind("", ""), execute("")];
  session.client(parse("c", "COMMIT"), bind("p", "c"), ...failing, SYNC, execute("p"), SYNC);
  assert.equal(session.sent(), "PBPBESES", "no check of ours goes in front of the COMMIT");
  session.server(PARSED, BOUND, failed("42P01"), ready("E"), tag("ROLLBACK"), ready("I"));
  assert.equal(session.received(), "12EZCZ");
  assert.deepEqual([session.state.status, session.gates.length], ["I", 0]);
});
