// Goal: the console follows a stream through cuts from the last event on, sends its key with every call, and shows the tracker's refusals.
// Method: a stand-in for fetch answers, and the test moves the clock.
import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock, settle } from "@highwater/runtime/testing";
import { Api, ApiError } from "./api.ts";

interface Asked {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

function makeApi(key: string | null, answers: ((asked: Asked) => Response)[]) {
  const clock = new FakeClock();
  const asked: Asked[] = [];
  const fetcher = (path: unknown, init: RequestInit = {}): Promise<Response> => {
    const one = { path: String(path), headers: init.headers as Record<string, string> };
    asked.push(one);
    const answer = answers.shift();
    return answer === undefined ? new Promise(() => undefined) : Promise.resolve(answer(one));
  };
  return { api: new Api(key, clock, fetcher), clock, asked };
}

const streamOf = (text: string): Response =>
  new Response(new Blob([text]).stream(), { headers: { "content-type": "text/event-stream" } });

test("a stream that is cut continues after its last event, a second later", async () => {
  const first = streamOf('id: 1.7\nevent: mark\ndata: {"n":1}\n\nevent: odd\ndata: {}\n\n');
  const { api, clock, asked } = makeApi("hwk_1", [() => first, () => streamOf("id: 1.8\ndata: {}\n\n")]);
  const stop = new AbortController();
  const [messages, connections]: [string[], boolean[]] = [[], []];
  const ended = api.follow({
    path: "/stream",
    signal: stop.signal,
    onMessage: ({ event, data }) => messages.push(`${event ?? ""} ${data}`),
    onConnected: (isConnected) => connections.push(isConnected),
  });
  while (connections.length < 2) await settle();
  assert.deepEqual(messages, ['mark {"n":1}', "odd {}"]);
  assert.equal(asked.length, 1, "it waits before it connects again");
  await clock.advance(1_000);
  while (connections.length < 4) await settle();
  assert.deepEqual(connections, [true, false, true, false]);
  assert.deepEqual(
    asked.map(({ headers }) => [headers["last-event-id"], headers["authorization"]]),
    [
      [undefined, "Bearer hwk_1"],
      ["1.7", "Bearer hwk_1"],
    ],
  );
  stop.abort();
  await ended;
  assert.equal(clock.pendingTimers, 0);
});

test("a refusal has the tracker's code and detail; no answer is status 0", async () => {
  const problem = JSON.stringify({ code: "forbidden", title: "No.", detail: "The key lacks admin." });
  const { api } = makeApi(null, [
    () => new Response(problem, { status: 403 }),
    () => new Response("<html>", { status: 502 }),
    () => {
      throw new TypeError("refused");
    },
  ]);
  const refusalOf = async (): Promise<ApiError> => {
    const refusal: unknown = await api.get("/v1").catch((cause: unknown) => cause);
    assert.ok(refusal instanceof ApiError);
    return refusal;
  };
  const [known, unknown, silent] = [await refusalOf(), await refusalOf(), await refusalOf()];
  assert.deepEqual([known.status, known.code, known.message], [403, "forbidden", "The key lacks admin."]);
  assert.deepEqual([unknown.status, unknown.message], [502, "The tracker answered 502."]);
  assert.equal(silent.status, 0);
});
