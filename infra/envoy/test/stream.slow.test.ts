// Goal: a stream passes the edge as it comes, each event at once, and is never cut, however silent it is and however short the
// other timers are; and it ends on both sides when one side ends it. STREAM_TEST_MS sets how long it is watched: with 620000 one
// silence is longer than every timer of the default configuration.
import assert from "node:assert/strict";
import { once } from "node:events";
import { get, type IncomingMessage, type ServerResponse } from "node:http";
import { describe, test } from "node:test";
import { ask, TestEdge, withoutEnvoy } from "./support/edge.ts";
import { Upstream } from "./support/upstream.ts";

/** Of every other answer; a stream that was under it would not live as long as the test. */
const ANSWER_MS = 1_000;
const WATCH_MS = Number(process.env["STREAM_TEST_MS"] ?? "21000");

interface Watched {
  readonly edge: TestEdge;
  /** Sends an event, and answers what of it has arrived. */
  readonly say: (text: string) => Promise<string>;
  /** The client goes; resolves when the tracker has noticed. */
  readonly leave: () => Promise<void>;
}

/** A stream through an edge of its own, with its first event. */
async function watch(stack: AsyncDisposableStack, answerMs?: number): Promise<Watched> {
  const gateway = stack.use(await Upstream.start("g1"));
  const tracker = stack.use(await Upstream.start("t1"));
  const edge = stack.use(
    await TestEdge.start({
      regions: [{ name: "here", gateways: [gateway.node], trackers: [tracker.node] }],
      ...(answerMs !== undefined && { limits: { answerMs } }),
    }),
  );
  let stream: ServerResponse | undefined;
  tracker.act = ({ url }, response) => {
    if (url !== "/v1/durability/stream") return;
    response.writeHead(200, { "content-type": "text/event-stream" });
    stream = response;
    response.write("data: 0\n\n");
  };
  // Not by fetch, whose own timer ends a body that is silent for five minutes.
  const request = get(`${edge.url}/v1/durability/stream`, { agent: false });
  const [answer] = (await once(request, "response")) as [IncomingMessage];
  assert.equal(answer.headers["content-type"], "text/event-stream");
  const texts = answer.setEncoding("utf8")[Symbol.asyncIterator]();
  const next = async (): Promise<string> => {
    const { value = "(the end)" } = (await texts.next()) as { value?: string };
    return value;
  };
  assert.equal(await next(), "data: 0\n\n");
  return {
    edge,
    say: (text) => {
      stream?.write(`data: ${text}\n\n`);
      return next();
    },
    leave: async () => {
      assert.ok(stream);
      const ended = once(stream, "close");
      request.destroy();
      await ended;
    },
  };
}

/** So many silences of one length, and an event behind each. */
async function outlast({ say }: Watched, silences: number): Promise<void> {
  for (let n = 1; n <= silences; n++) {
    await new Promise((resolve) => setTimeout(resolve, WATCH_MS / silences));
    const text = `after silence ${String(n)}`;
    assert.equal(await say(text), `data: ${text}\n\n`);
  }
}

describe("streams", withoutEnvoy, () => {
  test("events arrive one by one, and silence ends nothing", { timeout: WATCH_MS + 120_000 }, async () => {
    await using stack = new AsyncDisposableStack();
    // Beside each other: one under timers that are all short, and one under those of the defaults, silent all the time.
    const [short, long] = [await watch(stack, ANSWER_MS), await watch(stack)];
    // An event is here before the next one is written: nothing on the way collects them.
    for (let n = 1; n <= 100; n++) assert.equal(await short.say(String(n)), `data: ${String(n)}\n\n`);
    // The timer that would end any other answer does so meanwhile.
    const timed = await ask(`${short.edge.url}/v1/durability/marks`);
    assert.equal(timed.status, 503);
    await Promise.all([outlast(short, 3), outlast(long, 1)]);
    for (const each of [short, long]) await each.leave();
  });

  test("more streams than a client library would open are held at once", async () => {
    await using gateway = await Upstream.start("g1");
    await using tracker = await Upstream.start("t1");
    await using edge = await TestEdge.start({
      regions: [{ name: "here", gateways: [gateway.node], trackers: [tracker.node] }],
    });
    tracker.act = (_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write("data: 0\n\n");
    };
    // Above the 1,024 connections, requests and waiting requests that Envoy allows by default.
    const count = 1_200;
    const gone = new AbortController();
    const answers: Response[] = [];
    // Each has a limit of its own to connect, so that they come some at a time; all are held.
    while (answers.length < count)
      answers.push(
        ...(await Promise.all(
          Array.from({ length: 100 }, () =>
            fetch(`${edge.url}/v1/durability/stream`, { signal: gone.signal }),
          ),
        )),
      );
    assert.equal(answers.filter(({ status }) => status === 200).length, count);
    gone.abort();
  });
});
