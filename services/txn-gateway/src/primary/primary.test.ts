import assert from "node:assert/strict";
import { test } from "node:test";
import { type LeaseSource, type LeaseView, type NodeReport } from "@highwater/authority";
import { type EpochRecord, HighwaterError } from "@highwater/protocol";
import { nodeReport } from "@highwater/authority/testing";
import { epochRecord } from "@highwater/protocol/testing";
import { type Store } from "@highwater/store";
import { EPOCH_A, EPOCH_B, FakeClock, MemoryLog, settle } from "../../test/support/fakes.ts";
import { type Deps } from "../deps.ts";
import { Primary, type PrimaryEpoch } from "./primary.ts";

const record = (id: string, seq: number, previous: string | null = null): EpochRecord =>
  epochRecord(id, { seq, previous });

const report = (node: string, epochs: EpochRecord[], overrides: Partial<NodeReport> = {}): NodeReport =>
  nodeReport(node, epochs, { serverTimeMs: 1_800_000_000_000, ...overrides });

/** Its timers come too late, as they do in a process that was held up. */
class LateClock extends FakeClock {
  heldUpMs = 0;
  override monotonicMs(): number {
    return super.monotonicMs() + this.heldUpMs;
  }
}

class ScriptedLease implements LeaseSource {
  view: LeaseView = { kind: "unread" };
  failure = null;
  start = (): void => undefined;
  stop = (): void => undefined;
  wake = (): void => undefined;
  confirm = (): Promise<boolean> => Promise.resolve(false);
  candidates = (): Promise<null> => Promise.resolve(null);
}

function makePrimary(options: { silentMs?: number; lease?: LeaseSource; hasTrackers?: boolean } = {}) {
  const clock = new LateClock();
  const nodes = new Map<string, NodeReport | null>();
  const calls: string[] = [];
  const becamePrimary: [string, string | null][] = [];
  const trackers = { silentMs: options.silentMs ?? 0 };
  const store = {
    nodes: [
      { id: "a", region: "r", zone: "z" },
      { id: "b", region: "s", zone: "y" },
    ],
    probe: (node: string) => {
      const found = nodes.get(node) ?? null;
      return found === null
        ? Promise.reject(Object.assign(new Error("refused"), { code: "ECONNREFUSED" }))
        : Promise.resolve(found);
    },
    prepare: (node: string) => {
      calls.push(`prepare ${node}`);
      nodes.set(node, report(node, []));
      return Promise.resolve();
    },
    mint: (node: string, request: { minSeq: number }) => {
      calls.push(`mint ${node} ${String(request.minSeq)}`);
      const begun = record(EPOCH_A, request.minSeq);
      nodes.set(node, report(node, [begun]));
      return Promise.resolve(begun);
    },
    forget: (node: string) => {
      calls.push(`forget ${node}`);
    },
  } as Partial<Store> as Store;
  const deps = { clock, store, log: new MemoryLog() } as Partial<Deps> as Deps;
  const primary: Primary = new Primary(deps, {
    ...(options.lease === undefined ? {} : { rule: { kind: "lease", lease: options.lease } }),
    probeIntervalMs: 100,
    hasTrackers: options.hasTrackers ?? false,
    sequenceReserve: 0,
    replayHoldMs: 0,
    trackersSilentMs: () => trackers.silentMs,
    knownMarks: () => ({ finalMarks: {}, everywhere: {} }),
    scheduleFault: () => null,
    onEpoch: (primaryEpoch: PrimaryEpoch, ended: PrimaryEpoch | null) => {
      calls.push("epoch");
      becamePrimary.push([primaryEpoch.epoch, ended?.epoch ?? null]);
    },
  });
  return { clock, nodes, calls, becamePrimary, trackers, primary };
}

const refusalCode = async (promise: Promise<unknown>): Promise<string> => {
  try {
    await promise;
  } catch (error) {
    assert.ok(error instanceof HighwaterError && (error.details.retryAfterMs ?? 0) > 0);
    return error.code;
  }
  return "accepted";
};

test("an authoritative primary is served; connections of an ended epoch are dropped before the next is seen", async () => {
  const { primary, nodes, clock, calls, becamePrimary } = makePrimary();
  nodes.set("a", report("a", [record(EPOCH_A, 1)]));
  primary.start();
  await settle();
  assert.deepEqual(primary.current, { node: "a", epoch: EPOCH_A });
  calls.length = 0;
  nodes.set("a", null);
  nodes.set("b", report("b", [record(EPOCH_A, 1), record(EPOCH_B, 2, EPOCH_A)]));
  await clock.advance(200);
  assert.deepEqual(primary.current, { node: "b", epoch: EPOCH_B });
  assert.deepEqual(calls, ["forget a", "forget b", "epoch"]);
  assert.deepEqual(becamePrimary.at(-1), [EPOCH_B, EPOCH_A]);
  assert.equal(primary.isAncestor(EPOCH_A, EPOCH_B), true);
  assert.equal(primary.isAncestor(EPOCH_B, EPOCH_A), false);
  primary.stop();
});

test("while a new epoch's writes are held, reads are admitted, and a write waits and is refused", async () => {
  const { primary, nodes, clock } = makePrimary();
  const held = (heldMs: number | null) => ({ ...report("a", [record(EPOCH_A, 1)]), heldMs });
  nodes.set("a", held(5_000));
  primary.start();
  await settle();
  assert.equal((await primary.admit()).epoch, EPOCH_A);
  const refused = refusalCode(primary.admitWrite());
  await clock.advance(200);
  assert.equal(await refused, "primary_unavailable");
  const admitted = primary.admitWrite();
  nodes.set("a", held(null));
  await clock.advance(100);
  assert.equal((await admitted).epoch, EPOCH_A);
  primary.stop();
});

test("a moment without authority keeps the epoch's connections", async () => {
  const { primary, nodes, clock, calls } = makePrimary();
  nodes.set("a", report("a", [record(EPOCH_A, 1)]));
  primary.start();
  await settle();
  calls.length = 0;
  nodes.set("a", null);
  await clock.advance(200);
  assert.equal(primary.current, null);
  nodes.set("a", report("a", [record(EPOCH_A, 1)]));
  await clock.advance(200);
  assert.notEqual(primary.current, null);
  assert.deepEqual(calls, []);
  primary.stop();
});

test("a request waits a moment for the next primary, and is refused after it", async () => {
  const { primary, nodes, clock } = makePrimary();
  primary.start();
  await settle();
  const early = refusalCode(primary.await(50));
  const patient = primary.await(1_000);
  await clock.advance(60);
  assert.equal(await early, "primary_unavailable");
  nodes.set("a", report("a", [record(EPOCH_A, 1)]));
  await clock.advance(200);
  assert.deepEqual(await patient, { node: "a", epoch: EPOCH_A });
  const late = refusalCode(Promise.resolve(primary.stop()).then(() => primary.await(1_000)));
  assert.equal(await late, "accepted", "the epoch is still known");
});

test("two primaries that lack each other's epoch stop the writes", async () => {
  const { primary, nodes, clock } = makePrimary();
  nodes.set("a", report("a", [record(EPOCH_A, 1)]));
  nodes.set("b", report("b", [record(EPOCH_B, 1)]));
  primary.start();
  await settle();
  const refused = refusalCode(primary.await(10));
  await clock.advance(10);
  assert.equal(await refused, "split_brain");
  primary.stop();
});

test("a node whose history lacks the epoch that a tracker reports is a zombie", async () => {
  const { primary, nodes, clock } = makePrimary();
  nodes.set("a", report("a", [record(EPOCH_A, 1)]));
  primary.learn([record(EPOCH_A, 1), record(EPOCH_B, 2, EPOCH_A)]);
  primary.start();
  await clock.advance(500);
  assert.equal(primary.current, null);
  assert.match(primary.reason(), /every writable node that answers is behind/);
  nodes.set("b", report("b", [record(EPOCH_A, 1), record(EPOCH_B, 2, EPOCH_A)]));
  await clock.advance(500);
  assert.deepEqual(primary.current, { node: "b", epoch: EPOCH_B });
  primary.stop();
});

test("beginning an epoch is left to the trackers while one of them can be reached", async () => {
  const { primary, nodes, clock, calls, trackers } = makePrimary({ silentMs: 0 });
  nodes.set("a", report("a", [], { prepared: false, current: null }));
  primary.start();
  await clock.advance(2_000);
  assert.deepEqual(calls, []);
  trackers.silentMs = 1_999;
  await clock.advance(500);
  assert.deepEqual(calls, []);
  trackers.silentMs = 2_000;
  await clock.advance(500);
  assert.deepEqual(calls, ["prepare a", "mint a 1", "forget a", "epoch"], "each step once");
  assert.deepEqual(primary.current, { node: "a", epoch: EPOCH_A });
  primary.stop();
});

test("an epoch that no tracker begins is begun by a gateway, although a tracker is connected", async () => {
  const { primary, nodes, clock, calls } = makePrimary({ silentMs: 0 });
  nodes.set("a", report("a", [record(EPOCH_A, 1)], { current: null }));
  primary.start();
  await clock.advance(3_900);
  assert.deepEqual(calls, []);
  await clock.advance(500);
  assert.deepEqual(calls, ["mint a 2", "forget a", "epoch"]);
  primary.stop();
});

test("a gateway that has not learned of any epoch from a tracker begins only the first of all, or a commanded one", async () => {
  const options = { silentMs: 60_000, hasTrackers: true };
  const unbegun = report("a", [record(EPOCH_A, 1)], { current: null });
  const first = makePrimary(options);
  first.nodes.set("a", report("a", [], { current: null }));
  const later = makePrimary(options);
  later.nodes.set("a", unbegun);
  const informed = makePrimary(options);
  informed.nodes.set("a", unbegun);
  informed.primary.learn([record(EPOCH_A, 1)]);
  for (const { primary, clock } of [first, later, informed]) {
    primary.start();
    await clock.advance(60_000);
    primary.stop();
  }
  assert.ok(first.calls.includes("mint a 1"));
  assert.deepEqual(later.calls, [], "it may be an older copy of the data");
  assert.ok(informed.calls.includes("mint a 2"));
});

test("a node that has become the next to need an epoch is left to the trackers anew", async () => {
  const { primary, nodes, clock, calls } = makePrimary({ silentMs: 0 });
  const unbegun = (node: string): NodeReport => report(node, [record(EPOCH_A, 1)], { current: null });
  nodes.set("a", unbegun("a"));
  primary.start();
  await clock.advance(3_000);
  nodes.set("a", null);
  nodes.set("b", unbegun("b"));
  await clock.advance(3_000);
  assert.deepEqual(calls, []);
  await clock.advance(2_000);
  assert.deepEqual(calls.at(0), "mint b 2");
  primary.stop();
});

test("the time is the primary's, and goes on between its reports", async () => {
  const { primary, nodes, clock } = makePrimary();
  assert.equal(primary.serverNowMs(), clock.wallMs());
  assert.equal(primary.knownServerMs(), null, "the host's own clock may be wrong, so no id is refused by it");
  nodes.set("a", report("a", [record(EPOCH_A, 1)]));
  nodes.set("b", report("b", [record(EPOCH_A, 1)], { role: "replica", current: null, serverTimeMs: 5 }));
  primary.start();
  await settle();
  primary.stop();
  await clock.advance(10_000);
  assert.equal(primary.knownServerMs(), 1_800_000_010_000);
  await clock.advance(50_000);
  assert.equal(primary.serverNowMs(), 1_800_000_060_000);
  assert.equal(primary.knownServerMs(), null, "the primary's clock may have been wrong, and be right by now");
  await clock.advance(20 * 60_000);
  assert.equal(primary.serverNowMs(), clock.wallMs(), "an old reading is not trusted");
  assert.equal(primary.knownServerMs(), null);
});

test("authority ends with the lease at the moment a request starts, whatever has become of the timers", async () => {
  const lease = new ScriptedLease();
  const { primary, nodes, clock } = makePrimary({ lease });
  nodes.set("a", report("a", [record(EPOCH_A, 1)]));
  nodes.set("b", report("b", [record(EPOCH_A, 1), record(EPOCH_B, 2, EPOCH_A)]));
  const held = (node: string, revision: string): LeaseView => ({
    kind: "held",
    term: { node, revision },
    askedAtMs: 0,
    validUntilMs: clock.monotonicMs() + 5_000,
  });
  lease.view = held("a", "1");
  primary.start();
  await settle();
  assert.deepEqual(primary.current, { node: "a", epoch: EPOCH_A }, "not the one whose history is longer");
  clock.heldUpMs = 4_999;
  assert.notEqual(primary.current, null);
  clock.heldUpMs = 5_000;
  assert.equal(primary.current, null);
  assert.equal(primary.reason(), "the lease has expired");
  const refused = refusalCode(primary.await(10));
  await clock.advance(10);
  assert.equal(await refused, "primary_unavailable");
  lease.view = held("b", "2");
  await clock.advance(200);
  assert.deepEqual(primary.current, { node: "b", epoch: EPOCH_B });
  primary.stop();
});
