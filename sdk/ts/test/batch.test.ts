// Goal: transactions in one request are independent. Method: a scripted server answers batches line by line, and only the
// SDK's `fetch` layer is tested; the scenarios of sdk/conformance test batches with a whole client.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import { batched, type BatchOptions } from "../src/batch.ts";

interface Request {
  readonly path: string;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly body: { readonly id?: string; readonly transactions?: readonly { readonly id: string }[] };
  readonly response: ServerResponse;
  /** Resolves when the client has gone away before the answer was complete. */
  readonly gone: Promise<void>;
}

class Server {
  readonly requests: Request[] = [];
  readonly url: string;
  #changed = Promise.withResolvers<void>();

  constructor(url: string) {
    this.url = url;
  }

  static async start(context: TestContext, serve: (request: Request) => void): Promise<Server> {
    const http = createServer();
    http.listen(0, "127.0.0.1");
    await once(http, "listening");
    const server = new Server(`http://127.0.0.1:${String((http.address() as AddressInfo).port)}`);
    context.after(() => {
      http.closeAllConnections();
      http.close();
    });
    http.on("request", (message, response: ServerResponse) => {
      let text = "";
      message.setEncoding("utf8").on("data", (part: string) => (text += part));
      message.on("end", () => {
        const gone = Promise.withResolvers<void>();
        response.on("close", () => {
          if (!response.writableFinished) gone.resolve();
        });
        const body = (text === "" ? {} : JSON.parse(text)) as Request["body"];
        const { url: path = "", headers } = message;
        const request = { path, headers, body, response, gone: gone.promise };
        server.requests.push(request);
        serve(request);
        server.#changed.resolve();
        server.#changed = Promise.withResolvers<void>();
      });
    });
    return server;
  }

  async until(count: number): Promise<void> {
    while (this.requests.length < count) await this.#changed.promise;
  }

  post(fetch: ReturnType<typeof batched>, body: unknown, init: RequestInit = {}): Promise<Response> {
    return fetch(`${this.url}/v1/transactions`, { method: "POST", body: JSON.stringify(body), ...init });
  }
}

const line = (index: number, body: unknown, status = 200): string =>
  `${JSON.stringify({ index, status, body })}\n`;
const idsOf = ({ body }: Request): string[] => (body.transactions ?? []).map(({ id }) => id);

/** Answers every transaction with its id, and lone ones with `alone`. */
function echo({ body, response }: Request): void {
  if (body.transactions === undefined) response.end(JSON.stringify({ alone: body.id }));
  else response.end(body.transactions.map(({ id }, index) => line(index, { id })).join(""));
}

test("transactions that begin together share a request, and each gets its own answer, in any order", async (context) => {
  const server = await Server.start(context, ({ body, response }) => {
    const [a, b, c] = (body.transactions ?? []).map(({ id }) => id);
    // Cut in the middle of a character and of a line.
    const bytes = Buffer.from(
      line(2, { id: c, text: "žž" }) + line(0, { id: a }) + line(1, { code: b }, 409),
    );
    for (const byte of bytes) response.write(Uint8Array.of(byte));
    response.end();
  });
  const fetch = batched();
  const answers = await Promise.all(["a", "b", "c"].map((id) => server.post(fetch, { id })));
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 409, 200],
  );
  assert.deepEqual(await Promise.all(answers.map((answer) => answer.json())), [
    { id: "a" },
    { code: "b" },
    { id: "c", text: "žž" },
  ]);
  assert.deepEqual(
    server.requests.map(({ path }) => path),
    ["/v1/transactions/batch"],
  );
});

test("a transaction that has ended is answered while another still runs", async (context) => {
  const server = await Server.start(context, ({ response }) => response.write(line(1, { id: "quick" })));
  const fetch = batched();
  const [slow, quick] = ["slow", "quick"].map((id) => server.post(fetch, { id }));
  assert.deepEqual(await (await quick)?.json(), { id: "quick" });
  server.requests[0]?.response.end(line(0, { id: "slow" }));
  assert.deepEqual(await (await slow)?.json(), { id: "slow" });
});

test("no more than a count, and nothing long, shares a request; one alone goes as it always did", async (context) => {
  const server = await Server.start(context, echo);
  const post = (count: number, options: BatchOptions, size = 0): Promise<Response[]> => {
    const fetch = batched(options);
    return Promise.all(
      Array.from({ length: count }, (_, at) => server.post(fetch, { id: String(at), sql: "x".repeat(size) })),
    );
  };
  const sizes = (): number[] => server.requests.splice(0).map(({ body }) => body.transactions?.length ?? 1);
  await post(5, { maxCount: 2 });
  assert.deepEqual(sizes().sort(), [1, 2, 2]);
  await post(600, { maxCount: 1_000 });
  assert.deepEqual(sizes().sort(), [256, 256, 88].sort());
  await post(3, {}, 100_000);
  assert.deepEqual(sizes().sort(), [1, 2]);
  await post(2, {}, 300_000);
  assert.deepEqual(sizes(), [1, 1]);
  const [answer] = await post(1, {});
  assert.deepEqual(await answer?.json(), { alone: "0" });
});

test("other requests pass through, and other callers go by themselves", async (context) => {
  const server = await Server.start(context, echo);
  const fetch = batched();
  const as = (authorization: string, traceparent: string): RequestInit => ({
    headers: { authorization, traceparent },
  });
  await Promise.all([
    server.post(fetch, { id: "1" }, as("one", "t1")),
    server.post(fetch, { id: "2" }, as("two", "t2")),
    server.post(fetch, { id: "3" }, as("one", "t3")),
    fetch(`${server.url}/v1/durability/verdicts`, { method: "POST", body: "{}" }),
    fetch(`${server.url}/v1/transactions/x`, { method: "GET" }),
  ]);
  const batch = server.requests.find(({ path }) => path.endsWith("/batch"));
  assert.ok(batch !== undefined);
  assert.deepEqual([idsOf(batch), batch.headers["authorization"]], [["1", "3"], "one"]);
  assert.equal(server.requests.length, 4);
});

test("a batch that is refused as a whole is each one's refusal", async (context) => {
  const server = await Server.start(context, ({ response }) => {
    response.writeHead(503, { "retry-after": "7" }).end('{"code":"overloaded"}');
  });
  const fetch = batched();
  for (const answer of await Promise.all([
    server.post(fetch, { id: "1" }),
    server.post(fetch, { id: "2" }),
  ])) {
    assert.deepEqual([answer.status, answer.headers.get("retry-after")], [503, "7"]);
    assert.deepEqual(await answer.json(), { code: "overloaded" });
  }
});

test("a gateway that knows no batches, or only shorter ones, gets them one by one", async (context) => {
  let status = 413;
  const server = await Server.start(context, (request) => {
    if (request.path.endsWith("/batch")) request.response.writeHead(status).end();
    else echo(request);
  });
  const fetch = batched();
  const paths = async (): Promise<string[]> => {
    const answers = await Promise.all([server.post(fetch, { id: "1" }), server.post(fetch, { id: "2" })]);
    assert.deepEqual(await Promise.all(answers.map((answer) => answer.json())), [
      { alone: "1" },
      { alone: "2" },
    ]);
    return server.requests.splice(0).map(({ path }) => path.replace("/v1/transactions", ""));
  };
  assert.deepEqual(await paths(), ["/batch", "", ""]);
  status = 404;
  assert.deepEqual(await paths(), ["/batch", "", ""]);
  assert.deepEqual(await paths(), ["", ""]);
});

test("an answer that breaks off is no answer for those without a line", async (context) => {
  for (const end of ["cut", "short", "garbage"]) {
    const server = await Server.start(context, ({ response }) => {
      if (end === "short") response.end(line(1, { id: "2" }));
      else response.write(line(1, { id: "2" }));
      if (end === "garbage") response.write("no JSON\n");
    });
    const fetch = batched();
    const [without, has] = ["1", "2"].map((id) => server.post(fetch, { id }));
    assert.deepEqual(await (await has)?.json(), { id: "2" });
    if (end === "cut") server.requests[0]?.response.destroy();
    await assert.rejects(without ?? Promise.resolve(), end === "garbage" ? SyntaxError : TypeError);
  }
});

test("who gives up leaves the others; when all have, the request is given up, and not before", async (context) => {
  const server = await Server.start(context, ({ response }) => response.flushHeaders());
  const fetch = batched();
  const leave = ["1", "2", "3"].map(() => new AbortController());
  const calls = leave.map(({ signal }, at) => server.post(fetch, { id: String(at) }, { signal }));
  leave[0]?.abort(new Error("before it was sent"));
  await assert.rejects(calls[0] ?? Promise.resolve(), /before it was sent/);
  await server.until(1);
  assert.deepEqual(server.requests.map(idsOf), [["1", "2"]]);
  leave[1]?.abort();
  await assert.rejects(calls[1] ?? Promise.resolve(), { name: "AbortError" });
  server.requests[0]?.response.write(line(1, { id: "2" }));
  assert.equal((await calls[2])?.status, 200);

  const [one, other] = [new AbortController(), new AbortController()];
  const both = [one, other].map(({ signal }, at) => server.post(fetch, { id: String(at) }, { signal }));
  await server.until(2);
  one.abort();
  other.abort();
  for (const each of await Promise.allSettled(both)) assert.equal(each.status, "rejected");
  await server.requests[1]?.gone;
});
