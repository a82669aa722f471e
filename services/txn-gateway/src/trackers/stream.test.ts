import assert from "node:assert/strict";
import { test } from "node:test";
import { type EpochRecord, type ExposureReport, type Marks } from "@highwater/protocol";
import { EPOCH_A, FakeClock, marksOf, MemoryLog, settle } from "../../test/support/fakes.ts";
import { type HttpStream, type ServiceTransport } from "../deps.ts";
import { TrackerOrder } from "./order.ts";
import { TrackerStream } from "./stream.ts";

const NEAR = "http://near:1";
const FAR = "http://far:2";

/** One open stream, to which the test speaks. */
class Line {
  readonly url: string;
  readonly lastEventId: string | undefined;
  readonly #queue: Uint8Array[] = [];
  #wake: () => void = () => undefined;
  #ended = false;

  constructor(url: string, lastEventId: string | undefined, signal: AbortSignal) {
    this.url = url;
    this.lastEventId = lastEventId;
    signal.addEventListener("abort", () => {
      this.end();
    });
  }

  get isOpen(): boolean {
    return !this.#ended;
  }

  say(text: string): void {
    this.#queue.push(new TextEncoder().encode(text));
    this.#wake();
  }

  end(): void {
    this.#ended = true;
    this.#wake();
  }

  async *chunks(): AsyncGenerator<Uint8Array> {
    for (;;) {
      const chunk = this.#queue.shift();
      if (chunk !== undefined) yield chunk;
      else if (this.#ended) return;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}

function makeStream() {
  const clock = new FakeClock();
  const lines: Line[] = [];
  const down = new Set<string>();
  const silent = new Set<string>();
  const transport: ServiceTransport = {
    post: () => Promise.reject(new Error("nothing is posted here")),
    open: (url, headers, signal): Promise<HttpStream> => {
      const base = url.replace("/v1/durability/stream?exposure=true", "");
      if (down.has(base)) return Promise.reject(new Error("connection refused"));
      if (silent.has(base))
        return new Promise((_resolve, reject) => {
          signal.addEventListener("abort", () => {
            reject(new Error("aborted"));
          });
        });
      const line = new Line(base, headers["last-event-id"], signal);
      lines.push(line);
      return Promise.resolve({ status: 200, chunks: line.chunks() });
    },
    close: () => undefined,
  };
  const received: {
    marks: Marks[];
    epochs: (readonly EpochRecord[])[];
    exposure: ExposureReport[];
    failures: number;
  } = {
    marks: [],
    epochs: [],
    exposure: [],
    failures: 0,
  };
  const log = new MemoryLog();
  const stream = new TrackerStream(
    { clock, transport, log, rng: { random: () => 0.5 } },
    {
      trackers: new TrackerOrder(clock, [NEAR, FAR]),
      onMarks: (marks) => received.marks.push(marks),
      onExposure: (report) => received.exposure.push(report),
      onEpochs: (epochs) => received.epochs.push(epochs),
      onContact: () => undefined,
      onAllFailed: () => received.failures++,
    },
  );
  return { clock, lines, down, silent, received, log, stream };
}

const mark = (offset: string, id: string): string =>
  `id: ${id}\nevent: mark\ndata: ${JSON.stringify(marksOf(EPOCH_A, { region: offset }))}\n\n`;

test("events reach their listeners, others and wrong ones do not", async () => {
  const { stream, lines, received, log } = makeStream();
  stream.start();
  await settle();
  assert.equal(stream.connected, NEAR);
  lines[0]?.say(
    `: hello\n\n${mark("5", "1-1")}event: stalled\ndata: {}\n\nevent: mark\ndata: {"epoch":1}\n\n`,
  );
  lines[0]?.say("event: mark\ndata: not json\n\nevent: epoch\ndata: {}\n\n");
  await settle();
  assert.deepEqual(received.marks, [marksOf(EPOCH_A, { region: "5" })]);
  assert.deepEqual(received.epochs, []);
  assert.equal(log.events.filter((event) => event === "tracker_event_refused").length, 3);
  stream.stop();
});

test("what trackers count as exposed is handed on, if it has its shape", async () => {
  const { stream, lines, received, log } = makeStream();
  stream.start();
  await settle();
  const report: ExposureReport = {
    ...{ epoch: EPOCH_A, level: "region", transactions: 3, bytes: "700", oldestMs: 40 },
    ...{ byRegion: { r: 3 }, byGateway: { g1: 1, g2: 2 }, byOwner: { "-5": 3 } },
  };
  lines[0]?.say(`event: exposure\ndata: ${JSON.stringify(report)}\n\n`);
  lines[0]?.say(`event: exposure\ndata: ${JSON.stringify({ ...report, transactions: -1 })}\n\n`);
  await settle();
  assert.deepEqual(received.exposure, [report]);
  assert.equal(log.events.filter((event) => event === "tracker_event_refused").length, 1);
  stream.stop();
});

test("a lost stream is resumed at the same tracker from its last id", async () => {
  const { stream, lines, clock } = makeStream();
  stream.start();
  await settle();
  lines[0]?.say(mark("5", "1-7"));
  await settle();
  lines[0]?.end();
  await clock.advance(100);
  assert.deepEqual([lines[1]?.url, lines[1]?.lastEventId], [NEAR, "1-7"]);
  stream.stop();
});

test("falls over to the next tracker, which knows nothing of the other's ids, and returns", async () => {
  const { stream, lines, clock, down } = makeStream();
  stream.start();
  await settle();
  lines[0]?.say(mark("5", "1-7"));
  await settle();
  down.add(NEAR);
  lines[0]?.end();
  await clock.advance(100);
  assert.deepEqual([lines[1]?.url, lines[1]?.lastEventId], [FAR, undefined]);
  assert.equal(stream.connected, FAR);
  down.delete(NEAR);
  for (let second = 0; second < 60; second += 5) {
    lines[1]?.say(": heartbeat\n\n");
    await clock.advance(5_000);
  }
  await clock.advance(1_000);
  assert.equal(lines[1]?.isOpen, false);
  assert.equal(stream.connected, NEAR);
  stream.stop();
});

test("fifteen seconds of silence end a stream, a heartbeat keeps it", async () => {
  const { stream, lines, clock } = makeStream();
  stream.start();
  await clock.advance(14_000);
  lines[0]?.say(": heartbeat\n\n");
  await clock.advance(14_000);
  assert.equal(lines[0]?.isOpen, true);
  await clock.advance(1_500);
  assert.equal(lines[0]?.isOpen, false);
  assert.ok(lines.length > 1);
  stream.stop();
});

test("a nearest tracker that accepts and sends nothing does not keep the stream from the next", async () => {
  const { stream, lines, clock } = makeStream();
  stream.start();
  await clock.advance(15_100);
  assert.equal(lines[0]?.url, NEAR);
  assert.equal(lines[1]?.url, FAR);
  stream.stop();
});

test("with all trackers down it says so, and tries again ever more slowly", async () => {
  const { stream, received, clock, down } = makeStream();
  down.add(NEAR).add(FAR);
  stream.start();
  await settle();
  assert.equal(received.failures, 1);
  await clock.advance(1_000);
  const early = received.failures;
  await clock.advance(9_000);
  assert.ok(
    early >= 4 && received.failures - early <= 8,
    `${String(early)} then ${String(received.failures)}`,
  );
  stream.stop();
  await clock.advance(60_000);
  assert.equal(clock.pendingTimers, 0);
});

const blind = (isBlind: boolean): string => `event: blind\ndata: ${JSON.stringify({ blind: isBlind })}\n\n`;

test("a tracker that says it is blind is left at once, and not asked again before the other", async () => {
  const { stream, lines, clock } = makeStream();
  stream.start();
  await settle();
  lines[0]?.say(mark("5", "1-7"));
  lines[0]?.say(blind(true));
  await clock.advance(100);
  assert.equal(lines[0]?.isOpen, false);
  assert.equal(stream.connected, FAR);
  assert.equal(stream.isBlind, false);
  lines[1]?.say(": heartbeat\n\n");
  await settle();
  lines[1]?.end();
  await clock.advance(100);
  assert.equal(lines[2]?.url, FAR, "the near one is blind still, as far as is known");
  stream.stop();
});

test("where every tracker is blind the stream stays with one, until that sees again", async () => {
  const { stream, lines, clock } = makeStream();
  stream.start();
  await settle();
  lines[0]?.say(blind(true));
  await clock.advance(100);
  lines[1]?.say(blind(true));
  await clock.advance(100);
  assert.equal(lines.length, 2);
  assert.equal(stream.connected, FAR);
  assert.equal(stream.isBlind, true);
  lines[1]?.say(blind(false));
  await clock.advance(100);
  assert.equal(stream.isBlind, false);
  assert.equal(lines[1]?.isOpen, true);
  stream.stop();
});

test("at a failover the stream goes back to a blind tracker when the other one does not answer", async () => {
  const { stream, lines, clock, silent, received } = makeStream();
  silent.add(FAR);
  stream.start();
  await settle();
  lines[0]?.say(blind(true));
  await settle();
  assert.equal(stream.connected, null);
  await clock.advance(1_200);
  assert.equal(stream.connected, NEAR);
  lines[1]?.say(blind(true));
  await settle();
  assert.equal(stream.connected, NEAR, "the other one is out of reach");
  lines[1]?.say(blind(false) + mark("5", "1-1"));
  await settle();
  assert.deepEqual([lines.length, received.marks.length, stream.isBlind], [2, 1, false]);
  stream.stop();
});

test("a tracker has its time to answer where no other one is blind", async () => {
  const { stream, clock, down, silent, received } = makeStream();
  down.add(NEAR);
  silent.add(FAR);
  stream.start();
  await clock.advance(4_000);
  assert.equal(received.failures, 0, "it is still being opened");
  stream.stop();
});
