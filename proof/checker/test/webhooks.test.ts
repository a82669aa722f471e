// Goal: each loss reaches its owner, under the right ids, and no endpoint gets more than it should.
import assert from "node:assert/strict";
import { test } from "node:test";
import { check } from "../src/check.ts";
import { type Delivery, type Fault, type HistoryRecord, type Subscription } from "../src/index.ts";
import { append, epoch, failure, history, read, type Spec } from "./support/build.ts";
import { assertGood, assertViolates } from "./support/judge.ts";

const write = [append("x", 1)];
const there = { lists: { x: [1] } };
const removed = { lists: {}, epochs: [epoch("e1", null), epoch("e2", "e1", { node: "b" })] };
const moved = failure(20, []);
const mine = { invocation: { owner: "mine" } } as const;
const lost: Spec = { ...mine, does: write, final: "lost" };
const kept: Spec = { ...mine, does: write };

function subscription(overrides: Partial<Subscription> = {}): Subscription {
  return {
    ...{ type: "subscription", atMs: 0, endpoint: "ep", owner: "mine", filter: {} },
    events: ["transaction.lost", "transaction.durable", "promise.broken"],
    ...overrides,
  };
}

type Named = Delivery["transactions"][number];

function named(overrides: Partial<Named> = {}): Named {
  const verdicts = { disk: "lost", region: "lost", global: "lost" } as const;
  return { event: "2.1.aaaaaaaa", txn: "t", attempt: "e1", verdicts, position: null, ...overrides };
}

function delivery(overrides: Partial<Delivery> = {}): Delivery {
  return {
    ...{ type: "delivery", atMs: 100, untilMs: 110, endpoint: "ep", message: "m1", isSigned: true },
    ...{ answer: 204, bytes: 500, digest: "d1", event: "transaction.lost" },
    ...{ sequence: { first: "2.1.aaaaaaaa", last: "2.9.aaaaaaaa" }, transactions: [named()], promises: [] },
    ...overrides,
  };
}

function ofLost(...more: readonly HistoryRecord[]): HistoryRecord[] {
  return history({ t: lost }, removed, [moved, subscription(), ...more]);
}

test("a loss has to be taken by its owner's endpoint, once at least", () => {
  assertGood(ofLost(delivery()));
  const { transactions, explanation } = assertViolates(ofLost(), "webhook.missing");
  assert.deepEqual(transactions, ["t"]);
  assert.match(explanation, /T1 of e1 is lost, and ep of mine has taken none of 0 deliveries/);
  for (const answer of [500, 302, null]) {
    assertViolates(ofLost(delivery({ answer })), "webhook.missing");
    assertGood(ofLost(delivery({ answer }), delivery({ atMs: 200, untilMs: 201 })));
  }
  // Of another attempt, and for an owner that it does not concern.
  const other = delivery({ transactions: [named({ attempt: "e2" })] });
  assertViolates(ofLost(other), "webhook.missing");
  const theirs = subscription({ endpoint: "other", owner: "theirs" });
  assertViolates(ofLost(theirs, delivery({ endpoint: "other" })), "webhook.missing", "webhook.foreign");
});

test("a broken promise must be delivered as well, and a transaction that is not lost must not", () => {
  const reported = [{ by: "promise", tracker: null, atMs: 16 }] as const;
  const broken = { ...lost, reported, final: ["lost", "broken", "lost"] } as const;
  const judged = (...more: readonly HistoryRecord[]): HistoryRecord[] =>
    history({ t: broken }, removed, [moved, subscription(), ...more]);
  assertViolates(judged(), "webhook.missing");
  const verdicts = { disk: "lost", region: "broken", global: "lost" } as const;
  assertGood(judged(delivery({ event: "promise.broken", transactions: [named({ verdicts })] })));
  assertGood(history({ t: kept }, there, [subscription()]));
});

test("a read that all call lost must be delivered, and one that began before the endpoint existed need not", () => {
  const reads: Spec = { ...mine, does: [read("x")], shows: [[]], final: "lost" };
  assertViolates(history({ t: reads }, removed, [moved, subscription()]), "webhook.missing");
  assertGood(history({ t: lost }, removed, [moved, subscription({ atMs: 12 })]));
});

test("an endpoint that has not asked for all losses need not get them", () => {
  for (const asked of [{ events: ["transaction.durable"] }, { filter: { shop: "7" } }])
    assertGood(history({ t: lost }, removed, [moved, subscription(asked)]));
});

test("a delivery is as binding as any other report", () => {
  const durable = named({ verdicts: { region: "durable" }, position: { epoch: "e1", offset: "100" } });
  const reported = delivery({
    message: "m0",
    atMs: 16,
    untilMs: 17,
    event: "transaction.durable",
    transactions: [durable],
  });
  // Reported as lost, and there in the end.
  assertViolates(history({ t: kept }, there, [subscription(), delivery()]), "fate.lost-present");
  // Reported as durable, and absent.
  assertViolates(ofLost(reported, delivery()), "fate.verdict-changed", "fate.durable-absent");
  const range = { event: "2.2.aaaaaaaa", level: "region", epoch: "e1", from: "50", to: "150" } as const;
  const undone = delivery({
    message: "m2",
    digest: "d2",
    event: "promise.broken",
    transactions: [],
    promises: [range],
  });
  assertGood(ofLost(reported, delivery(), undone));
  // The stream of events reported it to others, but not to this endpoint.
  const { event: _, ...broken } = range;
  const rangeReported = { type: "broken_range", atMs: 100, tracker: "near", ...broken } as const;
  assertViolates(ofLost(reported, delivery(), rangeReported), "fate.verdict-changed", "fate.durable-absent");
});

test("a delivery names no transaction of another owner, and none that was never begun", () => {
  const theirs = { does: write, invocation: { owner: "theirs" } };
  assertViolates(history({ t: theirs }, there, [subscription(), durableOf("t")]), "webhook.foreign");
  assertViolates(history({ t: { does: write } }, there, [subscription(), durableOf("t")]), "webhook.foreign");
  assertViolates(history({ t: kept }, there, [subscription(), durableOf("nobody's")]), "webhook.foreign");
  assertGood(history({ t: kept }, there, [subscription(), durableOf("t")]));
});

function durableOf(txn: string): Delivery {
  const transactions = [named({ txn, verdicts: { region: "durable" } })];
  return delivery({ event: "transaction.durable", transactions });
}

test("an endpoint gets what it has asked for", () => {
  const judged = (asked: Partial<Subscription>, metadata = {}): HistoryRecord[] => {
    const spec = { does: write, invocation: { owner: "mine", metadata } };
    return history({ t: spec }, there, [subscription(asked), durableOf("t")]);
  };
  assertViolates(judged({ events: ["transaction.lost"] }), "webhook.unasked");
  assertViolates(judged({ filter: { shop: "7" } }), "webhook.unasked");
  assertViolates(judged({ filter: { shop: "7" } }, { shop: "8" }), "webhook.unasked");
  assertGood(judged({ filter: { shop: "7" } }, { shop: "7", more: "x" }));
});

test("a delivery is signed, and no longer than receivers have to take", () => {
  assertViolates(ofLost(delivery({ isSigned: false })), "webhook.unsigned");
  assertViolates(ofLost(delivery({ bytes: 20_000 })), "webhook.too-long");
  assertGood(ofLost(delivery({ bytes: 19_999 })));
});

test("a repeated delivery is the same, or was recorded again in another epoch", () => {
  const again = { atMs: 200, untilMs: 201, digest: "d2" };
  assertGood(ofLost(delivery({ answer: 500 }), delivery({ ...again, digest: "d1" })));
  const { explanation } = assertViolates(ofLost(delivery(), delivery(again)), "webhook.changed");
  assert.match(explanation, /m1 was sent to ep again, with other words/);
  const later = { sequence: { first: "3.1.bbbbbbbb", last: "3.1.bbbbbbbb" } };
  const anew = { ...again, ...later, transactions: [named({ event: "3.1.bbbbbbbb" })] };
  assertGood(ofLost(delivery(), delivery(anew)));
  const others = { ...anew, transactions: [named({ event: "3.1.bbbbbbbb", attempt: "e2" })] };
  assertViolates(ofLost(delivery(), delivery(others)), "webhook.changed");
});

test("no message is sent twice at a time, unless its sender was stopped or has lost its claim", () => {
  const open = delivery({ atMs: 200_000, untilMs: 202_000, answer: null });
  const judged = (...more: readonly HistoryRecord[]): HistoryRecord[] =>
    ofLost(open, delivery({ atMs: 201_000, untilMs: 201_001 }), ...more);
  assertViolates(judged(), "webhook.at-once");
  assertGood(ofLost(open, delivery({ atMs: 202_001, untilMs: 202_002 })));
  const fault: Fault = {
    ...{ type: "fault", kind: "pause_tracker", target: "near", error: null },
    ...{ atMs: 195_000, untilMs: 200_500 },
  };
  assertGood(judged(fault));
  assertViolates(judged({ ...fault, kind: "pause_gateway" }), "webhook.at-once");
  assertGood(judged(failure(199_000, ["disk", "region", "global"])));
  assertViolates(judged(failure(203_000, [])), "webhook.at-once");
  const clock = {
    type: "clock",
    of: "database",
    name: "a",
    offMs: 1,
    atMs: 199_000,
    untilMs: 200_000,
  } as const;
  assertGood(judged(clock));
  assertViolates(judged({ ...clock, of: "service" }), "webhook.at-once");
});

test("an event's id stands for one event, and for its place among the others of its message", () => {
  const second = { u: { ...mine, does: [append("x", 2)], final: "lost" } } as const;
  const judged = (...events: readonly [string, string]): HistoryRecord[] => {
    const transactions = events.map((event, at) => named({ event, txn: at === 0 ? "t" : "u" }));
    return history({ t: lost, ...second }, removed, [moved, subscription(), delivery({ transactions })]);
  };
  assertGood(judged("2.1.aaaaaaaa", "2.9.aaaaaaaa"));
  assertViolates(judged("2.3.aaaaaaaa", "2.3.aaaaaaaa"), "webhook.event");
  assertViolates(judged("2.3.aaaaaaaa", "2.2.aaaaaaaa"), "webhook.event");
  assertViolates(judged("2.3.aaaaaaaa", "2.10.aaaaaaaa"), "webhook.event");
  // Compared as numbers, not as texts.
  const wide = delivery({ sequence: { first: "2.1.aaaaaaaa", last: "10.1.bbbbbbbb" } });
  assertGood(ofLost(wide));
});

test("a run whose webhooks all stay away proves little", () => {
  const { weak, counts } = check(history({ t: kept }, there, [subscription()]));
  assert.ok(weak.includes("no webhook was delivered"), weak.join("; "));
  assert.deepEqual([counts.deliveries, counts.messages], [0, 0]);
});

test("an owner is sent the id of a transaction that its client does not know, once for each missing answer", () => {
  const unnamed: Spec = {
    ...{ does: write, final: null, receipt: null, answer: { outcome: "unknown", position: null } },
    invocation: { owner: "mine", receipt: false },
  };
  const sent = (...ids: readonly string[]): HistoryRecord[] =>
    ids.map((txn, at) =>
      delivery({
        message: `m${String(at)}`,
        transactions: [named({ txn, event: `2.${String(at + 1)}.aaaaaaaa` })],
      }),
    );
  const records = (...ids: readonly string[]): HistoryRecord[] =>
    history({ a: unnamed }, removed, [moved, subscription(), ...sent(...ids)]);
  assertGood(records("g", "g"));
  assert.equal(check(records("g", "g")).ambiguous.delivery_without_answer, 2);
  assertViolates(records("g", "h"), "webhook.foreign");
});
