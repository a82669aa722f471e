// Goal: a transaction whose client waits for durability is brought back only if that client was
// answered that it is durable. Otherwise the client may run it again itself, as the SDKs do. On the
// PostgreSQL wire, a client that was not answered may do so, too.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type EpochId, readOrder, type TxnId } from "@highwater/protocol";
import { hopeless } from "./ends.ts";
import { type LostWrite } from "./gather.ts";

type Contents = NonNullable<LostWrite["contents"]>;

const DIGEST = "0".repeat(64);

function lost(contents: Partial<Contents>, more: Partial<LostWrite>): LostWrite {
  return {
    id: "01980f3e-6d2a-7c44-9b1d-3f6a2c8e5d70" as TxnId,
    owner: 0n,
    epoch: "01980f3e-6d2a-4c44-9b1d-3f6a2c8e5d70" as EpochId,
    answered: "yes",
    brokenAt: new Set(),
    state: "kept",
    metadata: undefined,
    contents: {
      ...{ version: 1, form: "one_shot", isolation: "read committed", key: "k", role: null, settings: {} },
      ...{ statements: [], digest: DIGEST, ...contents },
    },
    order: readOrder({ xid: "10", snapshot: "10:11:" }),
    root: null,
    ...more,
  };
}

const UNANSWERED = { outcome: "unrecoverable", reason: "not_known_committed", kind: "unanswered" };
const SAFE = { ack: "durable", level: "region" } as const;

for (const [what, contents, more] of [
  ["was never answered", SAFE, { answered: "no" }],
  ["was answered that it is pending", SAFE, {}],
  ["was answered at a level that was not reached", SAFE, { brokenAt: new Set(["disk"]) }],
  ["did not say what it waits for", { ack: "durable" }, { brokenAt: new Set(["region"]) }],
  ["may not have got its answer", SAFE, { answered: "unknown", brokenAt: new Set(["region"]) }],
] as const)
  test(`a client that waits and ${what} may run it again itself`, () => {
    assert.deepEqual(hopeless(lost(contents, more), "lost"), UNANSWERED);
  });

for (const answered of ["no", "unknown"] as const)
  test(`a client of the wire whose answer was held (${answered}) may run it again itself`, () => {
    assert.deepEqual(hopeless(lost({ form: "wire" }, { answered }), "lost"), UNANSWERED);
  });

test("what was answered as durable, or at its commit, can be brought back", () => {
  assert.equal(hopeless(lost(SAFE, { brokenAt: new Set(["region"]) }), "lost"), null);
  assert.equal(hopeless(lost({}, { answered: "no" }), "lost"), null);
  assert.equal(hopeless(lost({ form: "wire" }, {}), "lost"), null);
});
