// Goal: requests that wait for a verdict look again as soon as there is one, and a loop that is
// stopped comes to rest. Method: the loop without its timers, fed by hand.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { ownedName } from "@highwater/protocol";
import { TEST_DEPLOYMENT } from "@highwater/service/testing";
import { epochId, off, record, txnId } from "../../test/support/core.ts";
import { loadConfig } from "../config.ts";
import { judge, type TrackerEvent } from "../core/index.ts";
import { type LoopDeps, TrackerLoop } from "./loop.ts";
import { type Reports } from "./reports.ts";

/** Takes every call; questions are never answered. */
const silent = new Proxy({}, { get: () => () => new Promise(() => undefined) });
const silentStore = Object.create(silent, { commitsDurably: { value: false } }) as object;
const NODES = [{ id: "a", region: "east", zone: "1", url: "postgresql://a/app" }];

type Timed<T> = T extends { readonly nowMs: number } ? Omit<T, "nowMs"> : never;

interface Fed {
  readonly loop: TrackerLoop;
  readonly calls: string[];
  readonly failures: Error[];
  /** `pass`: every timer ends. */
  readonly clock: { nowMs: number; readonly pass: () => void };
}

function feed(store: object = silentStore, scheduleFault: () => string | null = () => null): Fed {
  const loaded = loadConfig(
    {
      ...TEST_DEPLOYMENT,
      ...{ TRACKER_NAME: "east", TRACKER_REGION: "east", TRACKER_LEDGER: "unused.sqlite" },
      HIGHWATER_TOPOLOGY: JSON.stringify({ nodes: NODES, levels: { disk: { primary: true } } }),
    },
    () => "",
  );
  assert.ok(loaded.ok);
  const timers: (() => void)[] = [];
  const pass = (): void => {
    for (const end of timers.splice(0)) end();
  };
  const time = { nowMs: 1_000, pass };
  const nowMs = (): number => time.nowMs;
  const after = (_ms: number, end: () => void) => {
    timers.push(end);
    return () => undefined;
  };
  const clock = { monotonicMs: nowMs, wallMs: nowMs, after };
  const failures: Error[] = [];
  const onCoreFailure = (cause: Error): void => void failures.push(cause);
  const parts = { store, clock, ledger: silent, log: silent, deploymentKeys: silent };
  const deps = { ...parts, scheduleFault, onCoreFailure };
  const calls: string[] = [];
  const listener = new Proxy({} as Reports, {
    get: (_, name) => () => {
      calls.push(String(name));
    },
  });
  const loop = new TrackerLoop(loaded.config, deps as unknown as LoopDeps);
  loop.subscribe(listener);
  return { loop, calls, failures, clock: time };
}

test("a core that contradicts itself ends the process, and nothing of its step is carried out", () => {
  const { loop, calls, failures, clock } = feed();
  assert.throws(() => {
    loop.dispatch({ kind: "authority_unsettled", nowMs: clock.nowMs - 1, reason: "test", split: false });
  });
  assert.match(failures.join(), /time went back/);
  assert.deepEqual(calls, []);
});

const position = { epoch: epochId(1), offset: off(80) };
const attempt = { id: txnId(1), owner: 7n, attempt: epochId(1) };

function followSecondEpoch(loop: TrackerLoop, clock: Fed["clock"]): (event: Timed<TrackerEvent>) => void {
  const send = (event: Timed<TrackerEvent>): void => {
    loop.dispatch({ ...event, nowMs: ++clock.nowMs });
  };
  const [first, second] = [record(1), record(2, { fork: 50, start: 60 })];
  const node = { node: "a", role: "primary", incarnation: "1", unfit: false, upstream: null } as const;
  for (const epochs of [[first], [first, second]]) {
    send({ kind: "node_reported", askedAtMs: clock.nowMs, ...node, epochs });
    send({ kind: "epoch_followed", epoch: epochId(epochs.length), node: "a" });
  }
  return send;
}

test("a stopped loop does not ask again for a receipt that a closed store refuses", async () => {
  let asked = 0;
  // The limit ends a test that fails: questions without a pause would leave it no time to.
  const settle = async (): Promise<never> => {
    if (++asked > 9) await new Promise(() => undefined);
    throw new Error("closed");
  };
  const { loop, clock } = feed({ settle });
  const send = followSecondEpoch(loop, clock);
  send({ kind: "token_presented", ...attempt, tokenKind: "write", position });
  await turn();
  assert.equal(asked, 1);
  loop.stop();
  await turn();
  assert.equal(asked, 1);
});

test("a tracker whose keys differ, or are not compared yet, asks for no receipt and settles nothing", async () => {
  let fault: string | null = "it lacks key 2";
  let asked = 0;
  const settle = (): Promise<never> => {
    asked++;
    return new Promise(() => undefined);
  };
  const { loop, clock } = feed({ settle }, () => fault);
  const send = followSecondEpoch(loop, clock);
  send({ kind: "token_presented", ...attempt, tokenKind: "write", position });
  await turn();
  assert.equal(asked, 0);
  assert.equal(judge(loop.state, { ...attempt, kind: "write", position }, "disk").rule, "R5 being proven");
  fault = null;
  clock.pass();
  await turn();
  assert.equal(asked, 1, "and it asks as soon as they agree");
  loop.stop();
});

test("clients that wait learn a loss before its event is recorded", async () => {
  const { loop, calls, clock } = feed();
  const send = followSecondEpoch(loop, clock);
  send({
    kind: "positions_reported",
    askedAtMs: clock.nowMs,
    node: "a",
    epoch: epochId(2),
    flushed: off(90),
    replicas: [],
  });
  send({ kind: "token_presented", ...attempt, tokenKind: "write", position });
  let hasChanged = false;
  void loop.changed.then(() => (hasChanged = true));
  const receipts = new Map([[ownedName(attempt), { kind: "lost", epoch: epochId(2) } as const]]);
  send({ kind: "receipts_read", request: 1, epoch: epochId(2), asOf: off(75), receipts });
  await Promise.resolve();
  assert.equal(judge(loop.state, { ...attempt, kind: "write", position }, "disk").verdict, "lost");
  assert.ok(hasChanged);
  assert.ok(calls.includes("onEpochs") && !calls.includes("onVerdict"), calls.join());
});
