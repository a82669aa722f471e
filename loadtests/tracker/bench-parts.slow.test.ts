// What the benchmark of the tracker is made of: the relay's reader, the arithmetic, the parsing of the stream. Then all of it
// once on a real system, so small that it says nothing of speed.
import assert from "node:assert/strict";
import { test } from "node:test";
import { acknowledgedAtMs } from "./acknowledgements.ts";
import { measureAll } from "./bench.ts";
import { latenciesOf } from "./mark-latency.ts";
import { Lender, pace } from "./pace.ts";
import { type Measured, type Parts, resultOf, tableOf } from "./results.ts";
import { StandbyReplies } from "./standby-replies.ts";
import { eventsIn } from "./stream-events.ts";
import { delaysOf, promiseDelays } from "./streams.ts";

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

function typed(type: string, body: Buffer): Buffer {
  return Buffer.concat([Buffer.from(type), int32(4 + body.length), body]);
}

function statusUpdate(positions: Readonly<Record<"written" | "flushed" | "applied", bigint>>): Buffer {
  const body = Buffer.alloc(34);
  body.write("r");
  body.writeBigUInt64BE(positions.written, 1);
  body.writeBigUInt64BE(positions.flushed, 9);
  body.writeBigUInt64BE(positions.applied, 17);
  return typed("d", body);
}

const PARAMETERS = Buffer.from("user\0postgres\0replication\0true\0application_name\0west\0\0");
const CONVERSATION = Buffer.concat([
  int32(8),
  int32(80_877_103),
  int32(8 + PARAMETERS.length),
  int32(196_608),
  PARAMETERS,
  typed("Q", Buffer.from("IDENTIFY_SYSTEM\0")),
  statusUpdate({ written: 500n, flushed: 400n, applied: 300n }),
  // Feedback of a hot standby, which has no positions.
  typed("d", Buffer.from("h12345678901234567890")),
  statusUpdate({ written: 2n ** 40n + 9n, flushed: 2n ** 40n, applied: 0n }),
]);

test("flush positions are read out of what a replica says, wherever its packets are split", () => {
  for (let split = 0; split <= CONVERSATION.length; split++) {
    const replies = new StandbyReplies();
    const flushed = [
      ...replies.push(CONVERSATION.subarray(0, split)),
      ...replies.push(CONVERSATION.subarray(split)),
    ];
    assert.deepEqual(flushed, [400, 2 ** 40], `split at ${String(split)}`);
    assert.equal(replies.applicationName, "west");
  }
});

test("a commit counts from the first acknowledgement that covers it", () => {
  const acknowledgements = { flushed: [100, 200, 300], atMs: [1, 2, 5] };
  assert.equal(acknowledgedAtMs(acknowledgements, 1), 1);
  assert.equal(acknowledgedAtMs(acknowledgements, 100), 1);
  assert.equal(acknowledgedAtMs(acknowledgements, 101), 2);
  assert.equal(acknowledgedAtMs(acknowledgements, 300), 5);
  assert.equal(acknowledgedAtMs(acknowledgements, 301), null);
  // Two commits under one acknowledgement both count.
  assert.deepEqual(latenciesOf([150, 200, 300], [9, 4, 6], acknowledgements), [1, 2, 7]);
  assert.throws(() => latenciesOf([301], [9], acknowledgements), /no replica acknowledged/);
});

const EVENT = (id: string, event: string, data: unknown): string =>
  `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`;

test("marks are found in the stream, wherever it is split and whatever else it contains", () => {
  const text = [
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    `4f\r\n: connected\n\n${EVENT("3.1", "epoch", { epochs: [] })}${EVENT("3.2", "mark", { levels: { region: "17" } })}\r\n`,
    `9\r\n: alive\n\n\r\n30\r\n${EVENT("3.4", "mark", { levels: { region: "20", disk: "21" } })}\r\n`,
    `12\r\n${EVENT("3.5", "exposure", { transactions: 1 })}\r\n`,
  ].join("");
  for (let split = 0; split <= text.length; split++) {
    const first = eventsIn(text.slice(0, split));
    const second = eventsIn(first.rest + text.slice(split));
    const found = [...first.events, ...second.events].map(({ number, levels }) => [number, levels()]);
    assert.deepEqual(
      found,
      [
        [2, { region: "17" }],
        [4, { region: "20", disk: "21" }],
      ],
      `split at ${String(split)}`,
    );
  }
});

const RECEIPTS = {
  streams: Uint16Array.of(1, 0, 0, 1),
  events: Uint32Array.of(7, 7, 9, 9),
  atMs: Float64Array.of(10, 12, 20, 26),
  marks: new Map([
    [7, { region: "100" }],
    [9, { region: "200" }],
  ]),
};

test("a receipt is as late as it is behind the first of the same event", () => {
  assert.deepEqual([...delaysOf(RECEIPTS)], [0, 0, 2, 6]);
});

test("a promise is settled by the first mark at or above it on its own stream", () => {
  const acknowledgements = { flushed: [100, 200], atMs: [9, 18] };
  assert.deepEqual(promiseDelays(RECEIPTS, { offsets: [90, 150], acknowledgements, streams: 2 }), [3, 8]);
  const unseen = { offsets: [201], acknowledgements: { flushed: [300], atMs: [1] }, streams: 2 };
  assert.throws(() => promiseDelays(RECEIPTS, unseen), /never received/);
});

test("an open loop begins everything that is due, and work without a connection waits its turn", async () => {
  const lender = new Lender(["a", "b"]);
  let atOnce = 0;
  let most = 0;
  const all: Promise<void>[] = [];
  const work = async (): Promise<void> => {
    most = Math.max(most, ++atOnce);
    await new Promise((resolve) => setImmediate(resolve));
    atOnce--;
  };
  await pace({ rate: 1_000, durationMs: 50 }, () => all.push(lender.use(work)));
  await Promise.all(all);
  assert.equal(all.length, 50);
  assert.equal(most, 2);
});

const MEASURED: Parts & Measured = {
  idle: { seconds: 10, tracker_cpu_core: 0.005, asked_backends_cpu_core: 0.002 },
  mark_latency: {
    offered_per_second: 1_000,
    commits: 9_000,
    per_second: 999.12345,
    p50_ms: 2,
    p99_ms: 9,
    tracker_cpu_ms_per_1000_commits: 200,
    asked_backends_cpu_ms_per_1000_commits: null,
    rounds: [],
    synchronous_replication: { per_second: 1_000, p50_ms: 0.5, p99_ms: 2, rounds: [] },
    p50_to_synchronous_replication: 4,
  },
  streams: {
    streams: 2_000,
    commits_per_second: 200,
    marks_per_second: 50,
    tracker_cpu_core: 0.5,
    clients_cpu_core: 0.4,
    tracker_kib_per_stream: 8,
    p50_ms: 5,
    p99_ms: 20,
    promise_p50_ms: 6,
    promise_p99_ms: 30,
  },
  ledger: {
    pending: 1_000_000,
    announced_per_second: 50_000,
    resident_mib: 250,
    peak_mib: 280,
    advanced_over: 100_000,
    advance_ms: 40,
    held_up_ms: 50,
    restart_seconds: 4,
    resident_after_restart_mib: 270,
  },
  reconciliation: {
    transactions: 100_000,
    carried_over: 50_000,
    lost: 50_000,
    wrong: 0,
    new_epoch_seconds: 0.4,
    half_seconds: 2,
    all_seconds: 4,
    events_seconds: 9,
    tracker_cpu_seconds: 3,
    server_cpu_seconds: 1,
    tracker_cpu_seconds_with_events: 5,
  },
  load_average: { cores: 2, before: 1, after: 2 },
};

test("bars are met, or each is missed by its own fault", () => {
  const met = resultOf(MEASURED);
  assert.ok(met.bars.length >= 8 && met.bars.every((bar) => bar.met));
  assert.equal(met.mark_latency?.per_second, 999.123);
  const { idle, mark_latency, ledger, reconciliation } = MEASURED;
  const faults: Partial<Measured>[] = [
    { idle: { ...idle, tracker_cpu_core: 0.011 } },
    { mark_latency: { ...mark_latency, p50_ms: 5.1 } },
    { mark_latency: { ...mark_latency, p99_ms: 20.1 } },
    { mark_latency: { ...mark_latency, per_second: 960 } },
    { ledger: { ...ledger, resident_mib: 301 } },
    { ledger: { ...ledger, held_up_ms: 101 } },
    { ledger: { ...ledger, advance_ms: Number.NaN } },
    { reconciliation: { ...reconciliation, all_seconds: 5.1 } },
    { reconciliation: { ...reconciliation, events_seconds: 10.1 } },
    { reconciliation: { ...reconciliation, wrong: 1 } },
  ];
  for (const fault of faults) {
    const missed = resultOf({ ...MEASURED, ...fault }).bars.filter((bar) => !bar.met);
    assert.equal(missed.length, 1, JSON.stringify(fault));
  }
  assert.equal(tableOf(met).split("\n").length, 14);
  const alone = resultOf({ reconciliation, load_average: MEASURED.load_average });
  assert.deepEqual([alone.bars.length, tableOf(alone).split("\n").length], [3, 4]);
});

test("every part runs on a real system, and every verdict is true", async () => {
  const measured = await measureAll(
    {
      ...{ settleMs: 100, idleMs: 200, rate: 100, rounds: 1, roundMs: 500, warmUpMs: 100 },
      ...{ streams: 20, streamsRate: 50, streamsMs: 500 },
      ...{ pending: 2_000, advancedOver: 200, reconciled: 300 },
    },
    { say: () => undefined },
  );
  const { mark_latency, streams, reconciliation, ledger } = measured;
  assert.equal(mark_latency.commits, 50);
  assert.ok(mark_latency.p50_ms >= 0 && mark_latency.synchronous_replication.p50_ms >= 0);
  assert.ok(streams.promise_p99_ms >= 0 && streams.marks_per_second > 0);
  assert.deepEqual([reconciliation.carried_over, reconciliation.lost, reconciliation.wrong], [150, 150, 0]);
  assert.ok(Number.isFinite(ledger.advance_ms) && ledger.restart_seconds > 0);
  assert.match(tableOf(resultOf(measured)), /300 after a failover/);
});
