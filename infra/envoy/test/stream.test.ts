// Goal: a stream passes the edge as it comes, each event at once, and is cut by nobody, however silent it is and however short the
// other timers are; and it ends on both sides when one side ends it. STREAM_TEST_MS sets how long it is watched.
import assert from "node:assert/strict";
import { type ServerResponse } from "node:http";
import { describe, test } from "node:test";
import { ask, TestEdge, withoutEnvoy } from "./support/edge.ts";
import { Upstream } from "./support/upstream.ts";

/** Of every other answer; a stream that was under it would not live as long as the test. */
const ANSWER_MS = 1_000;
/** Three silences, each longer than any timer that could cut it. */
const WATCH_MS = Number(process.env["STREAM_TEST_MS"] ?? "21000");
const SILENCES = 3;

describe("streams", withoutEnvoy, () => {
  test("events arrive one by one, and silence ends nothing", { timeout: WATCH_MS + 120_000 }, async () => {
    await using gateway = await Upstream.start("g1");
    await using tracker = await Upstream.start("t1");
    await using edge = await TestEdge.start({
      regions: [{ name: "here", gateways: [gateway.node], trackers: [tracker.node] }],
      limits: { answerMs: ANSWER_MS },
    });
    let stream: ServerResponse | undefined;
    tracker.act = ({ url }, response) => {
      if (url !== "/v1/durability/stream") return;
      response.writeHead(200, { "content-type": "text/event-stream" });
      stream = response;
      response.write("data: 0\n\n");
    };
    const gone = new AbortController();
    const answer = await fetch(`${edge.url}/v1/durability/stream`, { signal: gone.signal });
    assert.equal(answer.headers.get("content-type"), "text/event-stream");
    assert.ok(answer.body);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    const next = async (): Promise<string> => (await reader.read()).value ?? "(the end)";
    assert.equal(await next(), "data: 0\n\n");
    assert.ok(stream);
    // An event is here before the next one is written: nothing on the way collects them.
    for (let n = 1; n <= 100; n++) {
      stream.write(`data: ${String(n)}\n\n`);
      assert.equal(await next(), `data: ${String(n)}\n\n`);
    }
    // The timer that would end any other answer does so meanwhile.
    const timed = await ask(`${edge.url}/v1/durability/marks`);
    assert.equal(timed.status, 503);
    for (let n = 1; n <= SILENCES; n++) {
      await new Promise((resolve) => setTimeout(resolve, WATCH_MS / SILENCES));
      stream.write(`data: after silence ${String(n)}\n\n`);
      assert.equal(await next(), `data: after silence ${String(n)}\n\n`);
    }
    const ended = new Promise((resolve) => stream?.once("close", resolve));
    gone.abort();
    await ended;
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
    // Above the 1,024 connections, requests and waiting requests that Envoy allows unless told otherwise.
    const count = 1_200;
    const gone = new AbortController();
    const answers = await Promise.all(
      Array.from({ length: count }, () => fetch(`${edge.url}/v1/durability/stream`, { signal: gone.signal })),
    );
    assert.equal(answers.filter(({ status }) => status === 200).length, count);
    gone.abort();
  });
});
