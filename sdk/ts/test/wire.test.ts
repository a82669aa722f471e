// Goal: the wire types of this package are those of the protocol. Method: the compiler for the types, both ways; for the
// guards, examples of every message, which the protocol's schemas must accept as well.
import assert from "node:assert/strict";
import { test } from "node:test";
import { token } from "@highwater/conformance/fake";
import * as protocol from "@highwater/protocol";
import type * as wire from "../src/wire-types.ts";
import {
  isEpochEvent,
  isMarks,
  isMarksResponse,
  isOpenTransactionResponse,
  isProblem,
  isRollbackResponse,
  isTicketsResponse,
  isTransactionResponse,
  isTransactionStateResponse,
  isVerdictsResponse,
  WAIT_MS_MAX,
} from "../src/wire.ts";
import { sql } from "../src/index.ts";
import { DEFAULT_TUNING } from "../src/tuning.ts";
import { buildRequest } from "../src/transaction.ts";
import { E1, E2, epoch, marks, verdictOf } from "./support.ts";

/** True only where each type can stand for the other. */
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;

interface Pairs {
  position: [wire.Position, protocol.Position];
  marks: [wire.Marks, protocol.Marks];
  epochRecord: [wire.EpochRecord, protocol.EpochRecord];
  isolation: [wire.Isolation, protocol.Isolation];
  param: [wire.Param, protocol.Param];
  statement: [wire.Statement, protocol.Statement];
  request: [wire.TransactionRequest, protocol.TransactionRequest];
  begin: [wire.BeginRequest, protocol.BeginRequest];
  statements: [wire.StatementsRequest, protocol.StatementsRequest];
  commit: [wire.CommitRequest, protocol.CommitRequest];
  rollback: [wire.RollbackRequest, protocol.RollbackRequest];
  open: [wire.OpenTransactionResponse, protocol.OpenTransactionResponse];
  rolledBack: [wire.RollbackResponse, protocol.RollbackResponse];
  marksResponse: [wire.MarksResponse, protocol.MarksResponse];
  result: [wire.StatementResult, protocol.StatementResult];
  state: [wire.TransactionState, protocol.TransactionState];
  response: [wire.TransactionResponse, protocol.TransactionResponse];
  stateResponse: [wire.TransactionStateResponse, protocol.TransactionStateResponse];
  verdict: [wire.Verdict, protocol.Verdict];
  tokenVerdict: [wire.TokenVerdict, protocol.TokenVerdict];
  refusedToken: [wire.RefusedToken, protocol.RefusedToken];
  verdictsRequest: [wire.VerdictsRequest, protocol.VerdictsRequest];
  verdictsResponse: [wire.VerdictsResponse, protocol.VerdictsResponse];
  epochEvent: [wire.EpochEvent, protocol.EpochEvent];
  stallEvent: [wire.StallEvent, protocol.StallEvent];
  blindEvent: [wire.BlindEvent, protocol.BlindEvent];
  outcome: [wire.Outcome, protocol.Outcome];
  retry: [wire.Retry, protocol.Retry];
}
/** The names of those that are not the same. */
type Different = { [K in keyof Pairs]: Same<Pairs[K][0], Pairs[K][1]> extends true ? never : K }[keyof Pairs];
const areSame: [Different] extends [never] ? true : Different = true;
// A client reads problems of newer services too, so its `code` is any text: one way only.
const isWider: protocol.Problem extends wire.Problem ? true : false = true;

const id = "0198c0de-0000-7000-8000-000000000001";
const where = { epoch: E1, offset: "12345678901234567890123456789" };
const about = { id, token: token(1, 5, id) };
const committed = (overrides: Partial<wire.TransactionResponse> = {}): wire.TransactionResponse => ({
  ...{ ...about, state: "committed", position: { epoch: E1, offset: "5" } },
  ...{ results: [], marks: null, announced: true, ...overrides },
});
const result = {
  ...{
    command: "SELECT",
    rowCount: 1,
    fields: [{ name: "a", oid: 23 }],
    rows: [["1"], [null]],
    truncated: true,
  },
};

const examples: [string, (value: unknown) => boolean, Parameters<typeof protocol.validate>[0], unknown][] = [
  ["marks", isMarks, protocol.Marks, marks(E1, { disk: 10n ** 28n, region: 0 })],
  ["no marks", isMarks, protocol.Marks, marks(E1, {})],
  ["response", isTransactionResponse, protocol.TransactionResponse, committed()],
  [
    "safe response with results",
    isTransactionResponse,
    protocol.TransactionResponse,
    committed({ state: "durable", level: "region", results: [result as wire.StatementResult] }),
  ],
  [
    "replay",
    isTransactionResponse,
    protocol.TransactionResponse,
    committed({ results: null, replayed: true, marks: marks(E1, { disk: 1 }) }),
  ],
  [
    "open",
    isOpenTransactionResponse,
    protocol.OpenTransactionResponse,
    {
      ...{ id, state: "active", seq: 3, results: [result], marks: null },
      expiresAt: "2026-01-01T00:00:00.000Z",
    },
  ],
  ["rolled back", isRollbackResponse, protocol.RollbackResponse, { id, state: "aborted" }],
  [
    "marks response",
    isMarksResponse,
    protocol.MarksResponse,
    { marks: marks(E1, { disk: 1 }), levels: ["disk"], epochs: [epoch(E1)] },
  ],
  [
    "state",
    isTransactionStateResponse,
    protocol.TransactionStateResponse,
    { ...{ id, state: "durable", token: about.token, position: where, level: "region", marks: null } },
  ],
  [
    "unknown state",
    isTransactionStateResponse,
    protocol.TransactionStateResponse,
    { id, state: "unknown", marks: null },
  ],
  [
    "verdicts",
    isVerdictsResponse,
    protocol.VerdictsResponse,
    {
      verdicts: [
        verdictOf(about, "pending"),
        { ...verdictOf(about, "lost"), retriedIn: E2, settledAt: "region" },
      ],
      marks: marks(E1, { disk: 1 }),
    },
  ],
  [
    "epochs",
    isEpochEvent,
    protocol.EpochEvent,
    { epochs: [epoch(E1), epoch(E2, { previous: E1, fork: 7, start: 9 })] },
  ],
  [
    "tickets",
    isTicketsResponse,
    protocol.TicketsResponse,
    {
      answers: [
        { status: 200, body: { id, tag: id, epoch: E1, digest: "7", lifeMs: 1_000, ticket: "t" } },
        { status: 409, body: new protocol.HighwaterError("id_reused").toProblem() },
      ],
    },
  ],
];

test("every example is a message of the protocol, and this package accepts it", () => {
  for (const [name, accepts, schema, example] of examples) {
    const onTheWire: unknown = JSON.parse(JSON.stringify(example));
    assert.deepEqual(protocol.validate(schema, onTheWire), { ok: true, value: onTheWire }, name);
    assert.ok(accepts(onTheWire), name);
  }
});

test("a message without one of its required parts is not accepted", () => {
  const needed: Record<string, string[]> = {
    marks: ["epoch", "seq", "levels"],
    response: ["id", "state", "token", "position"],
    "unknown state": ["id", "state"],
    open: ["state", "results", "expiresAt"],
    "rolled back": ["state"],
    "marks response": ["epochs"],
    verdicts: ["verdicts"],
    epochs: ["epochs"],
    tickets: ["answers"],
  };
  for (const [name, accepts, , example] of examples) {
    for (const wrong of [null, undefined, 1, "x", [], {}]) assert.ok(!accepts(wrong), name);
    for (const key of needed[name] ?? []) {
      const { [key]: _, ...rest } = example as Record<string, unknown>;
      assert.ok(!accepts(rest), `${name} without ${key}`);
    }
  }
  const committedAt = (position: unknown): unknown => ({ ...committed(), position });
  for (const wrong of [{ epoch: E1 }, { offset: "5" }, { epoch: E1, offset: 5 }, { epoch: "x", offset: "5" }])
    assert.ok(!isTransactionResponse(committedAt(wrong)), JSON.stringify(wrong));
  assert.ok(!isMarks({ epoch: E1, seq: 1, levels: { disk: "05" } }), "an offset is canonical");
});

test("requests are valid: what the client builds, the service accepts", () => {
  const limits = { level: "region", attemptMs: 20_000, totalMs: 30_000 };
  const requests = [
    buildRequest([sql`SELECT ${1}`], { id, ...limits }),
    buildRequest([sql`SELECT 1`, { sql: "SELECT $1", params: [[1, 2]] }], {
      ...{
        id,
        ...limits,
        ack: "durable",
        isolation: "repeatable read",
        readOnly: true,
        metadata: { a: "b" },
      },
    }),
    buildRequest([sql`SELECT 1`], { id, ...limits, ack: "durable", maxWaitMs: 1e9, totalMs: 1e9 }),
    buildRequest([sql`SELECT 1`], {
      ...{ id, ...limits, readOnly: true, deferrable: true, maxDelayMs: 5 },
      ...{ mode: "local" as const, after: { token: about.token } },
    }),
  ];
  for (const request of requests) {
    const checked = protocol.validate(protocol.TransactionRequest, JSON.parse(JSON.stringify(request)));
    assert.ok(checked.ok, JSON.stringify(checked));
  }
  assert.deepEqual([requests[1]?.level, requests[1]?.maxWaitMs], ["region", 10_000]);
  assert.equal(requests[2]?.maxWaitMs, protocol.LIMITS.waitMs);
});

test("every error of the catalogue is a problem to this package", () => {
  for (const code of Object.keys(protocol.ERRORS) as protocol.ErrorCode[])
    assert.ok(isProblem(JSON.parse(JSON.stringify(new protocol.HighwaterError(code).toProblem()))), code);
});

test("results whose columns or rows are none are no answer", () => {
  const response = (change: object): unknown => ({
    ...committed(),
    results: [{ ...result, ...change }],
  });
  assert.ok(isTransactionResponse(response({})));
  for (const change of [
    { fields: [null] },
    { fields: [{ name: 1, oid: 23 }] },
    { rows: [null] },
    { rows: [[1]] },
  ])
    assert.ok(!isTransactionResponse(response(change)), JSON.stringify(change));
});

test("limits and types are those of the protocol", () => {
  assert.ok(DEFAULT_TUNING.verdictBatch <= protocol.LIMITS.tokensPerRequest);
  assert.equal(WAIT_MS_MAX, protocol.LIMITS.waitMs);
  assert.ok(areSame && isWider);
});
