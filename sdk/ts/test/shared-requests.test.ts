// Goal: transactions share requests without a wait of their own, and share nothing else. Method: a scripted `fetch` and a driven
// clock below the client's retries; the scenarios of sdk/conformance share requests with a whole client.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { setImmediate } from "node:timers/promises";
import fc from "fast-check";
import { sharing } from "../src/shared-requests.ts";
import { type Answer, type Init, type Send } from "../src/transport.ts";

const URL_ = "https://highwater.example/v1/transactions";
const GATHER_MS = 1;

interface Sent {
  readonly url: string;
  readonly init: RequestInit;
  /** The transactions of a shared request, or the one that is alone. */
  readonly ids: readonly string[];
  readonly traceparents: readonly string[] | undefined;
  readonly answer: (response: Response) => void;
  readonly fail: (cause: unknown) => void;
}

class World {
  readonly sent: Sent[] = [];
  readonly send: Send;
  readonly #context: TestContext;

  constructor(context: TestContext) {
    this.#context = context;
    context.mock.timers.enable({ apis: ["setTimeout"] });
    this.send = sharing((url, init) => this.#fetch(url, init), GATHER_MS);
  }

  #fetch(url: string, init: RequestInit): Promise<Response> {
    const { promise, resolve, reject } = Promise.withResolvers<Response>();
    const { signal } = init;
    if (signal?.aborted === true) reject(signal.reason as Error);
    signal?.addEventListener("abort", () => {
      reject(signal.reason as Error);
    });
    const body = JSON.parse(init.body as string) as {
      id: string;
      transactions?: { id: string }[];
      traceparents?: string[];
    };
    const ids = (body.transactions ?? [body]).map(({ id }) => id);
    this.sent.push({ url, init, ids, traceparents: body.traceparents, answer: resolve, fail: reject });
    return promise;
  }

  begin(id: string, own: Partial<Init> & { url?: string; size?: number } = {}): Promise<Answer> {
    const { url = URL_, size = 0, headers = {}, signal = new AbortController().signal } = own;
    const body = JSON.stringify({ id, sql: "x".repeat(size) });
    const answer = this.send(url, { method: "POST", headers, body, signal });
    answer.catch(() => undefined);
    return answer;
  }

  /** Whatever the program does without waiting for the network or a timer is done. */
  async turn(): Promise<void> {
    await setImmediate();
  }

  async pass(ms: number): Promise<void> {
    this.#context.mock.timers.tick(ms);
    await this.turn();
  }

  /** The requests since the last call, as the ids in each. */
  async left(): Promise<readonly (readonly string[])[]> {
    await this.turn();
    return this.sent.splice(0).map(({ ids }) => ids);
  }

  async next(): Promise<Sent> {
    await this.turn();
    const [sent] = this.sent.splice(0, 1);
    assert.ok(sent !== undefined, "a request has left");
    return sent;
  }
}

const lineOf = (index: number, body: unknown, status = 200): string =>
  `${JSON.stringify({ index, status, body })}\n`;
const answerAll = ({ ids, answer }: Sent): void => {
  if (ids.length === 1) answer(Response.json({ id: ids[0] }));
  else answer(new Response(ids.map((id, index) => lineOf(index, { id })).join("")));
};
/** The body of a response, as it arrives. */
function streamed(): {
  response: Response;
  write: (text: string | Uint8Array) => void;
  end: () => void;
  cut: () => void;
} {
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const writer = writable.getWriter();
  const write = (text: string | Uint8Array): void => {
    void writer
      .write(typeof text === "string" ? new TextEncoder().encode(text) : text)
      .catch(() => undefined);
  };
  const end = (): void => void writer.close();
  const cut = (): void => void writer.abort(new TypeError("terminated"));
  return { response: new Response(readable), write, end, cut };
}

test("one alone leaves at once, as a request of its own", async (context) => {
  const world = new World(context);
  const headers = { authorization: "Bearer x", traceparent: "00-1" };
  const answer = world.begin("a", { headers });
  const { url, init, answer: reply } = await world.next();
  assert.equal(url, URL_);
  assert.deepEqual(init.headers, headers);
  reply(Response.json({ id: "a" }, { headers: { "retry-after": "3" } }));
  const { status, body, headers: own } = await answer;
  assert.deepEqual([status, body, own?.get("retry-after")], [200, { id: "a" }, "3"]);
});

test("what begins in the same turn leaves together, and each gets its own answer, in any order", async (context) => {
  const world = new World(context);
  const answers = ["a", "b", "c"].map((id) => world.begin(id));
  const request = await world.next();
  assert.deepEqual([request.url, request.ids], [`${URL_}/batch`, ["a", "b", "c"]]);
  const { response, write } = streamed();
  request.answer(response);
  write(lineOf(2, { id: "c" }));
  assert.deepEqual(await answers[2], { index: 2, status: 200, body: { id: "c" } });
  write(lineOf(0, { id: "a" }) + lineOf(1, { code: "b" }, 409));
  assert.deepEqual(await answers[0], { index: 0, status: 200, body: { id: "a" } });
  assert.deepEqual(await answers[1], { index: 1, status: 409, body: { code: "b" } });
});

test("what begins while a request is on its way leaves together when that is answered", async (context) => {
  const world = new World(context);
  void world.begin("a");
  const first = await world.next();
  void world.begin("b");
  await world.turn();
  void world.begin("c");
  assert.deepEqual(await world.left(), []);
  answerAll(first);
  assert.deepEqual(await world.left(), [["b", "c"]]);
});

test("no one waits longer than the bound: for an answer that does not come, or beside one that is slow", async (context) => {
  const world = new World(context);
  void world.begin("slow");
  await world.next();
  void world.begin("b");
  await world.turn();
  void world.begin("c");
  assert.deepEqual(await world.left(), []);
  await world.pass(GATHER_MS);
  assert.deepEqual(await world.left(), [["b", "c"]]);
  await world.pass(GATHER_MS);
  void world.begin("d");
  assert.deepEqual(await world.left(), [["d"]], "the last request has left long ago");
});

test("a caller that has its answer can send its next one along", async (context) => {
  const world = new World(context);
  const loop = async (id: string): Promise<void> => {
    for (let at = 0; at < 3; at++) await world.begin(`${id}${String(at)}`);
  };
  void loop("a");
  void loop("b");
  for (let at = 0; at < 3; at++) {
    const request = await world.next();
    assert.deepEqual(request.ids, [`a${String(at)}`, `b${String(at)}`]);
    if (at === 0) {
      // Another one waits already; it leaves with the two.
      void world.begin("c");
      await world.turn();
    }
    answerAll(request);
    if (at === 0) assert.deepEqual((await world.next()).ids, ["c", "a1", "b1"]);
    if (at === 0) break;
  }
});

test("a full request does not wait, and a long transaction goes alone", async (context) => {
  const world = new World(context);
  void world.begin("first");
  await world.next();
  const many = Array.from({ length: 130 }, (_, at) => String(at));
  for (const id of many) void world.begin(id);
  void world.begin("long", { size: 20_000 });
  assert.deepEqual(
    (await world.left()).map(({ length }) => length),
    [64, 64, 1],
  );
  await world.pass(GATHER_MS);
  assert.deepEqual(await world.left(), [["128", "129"]]);
});

test("other callers and other gateways go by themselves; each keeps its own trace", async (context) => {
  const world = new World(context);
  const as = (authorization: string, traceparent?: string) => ({
    headers: { authorization, ...(traceparent !== undefined && { traceparent, tracestate: traceparent }) },
  });
  void world.begin("1", as("one", "t1"));
  void world.begin("2", as("two", "t2"));
  void world.begin("3", as("one"));
  void world.begin("4", { ...as("one"), url: "https://other.example/v1/transactions" });
  void world.begin("5", { headers: { authorization: "one", baggage: "a=b" } });
  void world.begin("6", as("two"));
  void world.begin("7", as("one", "t7"));
  await world.turn();
  const shared = world.sent.filter(({ ids }) => ids.length > 1);
  assert.deepEqual(
    shared.map(({ ids, traceparents, init }) => [ids, traceparents, init.headers]),
    [
      [["1", "3", "7"], ["t1", "", "t7"], { authorization: "one" }],
      [["2", "6"], ["t2", ""], { authorization: "two" }],
    ],
  );
  assert.equal(world.sent.length, 4);
  world.sent.splice(0).forEach(answerAll);
  void world.begin("8", as("three"));
  void world.begin("9", as("three"));
  assert.deepEqual((await world.next()).traceparents, ["", ""]);
});

test("a refusal of the whole is each one's refusal", async (context) => {
  const world = new World(context);
  const answers = ["a", "b"].map((id) => world.begin(id));
  const { answer } = await world.next();
  answer(Response.json({ code: "overloaded" }, { status: 503, headers: { "retry-after": "7" } }));
  for (const { status, headers, body } of await Promise.all(answers))
    assert.deepEqual([status, headers?.get("retry-after"), body], [503, "7", { code: "overloaded" }]);
});

test("a gateway that does not take them together gets them one by one", async (context) => {
  for (const status of [413, 400, 405, 404]) {
    const world = new World(context);
    const both = (): Promise<Answer[]> => Promise.all(["a", "b"].map((id) => world.begin(id)));
    const answers = both();
    (await world.next()).answer(new Response(null, { status }));
    await world.turn();
    assert.deepEqual(
      world.sent.map(({ url, ids }) => [url, ids]),
      [
        [URL_, ["a"]],
        [URL_, ["b"]],
      ],
    );
    world.sent.splice(0).forEach(answerAll);
    assert.deepEqual(
      (await answers).map(({ body }) => body),
      [{ id: "a" }, { id: "b" }],
    );
    void both();
    assert.deepEqual(await world.left(), [["a", "b"]], String(status));
    context.mock.timers.reset();
  }
});

test("a failure of the request is the failure of each that has no answer", async (context) => {
  const world = new World(context);
  const refused = Object.assign(new TypeError("fetch failed"), { cause: { code: "ECONNREFUSED" } });
  const never = ["a", "b"].map((id) => world.begin(id));
  (await world.next()).fail(refused);
  for (const each of never) await assert.rejects(each, (error) => error === refused);
  for (const how of ["cut", "short", "garbage"]) {
    const [without, has] = ["a", "b"].map((id) => world.begin(id)) as [Promise<Answer>, Promise<Answer>];
    const { response, write, end, cut } = streamed();
    (await world.next()).answer(response);
    write(lineOf(1, { id: "b" }));
    assert.deepEqual((await has).body, { id: "b" });
    if (how === "cut") cut();
    if (how === "garbage") write("no JSON\n");
    if (how === "short") end();
    await assert.rejects(without, Error);
  }
});

test("who gives up leaves the others; when all have, the request is given up, and not before", async (context) => {
  const world = new World(context);
  void world.begin("first");
  await world.next();
  const leave = Array.from({ length: 3 }, () => new AbortController());
  const [early, late, last] = leave.map(({ signal }, at) => world.begin(String(at), { signal }));
  leave[0]?.abort(new Error("before it was sent"));
  await assert.rejects(early ?? Promise.resolve(), /before it was sent/);
  await world.pass(GATHER_MS);
  const request = await world.next();
  assert.deepEqual(request.ids, ["1", "2"]);
  leave[1]?.abort(new Error("enough"));
  await assert.rejects(late ?? Promise.resolve(), /enough/);
  assert.equal(request.init.signal?.aborted, false);
  const { response, write, end } = streamed();
  request.answer(response);
  write(lineOf(0, { id: "1" }) + lineOf(1, { id: "2" }));
  assert.deepEqual((await last)?.body, { id: "2" });
  leave[2]?.abort();
  assert.equal(request.init.signal?.aborted, false, "only a reusable connection is left");
  end();

  await world.pass(GATHER_MS);
  const both = [new AbortController(), new AbortController()];
  const given = both.map(({ signal }, at) => world.begin(String(at), { signal }));
  const second = await world.next();
  for (const each of both) each.abort();
  for (const each of await Promise.allSettled(given)) assert.equal(each.status, "rejected");
  assert.equal(second.init.signal?.aborted, true);
});

test("a request ends when only callers that have given up lack an answer", async (context) => {
  const world = new World(context);
  const leave = new AbortController();
  const gone = world.begin("gone", { signal: leave.signal });
  const other = world.begin("other");
  const request = await world.next();
  const { response, write } = streamed();
  request.answer(response);
  leave.abort(new Error("enough"));
  await assert.rejects(gone, /enough/);
  assert.equal(request.init.signal?.aborted, false);
  write(lineOf(1, { id: "other" }));
  assert.deepEqual((await other).body, { id: "other" });
  assert.equal(request.init.signal?.aborted, true);
});

test("a platform without streams gets the answers when all are there", async (context) => {
  const world = new World(context);
  const answers = ["a", "b"].map((id) => world.begin(id));
  const whole = new Response(lineOf(1, { id: "b" }) + lineOf(0, { id: "a" }));
  Object.defineProperty(whole, "body", { value: undefined });
  (await world.next()).answer(whole);
  assert.deepEqual(
    (await Promise.all(answers)).map(({ body }) => body),
    [{ id: "a" }, { id: "b" }],
  );
});

test("property: each gets its own answer, in whatever order and pieces they arrive", async (context) => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({ text: fc.string({ unit: "grapheme" }), order: fc.nat() }), {
        minLength: 2,
        maxLength: 20,
      }),
      fc.array(fc.nat(), { maxLength: 30 }),
      async (items, cuts) => {
        const world = new World(context);
        const answers = items.map((_, at) => world.begin(String(at)));
        const lines = items.map(({ text, order }, at) => ({
          order,
          line: lineOf(at, { id: String(at), text }),
        }));
        const bytes = new TextEncoder().encode(
          lines
            .sort((a, b) => a.order - b.order)
            .map(({ line }) => line)
            .join(""),
        );
        const places = [...new Set(cuts.map((cut) => cut % bytes.length))].sort((a, b) => a - b);
        const { response, write, end } = streamed();
        (await world.next()).answer(response);
        for (const [at, from] of [0, ...places].entries())
          write(bytes.slice(from, places[at] ?? bytes.length));
        end();
        assert.deepEqual(
          (await Promise.all(answers)).map(({ body }) => body),
          items.map(({ text }, at) => ({ id: String(at), text })),
        );
        context.mock.timers.reset();
      },
    ),
    { numRuns: 60 },
  );
});
