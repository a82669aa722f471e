// Races that no real server loses on demand, with a store whose every answer the test gives: a cancellation that comes too late,
// and an id that is asked for again before its session is given back.
import assert from "node:assert/strict";
import { test } from "node:test";
import { HighwaterError, type TxnId } from "@highwater/protocol";
import { nodeReport } from "@highwater/authority/testing";
import { epochRecord } from "@highwater/protocol/testing";
import { type Opening, type OpenTransaction, type Store } from "@highwater/store";
import { EPOCH_A, FakeClock, MemoryLog, newId, ScriptedTransport, settle } from "../../test/support/fakes.ts";
import { loadConfig } from "../config.ts";
import { Gateway } from "../gateway.ts";
import { ANYBODY } from "@highwater/service";
import { TEST_DEPLOYMENT } from "@highwater/service/testing";
import { type AcceptedBegin } from "../txn/request.ts";

class ScriptedTransaction implements OpenTransaction {
  readonly holder = "1/1";
  isOver = false;
  rollbacks = 0;
  finish: () => void = () => assert.fail("nothing runs");

  run(): Promise<[]> {
    return new Promise((resolve) => {
      this.finish = () => {
        resolve([]);
      };
    });
  }

  commit(): Promise<never> {
    return assert.fail("no one commits");
  }

  rollback(): Promise<void> {
    this.rollbacks++;
    this.isOver = true;
    return Promise.resolve();
  }
}

async function makeGateway() {
  const clock = new FakeClock();
  const transaction = new ScriptedTransaction();
  const begins: ((opening: Opening) => void)[] = [];
  const store = {
    nodes: [{ id: "a", region: "r", zone: "z" }],
    probe: (node: string) =>
      Promise.resolve(nodeReport(node, [epochRecord(EPOCH_A)], { serverTimeMs: clock.wallMs() })),
    begin: () => new Promise<Opening>((resolve) => begins.push(resolve)),
    keyChecks: () => Promise.resolve([]),
    addKeyChecks: () => Promise.resolve(),
    forget: () => undefined,
    pools: () => [],
    observe: () => undefined,
    close: () => Promise.resolve(),
  } as Partial<Store> as Store;
  const nodes = [{ id: "a", region: "r", zone: "z", url: "postgresql://a/app" }];
  const levels = { disk: { primary: true } };
  const env = {
    ...TEST_DEPLOYMENT,
    GATEWAY_NAME: "g1",
    GATEWAY_REGION: "r",
    HIGHWATER_TOPOLOGY: JSON.stringify({ nodes, levels }),
  };
  const loaded = loadConfig(env, () => "");
  assert.ok(loaded.ok);
  const gateway = new Gateway(loaded.config, {
    ...{ clock, store, log: new MemoryLog(), transport: new ScriptedTransport() },
    ...{ rng: { random: () => 0.5 }, keys: () => assert.fail("no keys here") },
    contentsStore: () => assert.fail("nothing is kept here"),
  });
  gateway.start();
  await clock.advance(1_000);
  const id = newId(clock.wallMs());
  return { gateway, clock, transaction, begins, id };
}

const beginOf = (id: TxnId): AcceptedBegin => ({
  ...{
    id,
    isolation: "serializable",
    readOnly: false,
    deferrable: false,
    metadata: undefined,
    maxDelayMs: undefined,
    statements: [],
  },
});

const cancelled = (cause: unknown): boolean =>
  cause instanceof HighwaterError && cause.code === "cancelled" && cause.outcome === "not_applied";

test("a statement that is done when its cancellation is on its way: the transaction is over, for what came next could be hit", async () => {
  const { gateway, transaction, begins, id } = await makeGateway();
  const { interactive } = gateway;
  const begun = interactive.begin(beginOf(id), { principal: ANYBODY });
  await settle();
  begins[0]?.({ kind: "open", transaction, results: [] });
  assert.equal((await begun).body.state, "active");
  const client = new AbortController();
  const request = { seq: 1, statements: [{ sql: "SELECT 1" }] };
  const caller = { principal: ANYBODY, signal: client.signal };
  const pinned = interactive.headers.read(interactive.headerOf(id, ANYBODY), ANYBODY);
  assert.ok(pinned !== null);
  const call = interactive.statements(pinned, request, caller);
  await settle();
  client.abort();
  transaction.finish();
  await assert.rejects(call, cancelled);
  assert.deepEqual([interactive.size, transaction.rollbacks], [0, 1]);
  await gateway.stop();
});

test("a begin that is done when its cancellation is on its way opens nothing, and frees its id", async () => {
  const { gateway, transaction, begins, id } = await makeGateway();
  const { interactive } = gateway;
  const client = new AbortController();
  const begun = interactive.begin(beginOf(id), { principal: ANYBODY, signal: client.signal });
  await settle();
  client.abort();
  begins[0]?.({ kind: "open", transaction, results: [] });
  await assert.rejects(begun, cancelled);
  assert.deepEqual([interactive.size, transaction.rollbacks], [0, 1]);
  const again = interactive.begin(beginOf(id), { principal: ANYBODY });
  await settle();
  assert.equal(begins.length, 2, "the id is free");
  begins[1]?.({ kind: "open", transaction: new ScriptedTransaction(), results: [] });
  assert.equal((await again).body.state, "active");
  await gateway.stop();
});

test("one that expires frees its id only when its session is given back", async () => {
  const { gateway, clock, transaction, begins, id } = await makeGateway();
  const { interactive } = gateway;
  let giveBack = (): void => undefined;
  transaction.rollback = () => new Promise((resolve) => (giveBack = resolve));
  const begun = interactive.begin(beginOf(id), { principal: ANYBODY });
  await settle();
  begins[0]?.({ kind: "open", transaction, results: [] });
  await begun;
  await clock.advance(10_000);
  assert.equal(interactive.size, 0);
  const early = interactive.begin(beginOf(id), { principal: ANYBODY });
  await assert.rejects(early, { code: "transaction_in_progress" });
  giveBack();
  await settle();
  const later = interactive.begin(beginOf(id), { principal: ANYBODY });
  await settle();
  begins[1]?.({ kind: "open", transaction: new ScriptedTransaction(), results: [] });
  assert.equal((await later).body.state, "active");
  await gateway.stop();
});
