import assert from "node:assert/strict";
import { test } from "node:test";
import { HighwaterError, type StatementResult, type TransactionResponse } from "@highwater/protocol";
import { EPOCH_A, newId } from "../../test/support/fakes.ts";
import { neonAnswer, transactionPart } from "./answer.ts";
import { neonError, rowsMissing } from "./error.ts";

const detail = { tableOid: 16_400, columnNumber: 1, typeSize: 4, typeModifier: -1 };
const SELECT: StatementResult = {
  command: "SELECT",
  rowCount: 2,
  fields: [
    { name: "id", oid: 23, ...detail },
    { name: "note", oid: 25 },
  ],
  rows: [
    ["1", null],
    ["2", "x"],
  ],
};

function response(results: StatementResult[]): TransactionResponse {
  return {
    id: newId(),
    state: "committed",
    token: "hw2_token",
    position: { epoch: EPOCH_A, offset: "7" },
    results,
    marks: null,
    announced: true,
  };
}

function written(result: StatementResult, rawText: boolean, arrayMode: boolean): unknown {
  const answer = neonAnswer(response([result]), [result], {
    isBatch: false,
    formats: [{ rawText, arrayMode }],
  });
  return "rows" in answer ? answer.rows : assert.fail("no single answer");
}

test("a single answer, with everything about the transaction but its results", () => {
  const given = response([SELECT]);
  const { results: _results, ...transaction } = given;
  assert.deepEqual(
    neonAnswer(given, [SELECT], { isBatch: false, formats: [{ rawText: true, arrayMode: true }] }),
    {
      rowAsArray: true,
      fields: [
        {
          name: "id",
          dataTypeID: 23,
          tableID: 16_400,
          columnID: 1,
          dataTypeSize: 4,
          dataTypeModifier: -1,
          format: "text",
        },
        {
          name: "note",
          dataTypeID: 25,
          tableID: 0,
          columnID: 0,
          dataTypeSize: -1,
          dataTypeModifier: -1,
          format: "text",
        },
      ],
      rows: SELECT.rows,
      command: "SELECT",
      rowCount: 2,
      transaction,
    },
  );
});

test("rows in all four formats", () => {
  assert.deepEqual(written(SELECT, true, true), SELECT.rows);
  assert.deepEqual(written(SELECT, false, true), [
    [1, null],
    [2, "x"],
  ]);
  assert.deepEqual(written(SELECT, true, false), [
    { id: "1", note: null },
    { id: "2", note: "x" },
  ]);
  assert.deepEqual(written(SELECT, false, false), [
    { id: 1, note: null },
    { id: 2, note: "x" },
  ]);
});

test("a JSON null in a column stays null, and a column may be called __proto__", () => {
  const fields = [
    { name: "__proto__", oid: 25 },
    { name: "json", oid: 3802 },
  ];
  const rows = written({ ...SELECT, fields, rows: [["x", "null"]] }, false, false);
  assert.equal(JSON.stringify(rows), '[{"__proto__":"x","json":null}]');
});

test("a command's first word, and a number of rows only where the command counts them", () => {
  const answerFor = (command: string, rowCount: number): unknown => {
    const result = { command, rowCount, fields: [], rows: [] };
    const answer = neonAnswer(response([result]), [result], {
      isBatch: true,
      formats: [{ rawText: true, arrayMode: true }],
    });
    const [first] = "results" in answer ? answer.results : [];
    return [first?.command, first?.rowCount];
  };
  assert.deepEqual(answerFor("CREATE TABLE", 0), ["CREATE", null]);
  assert.deepEqual(answerFor("SET", 0), ["SET", null]);
  assert.deepEqual(answerFor("INSERT", 3), ["INSERT", 3]);
  assert.deepEqual(answerFor("UPDATE", 0), ["UPDATE", 0]);
  assert.deepEqual(answerFor("", 0), ["", null]);
});

test("a statement's error has everything the server said", () => {
  const cause = Object.assign(new Error("duplicate key"), {
    ...{ severity: "ERROR", code: "23505", detail: "Key (id)=(1) already exists.", schema: "public" },
    ...{ table: "account", constraint: "account_pkey", routine: "_bt_check_unique", length: 200 },
  });
  const error = new HighwaterError(
    "constraint_violation",
    { detail: "duplicate key", sqlstate: "23505", constraint: "account_pkey", statement: 1 },
    { cause },
  );
  const id = newId();
  const { status, body } = neonError(error, id);
  assert.equal(status, 400);
  assert.deepEqual(
    [
      body.message,
      body.code,
      body.severity,
      body.detail,
      body.schema,
      body.table,
      body.constraint,
      body.position,
    ],
    [
      "duplicate key",
      "23505",
      "ERROR",
      "Key (id)=(1) already exists.",
      "public",
      "account",
      "account_pkey",
      null,
    ],
  );
  assert.deepEqual(body.highwater, {
    ...{ code: "constraint_violation", outcome: "not_applied", retry: "never", transactionId: id, query: 1 },
    ...{ retryAfterMs: null, fields: null, limit: null, evidence: null },
  });
});

test("a cause from inside stays inside", () => {
  const cause = Object.assign(new Error("password authentication failed"), {
    ...{ severity: "FATAL", code: "28P01", detail: "role highwater on 10.0.0.7", routine: "auth_failed" },
  });
  const { status, body } = neonError(new HighwaterError("primary_unavailable", {}, { cause }), null);
  assert.equal(status, 503);
  assert.equal(body.code, "57P03");
  assert.equal(body.highwater.retryAfterMs, 1_000);
  assert.doesNotMatch(JSON.stringify(body), /10\.0\.0\.7|authentication failed|auth_failed/);
});

test("statuses: what a program decides about is a 400, what may be sent again as it is keeps its own", () => {
  const answerFor = (...[code, details]: ConstructorParameters<typeof HighwaterError>): unknown => {
    const { status, body } = neonError(new HighwaterError(code, details), null);
    return [status, body.code, body.highwater.outcome];
  };
  assert.deepEqual(answerFor("invalid_request"), [400, "08P01", "not_applied"]);
  assert.deepEqual(answerFor("unauthenticated"), [400, "28000", "not_applied"]);
  assert.deepEqual(answerFor("forbidden"), [400, "42501", "not_applied"]);
  assert.deepEqual(answerFor("transaction_control"), [400, "0A000", "not_applied"]);
  assert.deepEqual(answerFor("serialization_failure", { sqlstate: "40P01" }), [400, "40P01", "not_applied"]);
  assert.deepEqual(answerFor("transaction_lost"), [400, "40000", "not_applied"]);
  assert.deepEqual(answerFor("body_too_large"), [413, "54000", "not_applied"]);
  assert.deepEqual(answerFor("rate_limited"), [429, "53400", "not_applied"]);
  assert.deepEqual(answerFor("overloaded"), [503, "53300", "not_applied"]);
  assert.deepEqual(answerFor("commit_unconfirmed"), [400, "08007", "unknown"]);
  assert.deepEqual(answerFor("internal"), [500, "XX000", "unknown"]);
});

test("hints say what to do", () => {
  const hint = (code: "commit_unconfirmed" | "unauthenticated" | "overloaded"): string | null =>
    neonError(new HighwaterError(code), "the-id").body.hint;
  assert.match(hint("commit_unconfirmed") ?? "", /GET \/v1\/transactions\/the-id/);
  assert.match(hint("unauthenticated") ?? "", /password of the connection string/);
  assert.equal(hint("overloaded"), null);
});

test("rows that cannot be answered: applied, with the token", () => {
  const transaction = transactionPart(response([]));
  const replay = rowsMissing("replayed", { ...transaction, replayed: true }, null);
  assert.deepEqual([replay.status, replay.body.code, replay.body.highwater.code], [400, null, null]);
  const cut = rowsMissing("truncated", transaction, 2);
  assert.deepEqual([cut.status, cut.body.code, cut.body.highwater.code], [400, "54000", "result_too_large"]);
  assert.equal(cut.body.highwater.query, 2);
  for (const { body } of [replay, cut]) {
    assert.deepEqual([body.highwater.outcome, body.highwater.retry], ["applied", "never"]);
    assert.equal(body.transaction?.token, "hw2_token");
    assert.equal(body.highwater.transactionId, transaction.id);
  }
});
