// Every state of an entry against everything that can happen: a missing cell does not typecheck, and one that
// SPEC.md contradicts fails.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Driven, epochId, off, record, txnId } from "../../test/support/core.ts";
import { type EntryState, type ReceiptFact, type TrackerEvent } from "./index.ts";

type EntryStateKind = EntryState["kind"];
type EventKind = Exclude<TrackerEvent["kind"], "announced"> | "intent" | "position" | "withdrawn";
/** `left`: the entry is not in the ledger any more. */
type Expected = EntryStateKind | "left";

const first = record(1);
/** A worse replica was promoted: what the first epoch has above 50 is not proven to be here. */
const second = record(2, { node: "b", fork: 50, start: 60 });
const third = record(3, { node: "b", fork: 60, start: 90 });
const nobody: ReceiptFact = { kind: "absent" };

/** Brings entry 1 of the first epoch into the state. */
const enter: Record<EntryStateKind, (it: Driven) => void> = {
  intent: (it) => {
    it.follow(first);
    it.intent(1, 1);
  },
  pending: (it) => {
    it.follow(first);
    it.position(1, 1, 80);
  },
  unproven: (it) => {
    enter.asked(it);
    it.send({ kind: "authority_unsettled", reason: "test", split: false });
    it.send({ kind: "receipts_unread", request: it.reads.pop()?.request ?? 0 });
  },
  asked: (it) => {
    enter.pending(it);
    it.follow(first, second);
  },
  absent: (it) => {
    enter.asked(it);
    it.answer(70);
  },
  lost: (it) => {
    enter.absent(it);
    it.positions(70);
  },
  expired: (it) => {
    enter.asked(it);
    it.answer(70, { 1: { kind: "expired" } });
  },
  unknown: (it) => {
    enter.asked(it);
    it.answer(70, { 1: { kind: "out_of_window" } });
  },
};

const happen: Record<EventKind, (it: Driven) => void> = {
  node_reported: (it) => it.report("c", it.state.topology.ancestry),
  node_unreachable: (it) => it.send({ kind: "node_unreachable", node: "c" }),
  // The primary, the only node that is alive, has flushed everything.
  positions_reported: (it) => it.positions(100),
  epoch_followed: (it) => it.follow(first, second, third),
  authority_unsettled: (it) => it.send({ kind: "authority_unsettled", reason: "test", split: false }),
  intent: (it) => it.intent(1, 1),
  position: (it) => it.position(1, 1, 80),
  withdrawn: (it) => it.announce({ kind: "withdrawn", id: txnId(1), epoch: epochId(1) }),
  token_presented: (it) => it.present(1, 1, 80),
  receipts_read: (it) =>
    it.reads.length > 0
      ? it.answer(70)
      : it.send({
          kind: "receipts_read",
          request: 999,
          epoch:
            it.state.topology.standing.kind === "following" ? it.state.topology.standing.epoch : epochId(2),
          asOf: off(70),
          receipts: new Map([[txnId(1), nobody]]),
        }),
  receipts_unread: (it) => it.send({ kind: "receipts_unread", request: it.reads.shift()?.request ?? 999 }),
  peer_verdicts_received: (it) => it.receivePeerVerdict(1, 1, { verdicts: { disk: "broken" } }),
  witnesses_read: (it) =>
    it.send({
      kind: "witnesses_read",
      epoch: epochId(1),
      reached: new Map([["c", off(90)]]),
      marks: new Map(),
    }),
  flush_helped: (it) => it.send({ kind: "flush_helped" }),
  configured: (it) => {
    const { levels, exposureLevel } = it.state.config;
    it.send({ kind: "configured", levels, exposureLevel });
  },
  durable_wanted: (it) => it.send({ kind: "durable_wanted", wanted: true }),
  ticked: (it) => it.sleep(it.state.config.keepVerdictMs),
};

const same = (state: EntryStateKind): Record<EventKind, Expected> => ({
  node_reported: state,
  node_unreachable: state,
  positions_reported: state,
  epoch_followed: state,
  authority_unsettled: state,
  intent: state,
  position: state,
  withdrawn: state,
  token_presented: state,
  receipts_read: state,
  receipts_unread: state,
  peer_verdicts_received: "lost",
  witnesses_read: state,
  flush_helped: state,
  configured: state,
  durable_wanted: state,
  ticked: state,
});

/** While there is a primary, unproven entries are asked for in the same step, so that `unproven` is only seen without one. */
const TABLE: Record<EntryStateKind, Record<EventKind, Expected>> = {
  intent: {
    node_reported: "intent",
    node_unreachable: "intent",
    positions_reported: "intent",
    epoch_followed: "intent",
    authority_unsettled: "intent",
    intent: "intent",
    position: "pending",
    withdrawn: "left",
    token_presented: "pending",
    receipts_read: "intent",
    receipts_unread: "intent",
    peer_verdicts_received: "intent",
    witnesses_read: "intent",
    flush_helped: "intent",
    configured: "intent",
    durable_wanted: "intent",
    ticked: "asked",
  },
  pending: {
    node_reported: "pending",
    node_unreachable: "pending",
    positions_reported: "left",
    epoch_followed: "asked",
    authority_unsettled: "pending",
    intent: "pending",
    position: "pending",
    withdrawn: "pending",
    token_presented: "pending",
    receipts_read: "pending",
    receipts_unread: "pending",
    peer_verdicts_received: "pending",
    witnesses_read: "pending",
    flush_helped: "pending",
    configured: "pending",
    durable_wanted: "pending",
    ticked: "pending",
  },
  unproven: { ...same("unproven"), epoch_followed: "asked" },
  asked: { ...same("asked"), receipts_read: "absent" },
  absent: { ...same("absent"), epoch_followed: "asked", positions_reported: "lost" },
  lost: { ...same("lost"), ticked: "left" },
  expired: { ...same("expired"), ticked: "left" },
  unknown: { ...same("unknown"), ticked: "left" },
};

const EVENTS = Object.keys(happen) as EventKind[];

for (const [state, row] of Object.entries(TABLE) as [EntryStateKind, Record<EventKind, Expected>][])
  test(`transitions from ${state}`, () => {
    for (const event of EVENTS) {
      // One level, so that the primary's flush alone completes an entry.
      const it = new Driven({ levels: [{ name: "disk", rule: { primary: true } }] });
      enter[state](it);
      assert.equal(it.stateOf(1, 1), state, `the entry is ${state} to begin with`);
      happen[event](it);
      assert.equal(it.stateOf(1, 1) ?? "left", row[event], `${state} on ${event}`);
    }
  });

const SPEC = readFileSync(new URL("../../SPEC.md", import.meta.url), "utf8");

test("SPEC.md has the same table", () => {
  const rows = SPEC.split("\n")
    .filter((line) => line.startsWith("| `"))
    .map((line) => line.split("|").map((cell) => cell.trim().replaceAll("`", "")))
    .map((cells) => cells.slice(1, -1));
  for (const event of EVENTS) {
    const documented = rows.find((cells) => cells.length === 9 && cells[0] === event);
    assert.ok(documented, `SPEC.md has no row for ${event}`);
    const expected = Object.entries(TABLE).map(([state, row]) => (row[event] === state ? "·" : row[event]));
    assert.deepEqual(documented.slice(1), expected, event);
  }
});

test("SPEC.md names tests that exist", () => {
  const named = [...SPEC.matchAll(/Tests?: (.*)$/gm)].flatMap(([, list]) =>
    [...(list ?? "").matchAll(/"([^"]+)"/g)].map(([, name]) => name ?? ""),
  );
  assert.ok(named.length > 10);
  const files = [
    "marks",
    "positions",
    "epochs",
    "reappear",
    "reads",
    "learned",
    "peer-verdicts",
    "ledger",
    "latecomers",
    "transitions",
    "service",
    "synchronous",
    "losses",
    "held",
    "survivors",
    "presented",
    "departed",
    "promises",
    "ownership",
    "position-only",
    "met-by-commit",
  ].map((name) => `${name}.test.ts`);
  const sources = [
    ...files,
    "../../sim/sim.test.ts",
    "../../sim/regressions.test.ts",
    "marks.prop.test.ts",
    "restore.prop.test.ts",
    "backlog.prop.test.ts",
  ]
    .map((name) => readFileSync(new URL(name, import.meta.url), "utf8"))
    .join("\n");
  for (const name of named) assert.ok(sources.includes(`"${name}"`), `no test is called "${name}"`);
});
