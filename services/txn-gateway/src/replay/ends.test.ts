// Goal: a transaction whose client waits for durability is brought back only if that client was
// answered that it is durable. Otherwise the client may run it again itself, as the SDKs do. On the
// PostgreSQL wire, a client that was not answered may do so, too. And a transaction that could not
// be examined counts as one that may have written any row.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type EpochId, readOrder, type TxnId } from "@highwater/protocol";
import { hopeless, type Item, standsAside, toExamine, UNKNOWN } from "./ends.ts";
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

const [OLDER, NEWER] = [
  "01980f3e-0000-4000-8000-000000000001" as EpochId,
  "01980f3e-0000-4000-8000-000000000002" as EpochId,
];

/** Its snapshot shows each transaction below `xid`, but those in `running`. */
function item(xid: number, more: Partial<Item> & { epoch?: EpochId; running?: string } = {}): Item {
  const { epoch = OLDER, running = "", ...about } = more;
  const id = `01980f3e-6d2a-7c44-9b1d-${String(xid).padStart(12, "0")}` as TxnId;
  const snapshot = `${running === "" ? String(xid) : running}:${String(xid + 1)}:${running}`;
  return {
    lost: lost({}, { id, epoch, order: readOrder({ xid: String(xid), snapshot }) }),
    root: { id, tag: "" },
    since: NEWER,
    isOpen: false,
    examined: UNKNOWN,
    end: null,
    ...about,
  };
}

test("one that is back, came later and could not be examined may have written the same row", () => {
  const back = { end: { outcome: "replayed" } } as const;
  const steps = { kind: "steps", steps: [], rows: new Set<string>(), isSchemaUntouched: true } as const;
  for (const [later, reason] of [
    [item(9, { ...back, epoch: NEWER }), "unordered"],
    [item(9, { ...back, running: "5" }), "unordered"],
    [item(9, { ...back, epoch: NEWER, examined: steps }), undefined],
    [item(9, { epoch: NEWER }), undefined],
    [item(9, back), "too_late"],
  ] as const) {
    const items = [item(5, { examined: steps }), later];
    for (const independent of ["none", "rows"] as const)
      assert.equal(standsAside(items, 0, independent)?.reason, reason);
    assert.equal(standsAside(items, 0, "all"), null, "the caller has declared it");
  }
});

test("only what may decide on one that is to be brought back is examined", () => {
  const back = { end: { outcome: "replayed" } } as const;
  const items = [
    item(1, back),
    item(2),
    item(3, back),
    item(4),
    item(5, { ...back, running: "4" }),
    item(6),
    item(1, { ...back, epoch: NEWER }),
  ];
  const placesOf = (...args: [(item: Item) => boolean, "none" | "rows" | "all"]): number[] =>
    toExamine(items, ...args).map((each) => items.indexOf(each));
  const isMine = (each: Item): boolean => each === items[3];
  assert.deepEqual(placesOf(isMine, "none"), [3, 4, 6], "what it may have seen blocks it anyway");
  assert.deepEqual(placesOf(isMine, "rows"), [1, 3, 4, 5, 6], "what is back and came first does not");
  assert.deepEqual(placesOf(isMine, "all"), [1, 3, 4, 5, 6]);
  assert.deepEqual(
    placesOf((each) => each === items[0], "all"),
    [],
    "it is back itself",
  );
});
