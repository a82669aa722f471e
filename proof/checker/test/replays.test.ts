// Goal: what was lost is brought back once, by a transaction that names it, with the same result,
// never over something newer, and at the end it is in one class.
import { test } from "node:test";
import { type End, type FinalState } from "../src/index.ts";
import { add, epoch, failure, history, make, scenario, type Spec } from "./support/build.ts";
import { assertGood, assertViolates } from "./support/judge.ts";

const before: Spec = { does: [make("r", 1)] };
const lost: Spec = {
  does: [add("r", 2)],
  shows: [[1, 2]],
  invocation: { keep: true },
  final: "lost",
  receipt: null,
};
const replay: Spec = {
  ...{ epoch: "e2", does: [], receipt: "commit" },
  invocation: { redoOf: "lost", readOnly: false },
};
const newer: Spec = { epoch: "e2", does: [add("r", 3)] };
const rowOf = (log: readonly number[], count = log.length) => ({ rows: [{ key: "r", count, log }] });
const redone = { redone: [{ root: "lost", txn: "replay" }] };
const end = (outcome: End["outcome"], more: Partial<End> = {}): End => ({
  ...{ type: "end", atMs: 900, txn: "lost", attempt: "e1", outcome },
  ...{ reason: outcome === "replayed" ? null : "changed", ...more },
});

function made(
  specs: Readonly<Record<string, Spec>>,
  final: Partial<FinalState>,
  ends: readonly End[] = [end("replayed")],
): ReturnType<typeof history> {
  const epochs = [epoch("e1", null), epoch("e2", "e1")];
  return history(specs, { epochs, ...final }, [scenario({ replays: true }), failure(500, []), ...ends]);
}

test("a lost transaction is brought back by one that names it", () => {
  const all = { before, lost, replay };
  assertGood(made(all, { ...rowOf([1, 2]), ...redone }));
  assertViolates(made(all, rowOf([1, 2])), "atomicity.receipt", "replay.class", "replay.root");
  const unknown = { redone: [...redone.redone, { root: "not sent", txn: "replay" }] };
  assertViolates(made(all, { ...rowOf([1, 2]), ...unknown }), "replay.root");
  assertViolates(made({ before, lost }, { ...rowOf([1]), ...redone }, [end("conflict")]), "replay.root");
});

test("nothing takes effect twice", () => {
  const all = { before, lost, replay };
  assertViolates(made(all, { ...rowOf([1, 2, 2]), ...redone }), "once.value");
  assertViolates(made(all, { ...rowOf([1, 2], 3), ...redone }), "once.value");
  const there = { before, lost: { ...lost, final: "durable", receipt: "commit" }, replay } as const;
  assertViolates(made(there, { ...rowOf([1, 2]), ...redone }), "replay.twice");
  const rerun: Spec = { epoch: "e2", does: [add("r", 4)], invocation: { rerunOf: "lost" } };
  assertViolates(made({ ...all, rerun }, { ...rowOf([1, 2, 4]), ...redone }), "once.rerun");
  assertViolates(made(all, { ...rowOf([1, 2, 5]), ...redone }), "read.garbage");
});

test("a replay has all effects of its root, and what is known not to have committed stays away", () => {
  assertViolates(
    made({ before, lost, replay }, { ...rowOf([1]), ...redone }),
    "atomicity.receipt",
    "replay.result",
  );
  const aborted: Spec = { ...lost, answer: { outcome: "aborted", position: null }, shows: null, final: null };
  assertViolates(
    made({ before, lost: aborted, replay }, { ...rowOf([1, 2]), ...redone }),
    "fate.aborted-present",
  );
  const answer = { outcome: "lost", position: null } as const;
  const answeredLost: Spec = { ...lost, answer, shows: null, invocation: { keep: true, ack: "durable" } };
  assertViolates(
    made({ before, lost: answeredLost, replay }, { ...rowOf([1, 2]), ...redone }),
    "replay.answered-lost",
  );
});

test("a replay writes over nothing newer, and has the result that its client was shown", () => {
  const silent = { ...lost, shows: [null] };
  const all = { before, lost: silent, newer, replay };
  assertGood(made(all, { ...rowOf([1, 2, 3]), ...redone }));
  assertViolates(made(all, { ...rowOf([1, 3, 2]), ...redone }), "replay.overwrites");
  const other: Spec = { does: [add("r", 4)] };
  const early = { before, lost, other, replay };
  assertViolates(made(early, { ...rowOf([1, 4, 2]), ...redone }), "replay.result");
  // It was shown that there is no row.
  const idle: Spec = { ...lost, shows: [[]] };
  assertGood(made({ before, lost: idle, replay }, { ...rowOf([1]), ...redone }));
});

test("each lost transaction is in one class, and the database agrees", () => {
  const all = { before, lost };
  const gone = rowOf([1]);
  assertGood(made(all, gone, [end("conflict")]));
  assertGood(made({ before }, gone, []));
  assertViolates(made(all, gone, []), "replay.class");
  assertViolates(made(all, gone, [end("conflict"), end("unrecoverable")]), "replay.class");
  assertViolates(made(all, gone, [end("unrecoverable", { reason: null })]), "replay.class");
  assertViolates(made(all, gone), "replay.class");
  const again = { ...all, replay: { ...replay, epoch: "e1", receipt: null, final: "lost" } } as const;
  assertGood(made(again, gone, [end("conflict")]));
  assertViolates(made(again, gone, []), "replay.class");
  assertViolates(made(again, gone), "replay.class");
  const back = { ...all, replay };
  assertViolates(made(back, { ...rowOf([1, 2]), ...redone }, [end("conflict")]), "replay.class");
});
