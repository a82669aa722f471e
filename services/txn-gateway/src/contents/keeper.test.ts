// Goal: what is kept is what ran and what was answered, it is announced after the position, and a
// limit refuses only those who asked to be kept. Without `keep` nothing is done.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type EpochId,
  HighwaterError,
  type KeptContents,
  LIMITS,
  type Offset,
  type StatementResult,
} from "@highwater/protocol";
import { ANYBODY, ContentsKeys, type Principal } from "@highwater/service";
import { EPOCH_A, FakeClock, MemoryLog, newId, ScriptedTransport, settle } from "../../test/support/fakes.ts";
import { Announcer } from "../trackers/announcer.ts";
import { Keeper, type KeepRequest } from "./keeper.ts";

const [NEAR, FAR] = ["http://near:1", "http://far:2"];
const EPOCH = EPOCH_A as EpochId;
const OFFSET = 5n as Offset;
const STATEMENTS = [{ sql: "INSERT INTO t VALUES ($1)", params: ["the value"] }];
const RESULT: StatementResult = { command: "INSERT", rowCount: 1, fields: [], rows: [] };

interface Options {
  readonly hasKeys?: boolean;
  readonly trackers?: string[];
  readonly keep?: boolean;
  readonly keepBytes?: number;
  readonly replayHoldMs?: number;
  readonly principal?: Principal;
}

function setUp(options: Options = {}) {
  const { principal = ANYBODY } = options;
  const { hasKeys = true, trackers = [NEAR, FAR], keep = false, keepBytes = 1_000 } = options;
  const { replayHoldMs = 1_000 } = options;
  const clock = new FakeClock();
  const transport = new ScriptedTransport();
  const announcer = new Announcer(
    { clock, transport, log: new MemoryLog(), rng: { random: () => 0.5 } },
    {
      ...{ gateway: "g1", region: "r", trackers, maxPending: 1_000, maxContentsBytes: 1_000_000 },
      onContact: () => undefined,
      parentOf: () => null,
    },
  );
  const secret = "a secret of this test with 32 characters";
  const keys = hasKeys ? new ContentsKeys("test", [{ kid: 1, validFromMs: 0, secret }], clock) : null;
  const limits = { keepBytes, keepPendingBytes: 10_000, keepWaitMs: 1_000 };
  const config = { keep, replayHoldMs, ...limits, statementTimeoutMs: 30_000, lockTimeoutMs: 10_000 };
  const keeper = new Keeper({ config, deps: { clock }, contentsKeys: keys, announcer });
  const id = newId();
  const request: KeepRequest = { id, form: "one_shot", isolation: "serializable", readOnly: false };
  const begin = (more: Partial<KeepRequest> = {}) => keeper.begin({ ...request, ...more }, principal);
  const announce = () =>
    announcer.announce(
      { id, primaryEpoch: { epoch: EPOCH }, owner: 0n },
      { level: "region", endsWithinMs: 1 },
    );
  return { clock, transport, announcer, keys, id, begin, announce };
}

type Kept = NonNullable<ReturnType<ReturnType<typeof setUp>["begin"]>>;

function begun(kept: Kept | null): Kept {
  assert.ok(kept !== null);
  kept.check(STATEMENTS);
  kept.add(STATEMENTS);
  return kept;
}

const codeOf = (work: () => unknown): string => {
  try {
    work();
  } catch (cause) {
    return cause instanceof HighwaterError ? cause.code : String(cause);
  }
  return "none";
};

test("contents follow the position on the same way, sealed, and say what ran and what was answered", async () => {
  const { begin, announce, transport, keys, id } = setUp({ trackers: [NEAR] });
  const kept = begun(begin({ keep: true }));
  const announced = announce();
  announced.position(OFFSET);
  kept.committed(announced, { epoch: EPOCH, offset: OFFSET }, [RESULT]);
  await settle();
  const sent = transport.sent[0]?.body.announcements ?? [];
  assert.deepEqual(
    sent.map(({ kind }: { kind: string }) => kind),
    ["intent", "position", "contents"],
  );
  const contents = sent[2] as unknown as { sealed: string; offset: string };
  assert.doesNotMatch(JSON.stringify(sent), /the value|INSERT/);
  const about = { owner: 0n, id, epoch: EPOCH, offset: "5" };
  const text = keys?.open(about, Buffer.from(contents.sealed, "base64url")) ?? "";
  const opened = JSON.parse(text) as KeptContents;
  assert.deepEqual(opened.statements[0]?.params, ["the value"]);
  assert.equal(opened.statements[0]?.result?.command, "INSERT");
  assert.match(opened.digest ?? "", /^[0-9a-f]{64}$/);
});

test("without its results, or with rows left out, a transaction has no digest", async () => {
  for (const results of [null, [{ ...RESULT, truncated: true as const }]]) {
    const { begin, announce, transport, keys, id } = setUp({ trackers: [NEAR] });
    const kept = begun(begin({ keep: true }));
    kept.committed(announce(), { epoch: EPOCH, offset: OFFSET }, results);
    await settle();
    const contents = transport.sent[0]?.body.announcements.at(-1) as unknown as { sealed: string };
    const about = { owner: 0n, id, epoch: EPOCH, offset: "5" };
    const text = keys?.open(about, Buffer.from(contents.sealed, "base64url")) ?? "";
    assert.equal((JSON.parse(text) as KeptContents).digest, null);
  }
});

test("an answer waits until a tracker keeps the contents, all have refused them, or its time is over", async () => {
  const refuse = ({ id, epoch }: { id: string; epoch: string }) =>
    JSON.stringify({ notKept: [{ id, epoch, why: "over_limit" }] });
  const cases: [expected: boolean, answers: ("keep" | "refuse" | "none")[]][] = [
    [true, ["refuse", "keep"]],
    [true, ["keep", "none"]],
    [false, ["refuse", "refuse"]],
    [false, ["none", "none"]],
  ];
  for (const [expected, answers] of cases) {
    const { begin, announce, transport, clock, announcer, id } = setUp();
    const kept = begun(begin({ keep: true }));
    kept.committed(announce(), { epoch: EPOCH, offset: OFFSET }, [RESULT]);
    await settle();
    assert.ok(announcer.contentsPending > 0);
    const reached = kept.whenReached();
    for (const [at, answer] of answers.entries()) {
      if (answer === "keep") transport.sent[at]?.answer(204);
      if (answer === "refuse") transport.sent[at]?.answer(200, refuse({ id, epoch: EPOCH }));
    }
    await settle();
    if (answers.includes("none")) await clock.advance(1_000);
    assert.equal(await reached, expected, answers.join());
    assert.equal(announcer.contentsPending === 0, answers[0] !== "none");
  }
});

test("only writes are kept, and only if the request or the gateway says so", () => {
  assert.equal(setUp().begin(), null);
  assert.equal(setUp({ keep: true }).begin({ keep: false }), null);
  assert.equal(setUp({ keep: true }).begin({ readOnly: true }), null);
  assert.notEqual(setUp({ keep: true }).begin(), null);
  assert.notEqual(setUp().begin({ keep: true }), null);
});

test("a key with a limit keeps by default, up to its limit or the gateway's, whichever is less", () => {
  const ofKey = (keepBytes: number) => ({ ...ANYBODY, limits: { ...ANYBODY.limits, keepBytes } });
  const few = setUp({ principal: ofKey(100) });
  assert.equal(few.begin({ keep: false }), null);
  assert.equal(few.begin({ readOnly: true }), null);
  const sizes = [{ sql: "x".repeat(101) }];
  assert.equal(
    codeOf(() => begun(few.begin({ keep: true })).check(sizes)),
    "contents_too_large",
  );
  assert.equal(
    codeOf(() => begun(few.begin()).check(sizes)),
    "none",
  );
  const many = begun(setUp({ principal: ofKey(50_000) }).begin({ keep: true }));
  assert.equal(
    codeOf(() => many.check(sizes)),
    "none",
  );
  assert.equal(
    codeOf(() => many.check([{ sql: "x".repeat(1_001) }])),
    "contents_too_large",
  );
});

test("a promise to bring it back is kept with it, unless its client waits for durability or nothing is held", () => {
  const asked = { keep: true, onLost: "replay" } as const;
  assert.equal(begun(setUp().begin(asked)).isRedone, true);
  assert.equal(begun(setUp().begin({ ...asked, ack: "durable" })).isRedone, false);
  const kept = begun(setUp().begin(asked));
  kept.acknowledge({ ack: "durable", level: "region" });
  assert.equal(kept.isRedone, false);
  assert.equal(
    codeOf(() => setUp({ replayHoldMs: 0 }).begin(asked)),
    "keep_unavailable",
  );
});

test("a key's onLost counts for writes whose request says nothing, and refuses none of them", () => {
  const principal = { ...ANYBODY, onLost: "replay" } as const;
  const ofKey = setUp({ principal });
  assert.equal(begun(ofKey.begin()).isRedone, true);
  assert.equal(begun(ofKey.begin({ keep: true })).isRedone, true);
  assert.equal(begun(ofKey.begin({ ack: "durable" })).isRedone, false);
  assert.equal(ofKey.begin({ keep: false }), null);
  assert.equal(ofKey.begin({ readOnly: true }), null);
  // The session is kept, and an operator brings it back.
  assert.equal(begun(ofKey.begin({ form: "wire" })).isRedone, false);
  assert.equal(begun(setUp({ principal, replayHoldMs: 0 }).begin()).isRedone, false);
  assert.equal(setUp({ principal, hasKeys: false }).begin(), null);
  // There is no room for the entry that says so.
  const metadata = Object.fromEntries(
    Array.from({ length: LIMITS.metadataEntries }, (_, at) => [String(at), ""]),
  );
  assert.equal(begun(ofKey.begin({ metadata })).isRedone, false);
  const large = begun(ofKey.begin());
  large.add([{ sql: "x".repeat(1_001) }]);
  assert.equal(large.isRedone, false);
});

test("what cannot be kept is refused if the request asks for it, and otherwise runs without", async () => {
  for (const bare of [{ hasKeys: false }, { trackers: [] }]) {
    assert.equal(
      codeOf(() => setUp(bare).begin({ keep: true })),
      "keep_unavailable",
    );
    assert.equal(setUp({ ...bare, keep: true }).begin(), null);
  }
  const large = [{ sql: "SELECT $1", params: ["é".repeat(500)] }];
  const asked = setUp().begin({ keep: true });
  assert.equal(
    codeOf(() => asked?.check(large)),
    "contents_too_large",
  );
  const { begin, announce, transport } = setUp({ keep: true });
  const silent = begun(begin());
  silent.check(large);
  silent.add(large);
  silent.committed(announce(), { epoch: EPOCH, offset: OFFSET }, [RESULT]);
  await settle();
  assert.deepEqual(
    transport.sent[0]?.body.announcements.map(({ kind }: { kind: string }) => kind),
    ["intent"],
  );
  assert.equal(await silent.whenReached(), false);
});

test("while too many contents wait for a tracker, no more are taken", async () => {
  const { begin, announce } = setUp({ keepBytes: 20_000 });
  const kept = begin({ keep: true });
  kept?.add([{ sql: "x".repeat(15_000) }]);
  kept?.committed(announce(), { epoch: EPOCH, offset: OFFSET }, [RESULT]);
  await settle();
  assert.equal(
    codeOf(() => begin({ keep: true })),
    "overloaded",
  );
  assert.equal(
    codeOf(() => begin()),
    "none",
  );
});
