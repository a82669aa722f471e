// Goal: one attempt is safe and bounded. Method: a real receiver that answers, hangs, redirects,
// never ends or breaks off, and a resolver whose answer changes between the check and the
// connection.
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { realClock } from "@highwater/runtime";
import { type HostAddress, parseAllowList, type Resolve } from "../../src/webhooks/address.ts";
import { type Attempt, exchange } from "../../src/webhooks/exchange.ts";
import { resolveName } from "../../src/webhooks/resolve.ts";
import { answers, ok, Receiver } from "@highwater/lab-system/receiver";

const FAR_MS = 30_000;
let receiver: Receiver;

before(async () => {
  receiver = await Receiver.start();
});
after(() => receiver.close());
beforeEach(() => {
  receiver.behaviour = ok;
  receiver.received.length = 0;
});

interface More {
  readonly url?: string;
  readonly allow?: readonly string[];
  readonly resolve?: Resolve;
  readonly timeoutMs?: number;
  readonly body?: string;
}

function post({
  url = receiver.url,
  allow = ["127.0.0.1"],
  resolve = resolveName,
  timeoutMs = FAR_MS,
  body = "{}",
}: More = {}): Promise<Attempt> {
  const headers = { "webhook-id": "msg_1" };
  const { list } = parseAllowList(allow);
  return exchange({ url, headers, body }, { clock: realClock, resolve, allow: list, timeoutMs });
}

test("2xx only is a success", async () => {
  for (const status of [200, 201, 202, 204, 299]) {
    receiver.behaviour = answers(status);
    const attempt = await post();
    assert.deepEqual([attempt.outcome, attempt.status], ["delivered", status]);
  }
  for (const [status, outcome] of [
    [304, "redirect"],
    [400, "status"],
    [404, "status"],
    [410, "gone"],
    [429, "status"],
    [500, "status"],
  ] as const) {
    receiver.behaviour = answers(status, { "retry-after": "7" }, "why");
    const attempt = await post();
    assert.deepEqual([attempt.outcome, attempt.status], [outcome, status]);
    assert.equal(attempt.retryAfterMs, status === 429 ? 7_000 : null);
  }
});

test("method, path, headers and body arrive as they are", async () => {
  const body = JSON.stringify({ text: "grüße 🙂" });
  await post({ url: `${receiver.url}/a%20b?c=d#e`, body });
  const [got] = receiver.received;
  assert.equal(got?.path, "/hook/a%20b?c=d");
  assert.equal(got.body, body);
  assert.equal(got.headers["webhook-id"], "msg_1");
  assert.equal(got.headers["content-type"], "application/json");
});

test("a redirect is a failure, and is not followed", async () => {
  const elsewhere = await Receiver.start();
  for (const status of [301, 302, 303, 307, 308]) {
    receiver.behaviour = answers(status, { location: elsewhere.url });
    assert.equal((await post()).outcome, "redirect");
  }
  assert.equal(elsewhere.received.length, 0);
  await elsewhere.close();
});

test("the time is for the whole exchange: silence, a body that never ends, and a resolver that never answers", async () => {
  const timeoutMs = 300;
  receiver.behaviour = () => undefined;
  assert.equal((await post({ timeoutMs })).outcome, "timeout");
  receiver.behaviour = (response) => {
    response.writeHead(200);
    response.write("begun");
  };
  assert.equal((await post({ timeoutMs })).outcome, "timeout");
  const resolve: Resolve = () => new Promise(() => undefined);
  assert.equal(
    (await post({ url: "http://hooks.internal/", allow: ["hooks.internal"], resolve, timeoutMs })).outcome,
    "timeout",
  );
});

test("little of a long answer is read, and less is kept", async () => {
  let closed: () => void = () => undefined;
  const isClosed = new Promise<void>((resolve) => (closed = resolve));
  receiver.behaviour = (response) => {
    response.writeHead(200);
    response.on("close", closed);
    const more = (): void => {
      while (!response.destroyed && response.write("\u0000é".repeat(10_000)));
      if (!response.destroyed) response.once("drain", more);
    };
    more();
  };
  const attempt = await post();
  assert.equal(attempt.outcome, "delivered");
  assert.ok((attempt.answer?.length ?? 0) <= 512 && attempt.answer?.startsWith("\uFFFDé"));
  await isClosed;
});

test("no receiver, or one that breaks off", async () => {
  receiver.behaviour = (response) => {
    response.destroy();
  };
  assert.deepEqual(await post().then(({ outcome, answer }) => [outcome, answer]), [
    "connection",
    "ECONNRESET",
  ]);
  assert.deepEqual(
    await post({ url: "http://127.0.0.1:9/hook" }).then(({ outcome, answer }) => [outcome, answer]),
    ["connection", "ECONNREFUSED"],
  );
  const resolve: Resolve = () => Promise.reject(Object.assign(new Error("no"), { code: "ENOTFOUND" }));
  const lost = await post({ url: "https://hooks.example/", resolve });
  assert.deepEqual([lost.outcome, lost.answer], ["connection", "ENOTFOUND"]);
});

test("without the allow list nothing is sent to this machine", async () => {
  for (const url of [receiver.url, receiver.url.replace("127.0.0.1", "localhost")])
    assert.equal((await post({ url, allow: [] })).outcome, "refused", url);
  const https = `https://localhost:${String(receiver.port)}/`;
  assert.equal((await post({ url: https, allow: [] })).outcome, "refused");
  assert.equal(receiver.received.length, 0);
});

test("a name that changes between the check and the connection leads nowhere else (DNS rebinding)", async () => {
  // The attacker's address is in the second answer, so there must be no second question.
  let asked = 0;
  const at = (address: string): HostAddress[] => [{ address, family: 4 }];
  const resolve: Resolve = () => Promise.resolve(at(++asked === 1 ? "127.0.0.2" : "127.0.0.1"));
  const url = `http://rebind.example:${String(receiver.port)}/`;
  const attempt = await post({ url, allow: ["127.0.0.2"], resolve });
  assert.equal(attempt.outcome, "connection");
  assert.equal(asked, 1);
  assert.equal(receiver.received.length, 0);
  // The next delivery checks the address anew and refuses it.
  assert.equal((await post({ url, allow: ["127.0.0.2"], resolve })).outcome, "refused");
  assert.equal(receiver.received.length, 0);
  // An allowed address is connected to, with the name in the Host header.
  assert.equal((await post({ url, resolve })).outcome, "delivered");
  assert.equal(receiver.received[0]?.headers.host, `rebind.example:${String(receiver.port)}`);
});
