// Goal: a caller can end its wait, by time or by signal, and then knows what became of the transaction; nothing is left behind. Method:
// every call that waits, in a table, against a service that does not answer: stopped before it begins, in the middle, and by its time.
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test, type TestContext } from "node:test";
import { setImmediate } from "node:timers/promises";
import { type FakeServer, type LiveScript, token } from "@highwater/conformance/fake";
import {
  type CallOptions,
  type Highwater,
  HighwaterError,
  SerializationError,
  type InteractiveTransaction,
  sql,
} from "../src/index.ts";
import { client, service } from "./client-support.ts";

const statement = sql`SELECT 1`;
const HANGS: LiveScript = { transactions: "hang", states: "hang", verdicts: "hang" };

interface Case {
  readonly script?: LiveScript;
  readonly options?: Parameters<typeof client>[2];
  /** Of each random delay the longest. */
  readonly drawsMost?: true;
  /** What comes before; what it gives is waited with. */
  readonly prepare?: (hw: Highwater) => Promise<unknown>;
  readonly wait: (hw: Highwater, options: CallOptions, prepared: unknown) => Promise<unknown>;
  /** Whether the wait has come to where no service answers. */
  readonly isUnderWay: (fake: FakeServer, timersMs: readonly number[]) => boolean;
  /** What the error says of the transaction: stopped before, and in the middle. */
  readonly before: "not_applied" | "applied" | "unknown";
  readonly middle: "not_applied" | "applied" | "unknown";
  /** Where something has to be answered before. By default the time leaves room for an attempt, and no more. */
  readonly lateMs?: number;
  /** When the time is over: the error's code and outcome, or that it resolves. */
  readonly late: readonly [code: string, outcome: string] | "resolves";
}

const PAUSE_MS = 60_000;
const LATE_MS = 200;
/** Longer than a busy machine stalls. */
const ANSWERED_MS = 2_500;
const isPaused = (_fake: FakeServer, timersMs: readonly number[]): boolean =>
  timersMs.some((ms) => ms >= PAUSE_MS);
const isHeld = ({ seen }: FakeServer): boolean => seen.held > 0;
const open = async (hw: Highwater): Promise<InteractiveTransaction> => {
  const tx = await hw.begin();
  await tx.query(statement);
  return tx;
};
const openOf = (prepared: unknown): InteractiveTransaction => prepared as InteractiveTransaction;
/** The error of another transaction, with which a program may cancel the rest. */
const OTHERS = new SerializationError("a conflict", {
  ...{ code: "serialization_failure", outcome: "not_applied", retry: "transaction", open: true },
  transactionId: "01900000-0000-7000-8000-000000000001",
});
const conflict = { problem: "serialization_failure", open: false };
const isStreaming = ({ seen }: FakeServer): boolean => seen.openStreams > 0;
const question = { isUnderWay: isHeld, before: "not_applied", middle: "not_applied" } as const;
const ofDurability = {
  ...({ isUnderWay: isStreaming, before: "applied", middle: "applied" } as const),
  late: ["durability_timeout", "applied"] as const,
};

const CASES: Readonly<Record<string, Case>> = {
  transaction: {
    ...{ script: HANGS, wait: (hw, options) => hw.transaction(statement, options), isUnderWay: isHeld },
    ...{ before: "not_applied", middle: "unknown", late: ["outcome_unknown", "unknown"] },
  },
  "the pause before another attempt": {
    script: { transactions: { problem: "overloaded", retryAfter: PAUSE_MS / 1_000 } },
    options: { totalTimeoutMs: 600_000 },
    ...{ wait: (hw, options) => hw.transaction(statement, options) },
    isUnderWay: isPaused,
    ...{ before: "not_applied", middle: "not_applied", late: ["overloaded", "not_applied"] },
    lateMs: ANSWERED_MS,
  },
  begin: {
    script: { begin: "hang" },
    wait: async (hw, options) => (await hw.begin(options)).query(statement),
    ...{ ...question, late: ["request_timeout", "not_applied"] },
  },
  query: {
    ...{ script: { statements: "hang" }, prepare: open },
    wait: (_hw, options, tx) => openOf(tx).query(statement, options),
    ...{ ...question, late: ["gateway_lost", "not_applied"] },
  },
  "the turn of a query": {
    script: { statements: "hang" },
    prepare: async (hw) => {
      const tx = await open(hw);
      tx.query(statement).catch(() => undefined);
      return tx;
    },
    wait: (_hw, options, tx) => openOf(tx).query(statement, options),
    ...{ ...question, late: ["request_timeout", "not_applied"] },
  },
  commit: {
    ...{ script: { ...HANGS, commit: "hang" }, prepare: open },
    wait: (_hw, options, tx) => openOf(tx).commit(options),
    ...{ isUnderWay: isHeld, before: "not_applied", middle: "unknown", late: ["outcome_unknown", "unknown"] },
  },
  rollback: {
    ...{ script: { rollback: "hang" }, prepare: open },
    wait: (_hw, options, tx) => openOf(tx).rollback(options),
    ...{ ...question, late: "resolves" },
  },
  durable: {
    ...{ ...ofDurability, prepare: (hw: Highwater) => hw.transaction(statement) },
    wait: (hw, options, tx) => hw.promise((tx as { token: string }).token).durable(options),
  },
  "durable of an interactive transaction": {
    ...ofDurability,
    prepare: async (hw: Highwater) => {
      const tx = await open(hw);
      await tx.commit();
      return tx;
    },
    wait: (_hw, options, tx) => openOf(tx).durable(options),
  },
  afterDurable: {
    ...{ ...ofDurability, prepare: (hw: Highwater) => hw.transaction(statement) },
    wait: (hw, options, tx) =>
      hw
        .promise((tx as { token: string }).token)
        .afterDurable(() => assert.fail("it is not durable"), options),
  },
  "durable of a session": {
    ...ofDurability,
    prepare: async (hw: Highwater) => {
      const session = hw.session();
      await session.transaction(statement);
      return session;
    },
    wait: (_hw, options, session) => (session as ReturnType<Highwater["session"]>).durable(options),
  },
  "resume of a session": {
    script: HANGS,
    wait: (hw, options) => hw.session().resume(`hws1.${token(1, 5)}`, options),
    ...{ ...question, late: ["request_timeout", "unknown"] },
  },
  verdicts: {
    ...{ script: HANGS, wait: (hw, options) => hw.verdicts([token(1, 5)], options) },
    ...{ ...question, late: ["request_timeout", "unknown"] },
  },
  status: {
    script: HANGS,
    wait: (hw, options) => hw.status("01900000-0000-7000-8000-000000000000", options),
    ...{ ...question, late: ["request_timeout", "unknown"] },
  },
  "the body of transact": {
    script: { begin: "hang" },
    wait: (hw, options) => hw.transact((tx) => tx.query(statement), options),
    ...{ ...question, late: ["request_timeout", "not_applied"] },
  },
  "the pause of transact": {
    script: { begin: conflict },
    drawsMost: true,
    options: {
      tuning: { conflictBaseMs: PAUSE_MS, backoffMaxMs: PAUSE_MS },
      totalTimeoutMs: 600_000,
    },
    wait: (hw, options) => hw.transact((tx) => tx.query(statement), options),
    isUnderWay: isPaused,
    ...{ before: "not_applied", middle: "not_applied", late: ["serialization_failure", "not_applied"] },
    lateMs: ANSWERED_MS,
  },
  "the durability of transact": {
    ...{ ...ofDurability, before: "not_applied" },
    wait: (hw, options) => hw.transact((tx) => tx.query(statement), { ...options, ack: "durable" }),
    late: ["durability_timeout", "applied"],
    lateMs: ANSWERED_MS,
  },
  close: {
    script: HANGS,
    // The call that it has left behind goes on.
    options: { requestTimeoutMs: 2_000, totalTimeoutMs: 4_000 },
    prepare: (hw) => {
      hw.transaction(statement).catch(() => undefined);
      return Promise.resolve();
    },
    wait: (hw, options) => hw.close(options),
    ...{ isUnderWay: isHeld, before: "unknown", middle: "unknown", late: ["request_timeout", "unknown"] },
  },
};

/** Timers of this package that have neither fired nor been cleared, with their time. */
function countTimers(context: TestContext): Map<unknown, number> {
  const pending = new Map<unknown, number>();
  const { setTimeout: set, clearTimeout: clear } = globalThis;
  context.mock.method(globalThis, "setTimeout", (callback: () => void, ms = 0) => {
    const timer = set(() => {
      pending.delete(timer);
      callback();
    }, ms);
    if (new Error().stack?.includes("/sdk/ts/src/")) pending.set(timer, ms);
    return timer;
  });
  context.mock.method(globalThis, "clearTimeout", (timer: NodeJS.Timeout) => {
    pending.delete(timer);
    clear(timer);
  });
  return pending;
}

const HOW = {
  before: "its signal ends it, before it begins",
  middle: "its signal ends it, in the middle",
  "another's error": "its signal ends it with the error of another call",
  late: "its time ends it",
} as const;

for (const [name, each] of Object.entries(CASES)) {
  for (const way of Object.keys(HOW) as (keyof typeof HOW)[])
    test(`${name}: ${HOW[way]}`, async (context) => {
      const how = way === "another's error" ? "middle" : way;
      if (each.drawsMost === true) context.mock.method(Math, "random", () => 1);
      const timers = countTimers(context);
      const fake = await service(context, each.script);
      const hw = client(context, [fake], { ...each.options });
      const prepared = await each.prepare?.(hw);
      const abort = new AbortController();
      const reason = way === how ? new Error("enough") : OTHERS;
      if (how === "before") abort.abort(reason);
      const requests = fake.calls.length;
      const options = how === "late" ? { timeoutMs: each.lateMs ?? LATE_MS } : { signal: abort.signal };
      const waiting = each.wait(hw, options, prepared);
      if (how === "middle") {
        void waiting.catch(() => undefined);
        while (!each.isUnderWay(fake, [...timers.values()])) await setImmediate();
        abort.abort(reason);
      }
      if (how === "late" && each.late === "resolves") await waiting;
      else
        await assert.rejects(waiting, (error) => {
          assert.ok(error instanceof HighwaterError);
          const [code, outcome] = how === "late" ? each.late : ["call_aborted", each[how]];
          assert.deepEqual([error.code, error.outcome], [code, outcome]);
          if (how !== "late") assert.equal(error.cause, reason);
          return true;
        });
      if (how === "before" && name !== "close") assert.equal(fake.calls.length, requests);
      assert.equal(getEventListeners(abort.signal, "abort").length, 0);
      assert.equal(hw.exposure.count, 0);
      if (name === "close" || name === "the turn of a query") await fake[Symbol.asyncDispose]();
      await fake.until(({ held }) => held === 0);
      await hw.close();
      assert.equal(timers.size, 0);
    });
}
