// Goal: the time line of a transaction has its moments in order, with a time only where one is known.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type DurabilityEvent, type EpochRecord, makeUuidV7 } from "@highwater/protocol";
import { MarkHistory } from "./mark-history.ts";
import { type LevelVerdict, type Life, momentsOf } from "./timeline.ts";

const FIRST = "11111111-1111-4111-8111-111111111111";
const SECOND = "22222222-2222-4222-8222-222222222222";
const MADE_MS = 1_700_000_000_000;
const ID = makeUuidV7(MADE_MS, new Uint8Array(10));

const record = (id: string, seq: number, node: string): EpochRecord => ({
  cause: seq === 1 ? "first" : "promotion",
  ...{ id, seq, node, previous: seq === 1 ? null : FIRST },
  ...{ startedAt: "2026-11-28T12:00:00.000Z", startOffset: "1", forkOffset: "90", forkLimit: null },
  ...{ supersedes: [], commanded: false, finalMarks: {} },
});

const verdict = (level: string, changes: Partial<LevelVerdict> = {}): LevelVerdict => ({
  verdict: "durable",
  ...{ level, rule: "R1 mark", position: { epoch: FIRST, offset: "100" } },
  ...changes,
});

const life = (changes: Partial<Life>): Life => ({
  ...{ id: ID, verdicts: [], events: [], epochs: [record(FIRST, 1, "east")], marks: {} },
  history: new MarkHistory(),
  ...changes,
});

test("a durable level has the time at which the page saw its mark pass; a waiting one says what is missing", () => {
  const history = new MarkHistory();
  history.note(MADE_MS, { epoch: FIRST, seq: 1, levels: { disk: "100", region: "40" } });
  history.note(MADE_MS + 60, { epoch: FIRST, seq: 1, levels: { disk: "100", region: "100", global: "40" } });
  const moments = momentsOf(
    life({
      history,
      marks: { global: "40" },
      verdicts: [
        verdict("disk"),
        verdict("region"),
        verdict("global", { verdict: "pending", rule: "R4 waiting" }),
      ],
    }),
  );
  assert.deepEqual(
    moments.map(({ title, atMs }) => [title, atMs]),
    [
      ["Announced", MADE_MS],
      ["Committed", null],
      ["Durable at disk", null],
      ["Durable at region", MADE_MS + 60],
      ["Pending at global", null],
    ],
  );
  assert.match(moments.at(-1)?.detail ?? "", /The mark is 60 B short of it\./);
  assert.match(moments[1]?.detail ?? "", /epoch 1 on east/);
});

test("after a failover, the epochs and the recorded events follow", () => {
  const began: DurabilityEvent = {
    id: "2.1.22222222",
    type: "epoch.started",
    at: "2026-11-28T12:00:00.500Z",
    data: {
      ...{ epoch: SECOND, seq: 2, previous: FIRST, node: "west", cause: "promotion" },
      ...{ forkOffset: "90", complete: false, unlisted: 0 },
    },
  };
  const event: DurabilityEvent = {
    id: "2.1.22222222",
    type: "transaction.lost",
    at: "2026-11-28T12:00:01.000Z",
    data: { id: ID, attempt: FIRST, verdicts: { region: "lost" }, rule: "R6 absent", settledAt: "global" },
  };
  const moments = momentsOf(
    life({
      epochs: [record(FIRST, 1, "east"), record(SECOND, 2, "west")],
      events: [began, event],
      verdicts: [verdict("region", { verdict: "lost", rule: "R6 absent", settledAt: "global" })],
    }),
  );
  assert.deepEqual(
    moments.map(({ title, tone }) => [title, tone]),
    [
      ["Announced", "neutral"],
      ["Committed", "neutral"],
      ["Another epoch began", "neutral"],
      ["Lost at region", "bad"],
      ["Reported as lost", "bad"],
    ],
  );
  assert.equal(moments[2]?.atMs, Date.parse(began.at));
  assert.match(moments[2]?.detail ?? "", /^Epoch 2 has begun on west \(a promotion\)\..* up to 0\/5A\.$/);
  assert.match(moments[3]?.detail ?? "", /its id can never commit.*level global/);
});

test("a position without an id was never announced", () => {
  const [first] = momentsOf(
    life({ id: "00000000-0000-0000-0000-000000000000", verdicts: [verdict("region")] }),
  );
  assert.equal(first?.title, "Committed");
});
