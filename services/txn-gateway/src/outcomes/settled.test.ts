import assert from "node:assert/strict";
import { test } from "node:test";
import { type EpochId, type Offset } from "@highwater/protocol";
import { type ReceiptState } from "@highwater/store";
import { EPOCH_A, EPOCH_B, newId } from "../../test/support/fakes.ts";
import { refusalOf, settledOf } from "./settled.ts";

const id = newId();
const keys = [
  { id, tag: EPOCH_A },
  { id, tag: EPOCH_B },
] as const;
/** What is found under the second key; there is nothing under the first. */
const settled = (state: ReceiptState) => {
  const receipts = [{ kind: "absent" }, state] as const;
  const settledAs = settledOf(keys, { receipts, epoch: EPOCH_B as EpochId, asOf: 7n as Offset });
  assert.equal(settledAs(keys[0]).kind, "absent");
  return settledAs(keys[1]);
};

test("a receipt of a commit names its attempt, and a position that was read after it", () => {
  assert.deepEqual(settled({ kind: "commit", epoch: EPOCH_A as EpochId, digest: 3n }), {
    kind: "committed",
    attempt: EPOCH_A,
    epoch: EPOCH_B,
    offset: 7n,
    isFirst: true,
    digest: 3n,
  });
});

test("each other state has its own refusal", () => {
  const found = { epoch: EPOCH_B as EpochId, offset: 1n as Offset };
  const refusals = [
    ...(["aborted", "lost"] as const).map((kind) => refusalOf({ kind, ...found }, id)),
    ...(["expired", "out_of_window", "absent"] as const).map((kind) => refusalOf({ kind }, id)),
  ];
  const codes = refusals.map(({ code }) => code);
  assert.deepEqual(codes, [
    "transaction_aborted",
    "transaction_lost",
    "id_expired",
    "id_out_of_window",
    "epoch_changed",
  ]);
  assert.equal(settled({ kind: "aborted", epoch: EPOCH_A as EpochId, digest: 0n }).kind, "aborted");
  assert.equal(settled({ kind: "absent" }).kind, "absent");
});
