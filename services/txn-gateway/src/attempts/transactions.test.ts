// What is announced, answered and settled when things go wrong, with a store whose every answer the test gives.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  decodeToken,
  type EpochId,
  HighwaterError,
  type Offset,
  type ProblemDetails,
  type TxnId,
  ZERO,
} from "@highwater/protocol";
import { nodeReport } from "@highwater/authority/testing";
import { epochRecord } from "@highwater/protocol/testing";
import type { Execution, ReceiptsAsOf, ReceiptState, Store, TransactionSpec } from "@highwater/store";
import {
  EPOCH_A,
  EPOCH_B,
  FakeClock,
  MemoryLog,
  newId,
  ScriptedTransport,
  type Sent,
  settle,
} from "../../test/support/fakes.ts";
import { type Config, loadConfig } from "../config.ts";
import { type Deps } from "../deps.ts";
import { Gateway } from "../gateway.ts";
import { type CommitResponse } from "./transactions.ts";
import { ANYBODY } from "@highwater/service";
import { TEST_DEPLOYMENT } from "@highwater/service/testing";
import { type Caller } from "../txn/caller.ts";
import { digestOf } from "../txn/digest.ts";
import { type Accepted } from "../txn/request.ts";

const TRACKER = "http://tracker:1";

/** A call of the store that waits for the test's answer. */
interface Call<T> {
  readonly resolve: (value: T) => void;
  readonly reject: (cause: unknown) => void;
}

function makeConfig(): Config {
  const nodes = [{ id: "a", region: "r", zone: "z", url: "postgresql://a/app" }];
  const loaded = loadConfig(
    {
      ...TEST_DEPLOYMENT,
      GATEWAY_NAME: "g1",
      GATEWAY_REGION: "r",
      GATEWAY_TRACKERS: TRACKER,
      GATEWAY_POOL_SIZE: "2",
      GATEWAY_POOL_QUEUE: "1",
      HIGHWATER_TOPOLOGY: JSON.stringify({ nodes, levels: { disk: { primary: true } } }),
    },
    () => "",
  );
  assert.ok(loaded.ok);
  return loaded.config;
}

function makeGateway() {
  const clock = new FakeClock();
  const transport = new ScriptedTransport();
  const executions: Call<Execution>[] = [];
  const lookUps: Call<ReceiptsAsOf>[] = [];
  const settles: (Call<ReceiptsAsOf> & { epoch: string })[] = [];
  const primaries = { epoch: EPOCH_A as string | null };
  /** Why the store sends nothing. */
  const refusal = { cause: null as HighwaterError | null };
  const later = <T, E extends object>(list: (Call<T> & E)[], extra: E): Promise<T> =>
    new Promise((resolve, reject) => list.push({ resolve, reject, ...extra }));
  const store = {
    nodes: [{ id: "a", region: "r", zone: "z" }],
    probe: (node: string) => {
      const { epoch } = primaries;
      if (epoch === null)
        return Promise.reject(Object.assign(new Error("refused"), { code: "ECONNREFUSED" }));
      const epochs = [epochRecord(EPOCH_A), epochRecord(EPOCH_B, { previous: EPOCH_A })];
      const seen = epoch === EPOCH_A ? epochs.slice(0, 1) : epochs;
      return Promise.resolve(nodeReport(node, seen, { incarnation: epoch, serverTimeMs: clock.wallMs() }));
    },
    execute: (_node: string, { onBeforeSend }: TransactionSpec) => {
      if (refusal.cause !== null) return Promise.reject(refusal.cause);
      onBeforeSend?.();
      return later<Execution, object>(executions, {});
    },
    lookUp: () => later<ReceiptsAsOf, object>(lookUps, {}),
    settle: (_node: string, { epoch }: { epoch: string }) => later(settles, { epoch }),
    helpFlush: () => Promise.resolve(ZERO),
    keyChecks: () => Promise.resolve([]),
    addKeyChecks: () => Promise.resolve(),
    pools: () => [],
    observe: () => undefined,
    forget: () => undefined,
    close: () => Promise.resolve(),
  } as Partial<Store> as Store;
  const deps: Deps = {
    clock,
    transport,
    store,
    log: new MemoryLog(),
    rng: { random: () => 0.5 },
    keys: () => assert.fail("no keys here"),
    contentsStore: () => assert.fail("nothing is kept here"),
  };
  const gateway = new Gateway(makeConfig(), deps);
  gateway.start();
  return { gateway, clock, transport, executions, lookUps, settles, primaries, refusal };
}

type Made = ReturnType<typeof makeGateway>;

const caller: Caller = { principal: ANYBODY };

const accepted = (id: TxnId, overrides: Partial<Accepted> = {}): Accepted => ({
  ...{ id, statements: [{ sql: "SELECT 1" }], isolation: "serializable", readOnly: false },
  ...{
    ack: "commit",
    level: "disk",
    maxWaitMs: 1_000,
    metadata: undefined,
    deferrable: false,
    placement: null,
  },
  maxDelayMs: undefined,
  ...overrides,
});

const receipt = (state: ReceiptState, epoch = EPOCH_A): ReceiptsAsOf => ({
  receipts: [state],
  epoch: epoch as EpochId,
  asOf: 70n as Offset,
});

/** Tombstones that were found by now have reached the level at which nothing is at risk. */
const makeSafe = async ({ gateway }: Made): Promise<void> => {
  gateway.marks.advance({ epoch: EPOCH_A, seq: 1, levels: { disk: "70" } });
  await settle();
};

/** Of the body that `accepted` makes. */
const DIGEST = digestOf({ isolation: "serializable", statements: [{ sql: "SELECT 1" }] });

const commitIn = (epoch: string): ReceiptState => ({
  kind: "commit",
  epoch: epoch as EpochId,
  digest: DIGEST,
});
const committed: Execution = { kind: "committed", offset: 50n as Offset, exact: false, results: [] };

/** What became of a request: its answer or the code of its error, once there is one. */
function watch(promise: Promise<CommitResponse>): {
  answer?: CommitResponse;
  code?: string;
  retry?: ProblemDetails;
} {
  const found: { answer?: CommitResponse; code?: string; retry?: ProblemDetails } = {};
  promise.then(
    (answer) => (found.answer = answer),
    (error: unknown) => {
      assert.ok(error instanceof HighwaterError, String(error));
      found.code = error.code;
      found.retry = error.details;
    },
  );
  return found;
}

/** Kinds announced for the id, in order; every batch is acknowledged on the way. */
async function announced({ transport, clock }: Made, id: TxnId): Promise<string[]> {
  for (let round = 0; round < 5; round++) {
    for (const sent of transport.sent) sent.answer(204);
    await clock.advance(3);
  }
  return transport.sent
    .flatMap(({ body }) => body.announcements)
    .filter((one) => one.id === id)
    .map(({ kind, offset }) => (offset === undefined ? kind : `${kind} ${offset}`));
}

async function begin(overrides: Partial<Accepted> = {}) {
  const made = makeGateway();
  await made.clock.advance(10);
  assert.notEqual(made.gateway.primary.current, null);
  const id = newId(made.clock.wallMs());
  const found = watch(made.gateway.transactions.run(accepted(id, overrides), caller));
  await settle();
  assert.equal(made.executions.length, 1);
  return { ...made, id, found };
}

test("committed: intent, then position", async () => {
  const made = await begin();
  made.executions[0]?.resolve(committed);
  await settle();
  assert.deepEqual([made.found.answer?.status, made.found.answer?.body.state], [200, "committed"]);
  assert.deepEqual(await announced(made, made.id), ["intent", "position 50"]);
});

test("an attempt that never commits takes its intent back; one whose id another attempt holds leaves it", async () => {
  const cases: [HighwaterError, string[]][] = [
    [new HighwaterError("statement_failed", { sqlstate: "42601", statement: 0 }), ["intent", "withdrawn"]],
    [new HighwaterError("overloaded", {}), ["intent", "withdrawn"]],
    [new HighwaterError("forbidden", {}), ["intent", "withdrawn"]],
    [new HighwaterError("cancelled", {}), ["intent", "withdrawn"]],
    [new HighwaterError("primary_unavailable", {}), ["intent", "withdrawn"]],
    [new HighwaterError("epoch_changed", {}), ["intent", "withdrawn"]],
    [new HighwaterError("transaction_in_progress", {}), ["intent"]],
  ];
  for (const [error, expected] of cases) {
    const made = await begin();
    made.executions[0]?.reject(error);
    await settle();
    assert.equal(made.found.code, error.code);
    assert.deepEqual(await announced(made, made.id), expected, error.code);
  }
});

test("what the store refuses without running it is not announced", async () => {
  const made = makeGateway();
  await made.clock.advance(10);
  const id = newId(made.clock.wallMs());
  made.refusal.cause = new HighwaterError("transaction_control", { statement: 0 });
  const found = watch(made.gateway.transactions.run(accepted(id), caller));
  assert.deepEqual(await announced(made, id), []);
  assert.equal(found.code, "transaction_control");
});

test("a replay of a commit of this epoch announces the position that was looked up", async () => {
  const made = await begin();
  made.executions[0]?.resolve({ kind: "already_settled" });
  await settle();
  made.lookUps[0]?.resolve(receipt(commitIn(EPOCH_A)));
  await settle();
  assert.equal(made.found.answer?.body.replayed, true);
  assert.equal(made.found.answer.body.results, null);
  assert.deepEqual(await announced(made, made.id), ["intent", "position 70"]);
});

test("a replay of a commit of an earlier epoch announces nothing more; its token names both epochs", async () => {
  const made = await begin();
  made.executions[0]?.resolve({ kind: "already_settled" });
  await settle();
  made.lookUps[0]?.resolve(receipt(commitIn(EPOCH_B), EPOCH_A));
  await settle();
  const token = decodeToken(made.found.answer?.body.token ?? "");
  assert.deepEqual([token?.epoch, token?.attempt, token?.offset], [EPOCH_A, EPOCH_B, 70n]);
  assert.deepEqual(await announced(made, made.id), ["intent"]);
});

test("a replay of an aborted id withdraws, of a lost one does not; of an expired one the outcome is unknown", async () => {
  const cases: [ReceiptState["kind"], string, string[]][] = [
    ["aborted", "transaction_aborted", ["intent", "withdrawn"]],
    ["lost", "transaction_lost", ["intent"]],
    ["expired", "id_expired", ["intent"]],
    ["absent", "epoch_changed", ["intent"]],
  ];
  for (const [kind, code, expected] of cases) {
    const made = await begin();
    made.executions[0]?.resolve({ kind: "already_settled" });
    await settle();
    made.lookUps[0]?.resolve(receipt({ ...commitIn(EPOCH_A), kind } as ReceiptState));
    await settle();
    if (["aborted", "lost"].includes(kind))
      assert.equal(made.found.code, undefined, "a failover could undo it");
    await makeSafe(made);
    assert.equal(made.found.code, code);
    assert.deepEqual(await announced(made, made.id), expected, kind);
  }
});

test("a client that waited for a lost attempt is not asked to run it again when another under its id has committed", async () => {
  for (const [retriedIn, code] of [
    [undefined, "transaction_lost"],
    [EPOCH_B, "commit_unconfirmed"],
  ] as const) {
    const made = await begin({ ack: "durable", maxWaitMs: 60_000 });
    made.executions[0]?.resolve(committed);
    await settle();
    made.primaries.epoch = EPOCH_B;
    let asked: Sent | undefined;
    while (asked === undefined) {
      await made.clock.advance(100);
      asked = made.transport.sent.find(({ url }) => url.endsWith("/verdicts"));
    }
    const [token] = (asked.body as unknown as { tokens: string[] }).tokens;
    const id = made.id;
    const position = { epoch: EPOCH_A, offset: "50" };
    const verdict = { token, id, verdict: "lost", level: "disk", position, rule: "R6 absent", retriedIn };
    const marks = { epoch: EPOCH_B, seq: 2, levels: {} };
    asked.answer(200, JSON.stringify({ verdicts: [verdict], marks }));
    await made.clock.advance(10);
    assert.equal(made.found.code, code);
  }
});

test("an unknown outcome is settled: as committed, or with a tombstone", async () => {
  const cases: [ReceiptState["kind"], string[]][] = [
    ["commit", ["intent", "position 70"]],
    ["aborted", ["intent", "withdrawn"]],
    ["lost", ["intent"]],
  ];
  for (const [kind, expected] of cases) {
    const made = await begin();
    made.executions[0]?.reject(new HighwaterError("commit_unconfirmed"));
    await settle();
    assert.equal(made.settles[0]?.epoch, EPOCH_A);
    made.settles[0].resolve(receipt({ ...commitIn(EPOCH_A), kind } as ReceiptState));
    await settle();
    if (kind !== "commit") assert.equal(made.found.code, undefined, "a failover could undo it");
    await makeSafe(made);
    if (kind === "commit") assert.equal(made.found.answer?.body.replayed, true);
    else assert.equal(made.found.code, `transaction_${kind}`);
    assert.deepEqual(await announced(made, made.id), expected, kind);
  }
});

test("a tombstone that its epoch did not make safe is made again in the next, and only that one is answered", async () => {
  const made = await begin();
  made.executions[0]?.reject(new HighwaterError("commit_unconfirmed"));
  await settle();
  const tombstone = { ...commitIn(EPOCH_A), kind: "aborted" } as ReceiptState;
  made.settles[0]?.resolve(receipt(tombstone));
  await settle();
  made.primaries.epoch = EPOCH_B;
  made.gateway.marks.endEpoch(EPOCH_A);
  await made.clock.advance(1_000);
  made.settles[1]?.reject(new HighwaterError("epoch_changed"));
  await made.clock.advance(1_000);
  assert.equal(made.settles[2]?.epoch, EPOCH_B);
  // The successor does not have it: a copy of the request has committed there meanwhile.
  made.settles[2].resolve(receipt(commitIn(EPOCH_B), EPOCH_B));
  await settle();
  assert.equal(made.found.answer?.body.replayed, true);
  assert.deepEqual(await announced(made, made.id), ["intent"]);
});

test("a replay of an id whose tombstone does not become safe in time is answered with an error to resolve", async () => {
  const made = await begin();
  made.executions[0]?.resolve({ kind: "already_settled" });
  await settle();
  made.lookUps[0]?.resolve(receipt({ ...commitIn(EPOCH_A), kind: "aborted" } as ReceiptState));
  await made.clock.advance(11_000);
  assert.equal(made.found.code, "commit_unconfirmed");
  assert.deepEqual(await announced(made, made.id), ["intent"]);
});

test("settled in a later epoch: the attempt is told apart, and its position is left to the trackers", async () => {
  const made = await begin();
  made.primaries.epoch = null;
  made.executions[0]?.reject(new HighwaterError("commit_unconfirmed"));
  await settle();
  made.settles[0]?.reject(new Error("connection refused"));
  await made.clock.advance(1_000);
  made.primaries.epoch = EPOCH_B;
  await made.clock.advance(1_000);
  assert.equal(made.settles[1]?.epoch, EPOCH_B);
  made.settles[1].resolve(receipt(commitIn(EPOCH_A), EPOCH_B));
  await settle();
  const token = decodeToken(made.found.answer?.body.token ?? "");
  assert.deepEqual([token?.epoch, token?.attempt], [EPOCH_B, EPOCH_A]);
  assert.deepEqual(await announced(made, made.id), ["intent"]);
});

test("without a primary the client gets an answer after ten seconds; the settling goes on, and holds the id", async () => {
  const made = await begin();
  made.primaries.epoch = null;
  made.executions[0]?.reject(new HighwaterError("commit_unconfirmed"));
  await settle();
  made.settles[0]?.reject(new Error("connection lost"));
  await made.clock.advance(9_000);
  assert.equal(made.found.code, undefined);
  await made.clock.advance(1_500);
  assert.equal(made.found.code, "commit_unconfirmed");
  const again = watch(made.gateway.transactions.run(accepted(made.id), caller));
  await settle();
  assert.equal(again.code, "transaction_in_progress");
  made.primaries.epoch = EPOCH_A;
  await made.clock.advance(1_000);
  made.settles.at(-1)?.resolve(receipt({ kind: "aborted", epoch: EPOCH_A as EpochId, digest: 0n }));
  await settle();
  await makeSafe(made);
  assert.deepEqual(await announced(made, made.id), ["intent", "withdrawn"]);
  watch(made.gateway.transactions.run(accepted(made.id), caller));
  await settle();
  assert.equal(made.executions.length, 2, "the id is free again");
});

test("an unknown outcome of a crowd is settled in one call", async () => {
  const made = makeGateway();
  await made.clock.advance(10);
  const ids = [0, 1, 2].map(() => newId(made.clock.wallMs()));
  const found = ids.map((id) => watch(made.gateway.transactions.run(accepted(id), caller)));
  await settle();
  for (const execution of made.executions) execution.reject(new HighwaterError("commit_unconfirmed"));
  await settle();
  assert.equal(made.settles.length, 1);
  const receipts = ids.map(() => ({ kind: "aborted", epoch: EPOCH_A as EpochId, digest: 0n }) as const);
  made.settles[0]?.resolve({ receipts, epoch: EPOCH_A as EpochId, asOf: 70n as Offset });
  await settle();
  await makeSafe(made);
  assert.deepEqual(
    found.map(({ code }) => code),
    ["transaction_aborted", "transaction_aborted", "transaction_aborted"],
  );
});

test("more than sessions and queue can hold are refused before they are announced", async () => {
  const made = makeGateway();
  await made.clock.advance(10);
  const last = newId(made.clock.wallMs());
  const ids = [newId(made.clock.wallMs()), newId(made.clock.wallMs()), newId(made.clock.wallMs()), last];
  const found = ids.map((id) => watch(made.gateway.transactions.run(accepted(id), caller)));
  await settle();
  assert.equal(made.executions.length, 3);
  assert.equal(found[3]?.code, "overloaded");
  assert.deepEqual(await announced(made, last), []);
});

test("a read-only transaction whose connection dies is refused, and never settled", async () => {
  const made = await begin({ readOnly: true });
  made.executions[0]?.reject(new HighwaterError("primary_unavailable"));
  await settle();
  assert.equal(made.found.code, "primary_unavailable");
  assert.equal(made.settles.length, 0);
  assert.deepEqual(await announced(made, made.id), []);
});

/** Transactions that count as exposed: in flight or unknown, and committed. */
function exposed({ gateway }: Made): { reserved: number; pending: number } {
  const text = gateway.metrics.render();
  const read = (state: string): number =>
    Number(new RegExp(`exposure_transactions\\{state="${state}"\\} ([0-9]+)`).exec(text)?.[1]);
  return { reserved: read("reserved"), pending: read("pending") };
}

test("a transaction is exposed from its admission on, until it has come to nothing", async () => {
  const made = await begin();
  assert.deepEqual(exposed(made), { reserved: 1, pending: 0 });
  made.executions[0]?.reject(new HighwaterError("serialization_failure", { sqlstate: "40001" }));
  await settle();
  assert.deepEqual(exposed(made), { reserved: 0, pending: 0 });
});

test("committed, it is exposed until its mark; a read, a replay and what was aborted are not", async () => {
  const made = await begin();
  made.executions[0]?.resolve(committed);
  await settle();
  assert.deepEqual(exposed(made), { reserved: 0, pending: 1 });
  made.gateway.marks.advance({ epoch: EPOCH_A, seq: 1, levels: { disk: "49" } });
  assert.equal(exposed(made).pending, 1);
  made.gateway.marks.advance({ epoch: EPOCH_A, seq: 1, levels: { disk: "50" } });
  assert.equal(exposed(made).pending, 0);

  assert.deepEqual(exposed(await begin({ readOnly: true })), { reserved: 0, pending: 0 });
  const replay = await begin();
  replay.executions[0]?.resolve({ kind: "already_settled" });
  await settle();
  assert.deepEqual(exposed(replay), { reserved: 0, pending: 0 });
  const aborted = await begin();
  aborted.executions[0]?.reject(new HighwaterError("commit_unconfirmed"));
  await settle();
  assert.equal(exposed(aborted).reserved, 1, "no one knows yet");
  aborted.settles[0]?.resolve(receipt({ ...commitIn(EPOCH_A), kind: "aborted" } as ReceiptState));
  await settle();
  assert.equal(exposed(aborted).reserved, 1, "a failover could undo it");
  await makeSafe(aborted);
  assert.deepEqual(exposed(aborted), { reserved: 0, pending: 0 });
});

test("an outcome that cannot be settled stays exposed until it can be; settled in the next epoch it waits for that one's mark", async () => {
  const made = await begin();
  made.primaries.epoch = null;
  made.executions[0]?.reject(new HighwaterError("commit_unconfirmed"));
  await settle();
  made.settles[0]?.reject(new Error("connection refused"));
  await made.clock.advance(3 * 60_000);
  assert.deepEqual(exposed(made), { reserved: 1, pending: 0 });
  made.primaries.epoch = EPOCH_B;
  await made.clock.advance(1_000);
  assert.equal(made.settles.at(-1)?.epoch, EPOCH_B);
  made.settles.at(-1)?.resolve(receipt(commitIn(EPOCH_A), EPOCH_B));
  await settle();
  assert.deepEqual(exposed(made), { reserved: 0, pending: 1 });
  made.gateway.marks.advance({ epoch: EPOCH_A, seq: 1, levels: { disk: "999" } });
  made.gateway.marks.advance({ epoch: EPOCH_B, seq: 2, levels: { disk: "69" } });
  assert.equal(exposed(made).pending, 1);
  made.gateway.marks.advance({ epoch: EPOCH_B, seq: 2, levels: { disk: "70" } });
  assert.equal(exposed(made).pending, 0);
});

test("a fault of the service's own says nothing of what the database has done", async () => {
  const made = makeGateway();
  await made.clock.advance(10);
  const id = newId(made.clock.wallMs());
  const failed = assert.rejects(made.gateway.transactions.run(accepted(id), caller), TypeError);
  await settle();
  made.executions[0]?.reject(new TypeError("a bug"));
  await failed;
  assert.equal(exposed(made).reserved, 1);
  made.settles[0]?.resolve(receipt(commitIn(EPOCH_A)));
  await settle();
  assert.deepEqual(exposed(made), { reserved: 0, pending: 1 });
});
