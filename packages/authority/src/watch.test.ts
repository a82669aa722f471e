import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { type EpochId, type EpochRecord } from "@highwater/protocol";
import { epochRecord } from "@highwater/protocol/testing";
import { FakeClock, settle } from "@highwater/runtime/testing";
import { type Authority } from "./ancestry.ts";
import { type NodeReport, type NodeSource } from "./nodes.ts";
import { ScriptedLease } from "../test/scripted-lease.ts";
import { nodeReport } from "../test/builders.ts";
import { AuthorityWatcher, type WatcherOptions } from "./watch.ts";

const INTERVAL_MS = 100;
const NODES = ["east", "west"].map((id) => ({ id, region: id, zone: `${id}-a` }));

const epoch = (id: string, previous: string | null, more: Partial<EpochRecord> = {}): EpochRecord =>
  epochRecord(id, { previous, node: "east", cause: "first", forkLimit: "0", ...more });

const e1 = epoch("e1", null);
const e2 = epoch("e2", "e1");

const report = (
  node: string,
  role: "primary" | "replica",
  epochs: readonly EpochRecord[],
  current: string | null,
): NodeReport => nodeReport(node, epochs, { role, current: current as EpochId | null });

describe("the authority watcher", () => {
  let clock: FakeClock;
  let answers: Map<string, NodeReport | Error>;
  let asked: string[];
  let decided: Authority[];
  let unreachable: string[];
  /** Answers that are held back until the test releases them, by node. */
  let held: Map<string, () => void>;
  let isHeld: Set<string>;

  beforeEach(() => {
    clock = new FakeClock();
    clock.nowMs = 0;
    answers = new Map([
      ["east", report("east", "primary", [e1], "e1")],
      ["west", report("west", "replica", [e1], null)],
    ]);
    asked = [];
    decided = [];
    unreachable = [];
    held = new Map();
    isHeld = new Set();
  });

  let watchers: AuthorityWatcher[] = [];
  afterEach(() => {
    for (const watching of watchers) watching.stop();
    watchers = [];
  });

  function watcher(more: Partial<WatcherOptions> = {}): AuthorityWatcher {
    const store = {
      nodes: NODES,
      probe: async (node: string): Promise<NodeReport> => {
        asked.push(node);
        if (isHeld.has(node)) await new Promise<void>((resolve) => held.set(node, resolve));
        const answer = answers.get(node);
        if (answer === undefined || answer instanceof Error) throw answer ?? new Error("no answer");
        return answer;
      },
    } as NodeSource;
    const watching = new AuthorityWatcher({
      store,
      clock,
      intervalMs: INTERVAL_MS,
      known: null,
      onUnreachable: (node) => unreachable.push(node),
      onAuthority: (authority) => decided.push(authority),
      ...more,
    });
    watchers.push(watching);
    return watching;
  }

  async function started(more: Partial<WatcherOptions> = {}): Promise<AuthorityWatcher> {
    const watching = watcher(more);
    watching.start();
    await settle();
    return watching;
  }

  const kinds = (): string[] => decided.map(({ kind }) => kind);
  const refused = Object.assign(new Error("refused"), { code: "ECONNREFUSED" });

  it("asks less often once nothing has happened for a while, and at the old pace as soon as something does", async () => {
    const watching = await started({ calmIntervalMs: 10 * INTERVAL_MS });
    const roundsIn = async (ms: number): Promise<number> => {
      const before = asked.filter((node) => node === "east").length;
      for (let passed = 0; passed < ms; passed += INTERVAL_MS) await clock.advance(INTERVAL_MS);
      return asked.filter((node) => node === "east").length - before;
    };
    assert.equal(await roundsIn(2_000), 20);
    await roundsIn(5_000);
    assert.equal(await roundsIn(2_000), 2, "calm");
    answers.set("west", refused);
    await roundsIn(1_000);
    assert.ok((await roundsIn(1_000)) >= 9, "a node is gone");
    answers.set("west", report("west", "replica", [e1], null));
    await roundsIn(7_000);
    assert.equal(await roundsIn(2_000), 2, "calm again");
    watching.wake();
    await settle();
    assert.ok((await roundsIn(1_000)) >= 9, "somebody has met a fault");
  });

  it("finds the primary once every node has been asked", async () => {
    isHeld.add("west");
    const watching = watcher();
    assert.equal(watching.authority.kind, "none");
    watching.start();
    await settle();
    assert.deepEqual(decided, [], "the first answer alone could be a zombie's");
    held.get("west")?.();
    await settle();
    assert.deepEqual(decided, [{ kind: "primary", node: "east", epoch: "e1" }]);
    assert.equal(watching.known, "e1");
    assert.deepEqual([...watching.reports.keys()].sort(), ["east", "west"]);
  });

  it("a node that keeps silent does not hold the decision up", async () => {
    answers.set("west", new Error("timeout"));
    await started();
    assert.deepEqual(kinds(), ["primary"]);
  });

  it("says nothing new while nothing changes", async () => {
    await started();
    for (let i = 0; i < 5; i++) await clock.advance(INTERVAL_MS);
    assert.equal(asked.length, 12);
    assert.deepEqual(kinds(), ["primary"]);
  });

  it("overlooks one miss, and forgets a node at the second", async () => {
    await started();
    answers.set("east", new Error("timeout"));
    await clock.advance(INTERVAL_MS);
    assert.deepEqual([kinds(), unreachable], [["primary"], []]);
    await clock.advance(INTERVAL_MS);
    assert.deepEqual([kinds(), unreachable], [["primary", "none"], ["east"]]);
    answers.set("east", report("east", "primary", [e1], "e1"));
    await clock.advance(INTERVAL_MS);
    assert.deepEqual(kinds(), ["primary", "none", "primary"]);
  });

  it("forgets a node that refuses at once", async () => {
    await started();
    answers.set("east", refused);
    await clock.advance(INTERVAL_MS);
    assert.deepEqual([kinds(), unreachable], [["primary", "none"], ["east"]]);
  });

  it("asks for an epoch again and again until there is one", async () => {
    answers.set("east", report("east", "primary", [e1], null));
    const watching = await started();
    const once = decided.length;
    await clock.advance(INTERVAL_MS);
    assert.ok(decided.length > once);
    assert.ok(decided.every(({ kind }) => kind === "mint"));
    answers.set("east", report("east", "primary", [e1, e2], "e2"));
    await clock.advance(INTERVAL_MS);
    assert.deepEqual(decided.at(-1), { kind: "primary", node: "east", epoch: "e2" });
    assert.equal(watching.known, "e2");
  });

  it("follows a failover and leaves the zombie behind", async () => {
    await started();
    answers.set("west", report("west", "primary", [e1, e2], "e2"));
    await clock.advance(INTERVAL_MS);
    assert.deepEqual(decided.at(-1), { kind: "primary", node: "west", epoch: "e2" });
    answers.set("west", refused);
    await clock.advance(INTERVAL_MS);
    assert.equal(decided.at(-1)?.kind, "none", "a zombie alone is no primary");
  });

  it("does not follow a history without the epoch that it knew before it started", async () => {
    await started({ known: "e2" as EpochId });
    assert.deepEqual(kinds(), ["none"]);
  });

  it("asks at once when woken", async () => {
    const watching = await started();
    const before = asked.length;
    watching.wake();
    await settle();
    assert.equal(asked.length, before + 2);
    watching.wake();
    await settle();
    assert.equal(asked.length, before + 4, "and again");
  });

  it("says when it asked", async () => {
    const reports: [string, number][] = [];
    await started({ onReport: ({ node }, askedAtMs) => reports.push([node, askedAtMs]) });
    isHeld.add("east");
    await clock.advance(INTERVAL_MS);
    await clock.advance(INTERVAL_MS / 2);
    held.get("east")?.();
    await settle();
    assert.deepEqual(reports.at(-1), ["east", INTERVAL_MS], "an answer is evidence of when it was asked for");
  });

  it("learns a later epoch from others, and never an earlier one", async () => {
    const watching = await started();
    watching.learn([e1, e2], "e2" as EpochId);
    assert.equal(watching.known, "e2");
    assert.equal(decided.at(-1)?.kind, "none", "the node that it can see is a zombie now");
    watching.learn([e1], "e1" as EpochId);
    assert.equal(watching.known, "e2");
    watching.learn([epoch("x1", null)], "x1" as EpochId);
    assert.equal(watching.known, "e2", "another history has nothing to teach");
    const e3 = epoch("e3", "e1", { commanded: true, supersedes: ["e2"] });
    watching.learn([e1, e3], "e3" as EpochId);
    assert.equal(watching.known, "e3", "an operator has overruled");
  });

  it("asks no endpoint after it was stopped", async () => {
    const watching = await started();
    watching.stop();
    await settle();
    const before = asked.length;
    await clock.advance(10 * INTERVAL_MS);
    assert.equal(asked.length, before);
    assert.equal(clock.pendingTimers, 0);
  });

  it("under a lease follows the node that it names, and no node once it has expired", async () => {
    const lease = new ScriptedLease();
    answers.set("west", report("west", "primary", [e1, e2], "e2"));
    const watching = await started({ rule: { kind: "lease", lease } });
    assert.equal(watching.authority.kind, "none");
    lease.names("east", 1_000);
    assert.deepEqual(decided.at(-1), { kind: "primary", node: "east", epoch: "e1" });
    assert.equal(watching.validUntilMs, 1_000);
    lease.names("east", 1_500);
    await clock.advance(1_499);
    assert.equal(watching.authority.kind, "primary", "it was prolonged");
    answers.clear();
    await clock.advance(1);
    assert.deepEqual(decided.at(-1), { kind: "none", reason: "the lease has expired" });
    answers.set("west", report("west", "primary", [e1, e2], "e2"));
    await clock.advance(2 * INTERVAL_MS);
    lease.names("west", 9_000, "2");
    assert.deepEqual(decided.at(-1), { kind: "primary", node: "west", epoch: "e2" });
    watching.wake();
    watching.stop();
    assert.deepEqual([lease.wakes, lease.isStopped], [1, true]);
    const before = decided.length;
    lease.names("east", 9_000, "3");
    await settle();
    assert.deepEqual([decided.length, clock.pendingTimers], [before, 0]);
  });

  it("a process that was held up finds its lease expired before any timer has said so", async () => {
    const lease = new ScriptedLease();
    const watching = await started({ rule: { kind: "lease", lease } });
    lease.names("east", 1_000);
    clock.nowMs = 1_000;
    assert.equal(watching.authority.kind, "primary", "nothing has happened yet");
    assert.equal(watching.authorityNow().kind, "none");
    assert.equal(decided.at(-1)?.kind, "none");
  });

  it("under a lease learns epochs from others, but not which one is current", async () => {
    const lease = new ScriptedLease();
    const watching = await started({ rule: { kind: "lease", lease } });
    lease.names("east", 1_000);
    watching.learn([e1, e2], "e2" as EpochId);
    assert.equal(watching.known, "e1");
    assert.ok(watching.graph.has("e2" as EpochId));
    assert.equal(watching.authority.kind, "primary");
  });

  it("confirms what a node said only under the lease that named it, and without a lease always", async () => {
    const lease = new ScriptedLease();
    const watching = watcher({ rule: { kind: "lease", lease } });
    assert.equal(watching.term, null);
    assert.equal(await watching.confirm("east", watching.term), false);
    lease.names("east", 1_000);
    const { term } = watching;
    assert.equal(await watching.confirm("west", term), false);
    assert.deepEqual(lease.confirmed, []);
    assert.equal(await watching.confirm("east", term), true);
    lease.names("east", 1_000, "2");
    assert.equal(await watching.confirm("east", term), false);
    assert.equal(lease.confirmed.length, 2);
    const free = watcher();
    assert.equal(await free.confirm("east", free.term), true);
    assert.equal(free.validUntilMs, Number.POSITIVE_INFINITY);
  });
});
