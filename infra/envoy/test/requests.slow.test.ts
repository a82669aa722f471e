// Goal: what the edge does with a request, seen from both sides of a real Envoy. Where it goes, what is hidden, what is too much,
// what is repeated, and what the edge answers when no service does.
import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, beforeEach, describe, test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { eventually } from "@highwater/lab-tools/process";
import { ask, post, TestEdge, type EdgeResponse, withoutEnvoy } from "./support/edge.ts";
import { Upstream } from "./support/upstream.ts";

const ID = "01980f3e-6d2a-7c44-9b1d-3f6a2c8e5d70";
const BODY_LIMIT = 4_096;
const TRACKER_BODY_LIMIT = 8_192;

/** Writes bytes as they are, and reads the answer until the connection ends or the text has arrived. */
function raw(port: number, bytes: string, until?: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    const socket = connect(port, "127.0.0.1", () => socket.write(bytes));
    socket.setTimeout(30_000, () => socket.destroy(new Error(`no end: ${text}`)));
    socket.on("data", (piece) => {
      text += piece.toString("latin1");
      if (until !== undefined && text.includes(until)) socket.destroy();
    });
    socket.on("error", reject);
    socket.on("close", () => {
      resolve(text);
    });
  });
}

describe("requests", withoutEnvoy, () => {
  let gateways: [Upstream, Upstream];
  let tracker: Upstream;
  let edge: TestEdge;

  before(async () => {
    gateways = [await Upstream.start("g.1"), await Upstream.start("g.2")];
    tracker = await Upstream.start("t1");
    edge = await TestEdge.start({
      regions: [{ name: "here", gateways: gateways.map(({ node }) => node), trackers: [tracker.node] }],
      limits: { gatewayBodyBytes: BODY_LIMIT, trackerBodyBytes: TRACKER_BODY_LIMIT },
    });
  });
  after(async () => {
    await edge[Symbol.asyncDispose]();
    for (const upstream of [...gateways, tracker]) await upstream[Symbol.asyncDispose]();
  });
  beforeEach(() => {
    for (const upstream of [...gateways, tracker]) {
      upstream.reached.length = 0;
      upstream.act = (_request, response) => {
        upstream.answer(response);
      };
    }
  });
  const attempts = (): number => gateways.reduce((sum, { reached }) => sum + reached.length, 0);
  const cut = (): void => {
    for (const upstream of [...gateways, tracker])
      upstream.act = (_request, response) => {
        response.destroy();
      };
  };

  test("transactions go to gateways, questions about them to trackers, with everything that they say", async () => {
    const transactions = ["/v1/transactions", "/v1/transactions/batch", "/v1/transactions/begin"];
    const others = ["/v1/tickets", "/v1/tickets/ends", "/v1/lost/replay", "/sql?x=1"];
    for (const path of [...transactions, ...others]) {
      const answered = await post(
        edge.url + path,
        { authorization: "Bearer key", "highwater-x": "1" },
        '{"a":1}',
      );
      assert.match(answered.body.from ?? "", /^g\./, path);
      const reached = gateways.flatMap(({ reached: all }) => all.splice(0));
      assert.deepEqual(
        reached.map(({ url, body, headers }) => [url, body, headers.authorization, headers["highwater-x"]]),
        [[path, '{"a":1}', "Bearer key", "1"]],
      );
    }
    assert.match((await ask(`${edge.url}/v1/transactions/${ID}?wait=1`)).body.from ?? "", /^g\./);
    for (const path of ["/v1/durability/marks", "/v1/durability/stream", "/v1/durability/events?after=0"])
      assert.equal((await ask(edge.url + path)).body.from, "t1", path);
    for (const path of ["/v1/durability/verdicts", "/v1/durability/failover-preview", "/v1/webhooks"])
      assert.equal((await post(edge.url + path)).body.from, "t1", path);
    for (const path of ["/v1/lost?limit=1", `/v1/lost/${ID}`])
      assert.equal((await ask(edge.url + path)).body.from, "t1", path);
    const erased = await ask(`${edge.url}/v1/lost/contents?owner=7`, { method: "DELETE" });
    assert.equal(erased.body.from, "t1");
    for (const path of ["/", "/errors", "/errors/overloaded"])
      assert.match((await ask(edge.url + path)).body.from ?? "", /^g\./, path);
  });

  test("the inside cannot be reached, whatever the path is written as", async () => {
    const hidden = [
      ...["/metrics", "/healthz", "/readyz", "/internal/announcements", "/v1/durabilityx", "/v2", "/sqlx"],
      ...["/errors", "/errorsx", "/errors/../metrics", "/errors/%2e%2e/healthz"],
      ...["/v1/durability/../../internal/announcements", "/v1/transactions/%2e%2e/%2e%2e/metrics"],
      ...["/stats", "/quitquitquit", "/INTERNAL/announcements", "//internal/announcements", "//metrics"],
    ];
    for (const path of hidden) {
      const answer = await raw(
        edge.envoy.port("public"),
        `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n`,
        '"code":"not_found"',
      );
      assert.match(answer, /^HTTP\/1\.1 404 /, path);
      assert.match(answer, /"code":"not_found"/, path);
    }
    const disguised = await raw(
      edge.envoy.port("public"),
      "GET /v1/durability/..%2f..%2fmetrics HTTP/1.1\r\nhost: x\r\n\r\n",
      '"code":"invalid_request"',
    );
    assert.match(disguised, /^HTTP\/1\.1 400 .*"code":"invalid_request"/s);
    assert.deepEqual([attempts(), tracker.reached.length], [0, 0]);
  });

  test("a request that is too large reaches no service, and one of the largest allowed size does", async () => {
    const largest = await post(`${edge.url}/v1/transactions`, {}, "x".repeat(BODY_LIMIT));
    assert.equal(largest.status, 200);
    const answered = await post(`${edge.url}/v1/transactions`, {}, "x".repeat(BODY_LIMIT + 1));
    assert.equal(answered.status, 413);
    assert.equal(answered.headers.get("content-type"), "application/problem+json");
    assert.deepEqual(answered.body, {
      type: "/errors/body_too_large",
      title: "The request body exceeds the size limit.",
      ...{ status: 413, code: "body_too_large", retry: "never" },
      detail: `The request body exceeds bodyLimitBytes (${String(BODY_LIMIT)}).`,
      ...{ limit: { name: "bodyLimitBytes", value: BODY_LIMIT }, outcome: "not_applied" },
    });
    assert.equal(attempts(), 1);
    const verdicts = `${edge.url}/v1/durability/verdicts`;
    assert.equal((await post(verdicts, {}, "x".repeat(TRACKER_BODY_LIMIT))).status, 200);
    const more = await post(verdicts, {}, "x".repeat(TRACKER_BODY_LIMIT + 1));
    assert.deepEqual([more.status, more.body.limit?.value], [413, TRACKER_BODY_LIMIT]);
    assert.equal(tracker.reached.length, 1);
    const neon = await post(`${edge.url}/sql`, {}, "x".repeat(BODY_LIMIT + 1));
    const { highwater } = JSON.parse(neon.text) as { highwater: Record<string, unknown> };
    assert.deepEqual([neon.status, highwater["code"]], [413, "body_too_large"]);
  });

  test("headers that are too large, and bytes that are no request, get the product's own errors", async () => {
    const answered = await ask(`${edge.url}/v1/transactions/${ID}`, {
      headers: { "x-large": "x".repeat(17_000) },
    });
    assert.deepEqual([answered.status, answered.body.code], [400, "invalid_request"]);
    assert.match(answered.body.detail ?? "", /16 KiB/);
    const answer = await raw(edge.envoy.port("public"), "nonsense\r\n\r\n");
    assert.match(answer, /^HTTP\/1\.1 400 /);
    assert.equal(attempts(), 0);
  });

  test("a commit that reached a gateway is never sent again: its client gets an unknown outcome", async () => {
    cut();
    for (const path of ["/v1/transactions", "/v1/transactions/batch"]) {
      const answered = await post(edge.url + path);
      assert.deepEqual(
        [answered.status, answered.body.code, answered.body.outcome, answered.body.retry],
        [503, "commit_unconfirmed", "unknown", "resolve_outcome"],
      );
      assert.equal(gateways.flatMap(({ reached }) => reached.splice(0)).length, 1, path);
    }
    // The wire of Neon's driver has no other status that a program could read.
    const neon = await post(`${edge.url}/sql`);
    const { code, highwater } = JSON.parse(neon.text) as { code: string; highwater: Record<string, unknown> };
    assert.deepEqual(
      [neon.status, code, highwater["code"], highwater["outcome"]],
      [400, "08007", "commit_unconfirmed", "unknown"],
    );
    assert.equal(attempts(), 1);
  });

  test("callers cannot ask for more repetition, or for less time", async () => {
    cut();
    const answered = await post(`${edge.url}/v1/transactions`, {
      "x-envoy-retry-on": "5xx,reset,gateway-error",
      "x-envoy-max-retries": "5",
      "x-envoy-hedge-on-per-try-timeout": "true",
    });
    assert.equal(answered.body.code, "commit_unconfirmed");
    assert.equal(attempts(), 1);
    for (const gateway of gateways)
      gateway.act = (_request, response) =>
        void setTimeout(() => {
          gateway.answer(response);
        }, 300);
    const timed = await post(`${edge.url}/v1/transactions`, { "x-envoy-upstream-rq-timeout-ms": "10" });
    assert.equal(timed.status, 200);
  });

  test("requests that change nothing are retried, and a service's own refusal is passed on unchanged", async () => {
    let cuts = 1;
    for (const gateway of gateways)
      gateway.act = (_request, response) => {
        if (cuts-- > 0) response.destroy();
        else gateway.answer(response);
      };
    const answered = await ask(`${edge.url}/v1/transactions/${ID}`);
    assert.equal(answered.status, 200);
    assert.equal(attempts(), 2);
    cuts = 1;
    tracker.act = (_request, response) => {
      if (cuts-- > 0) response.destroy();
      else tracker.answer(response);
    };
    assert.equal((await post(`${edge.url}/v1/durability/verdicts`)).status, 200);
    assert.equal(tracker.reached.length, 2);
    for (const gateway of gateways)
      gateway.act = (_request, response) => {
        response.writeHead(503, { "content-type": "application/problem+json", "retry-after": "7" });
        response.end('{"code":"exposure_limit"}');
      };
    const refused = await ask(`${edge.url}/v1/transactions/${ID}`);
    assert.deepEqual(
      [refused.status, refused.headers.get("retry-after"), refused.text, attempts()],
      [503, "7", '{"code":"exposure_limit"}', 3],
    );
  });

  test("what a service that shuts down has not looked at goes to another one", async () => {
    for (const upstream of [gateways[0], tracker])
      upstream.act = (_request, response) => {
        response.writeHead(503, { "highwater-unserved": "true" });
        response.end();
      };
    for (const _ of Array(10).keys())
      assert.equal((await post(`${edge.url}/v1/transactions`)).body.from, "g.2");
    // No service is there, so Envoy's own text is the answer.
    assert.equal((await post(`${edge.url}/v1/webhooks`)).status, 503);
    assert.ok(tracker.reached.length > 1);
  });

  test("what may have been changed, replayed or erased is not sent again", async () => {
    cut();
    const replayed = await post(`${edge.url}/v1/lost/replay`);
    assert.deepEqual(
      [replayed.status, replayed.body.code, replayed.body.outcome, attempts()],
      [500, "internal", "unknown", 1],
    );
    const erased = await ask(`${edge.url}/v1/lost/contents?owner=7`, { method: "DELETE" });
    assert.deepEqual([erased.status, tracker.reached.splice(0).length], [500, 1]);
    for (const method of ["POST", "PATCH", "DELETE"]) {
      const answered = await ask(`${edge.url}/v1/webhooks/x`, { method });
      assert.deepEqual(
        [answered.status, answered.body.code, answered.body.outcome, tracker.reached.splice(0).length],
        [500, "internal", "unknown", 1],
        method,
      );
    }
  });

  test("an answer that does not come in time is unknown, and its request is ended", async () => {
    const ended: Promise<void>[] = [];
    for (const gateway of gateways)
      gateway.act = (_request, response) => {
        ended.push(new Promise((resolve) => response.once("close", resolve)));
      };
    // Of its own: on a busy machine the other tests' answers may take longer.
    await using hasty = await TestEdge.start({
      regions: [{ name: "here", gateways: gateways.map(({ node }) => node), trackers: [tracker.node] }],
      limits: { answerMs: 2_000 },
    });
    const answered = await post(`${hasty.url}/v1/transactions`);
    assert.deepEqual([answered.body.code, answered.body.outcome], ["commit_unconfirmed", "unknown"]);
    await eventually("it has reached a gateway", () => ended.length > 0);
    assert.equal(ended.length, 1);
    await Promise.all(ended);
  });

  test("a client that goes away ends its request at the gateway", async () => {
    const gone = new AbortController();
    const held = new Map<string, { readonly answer: () => void; readonly ended: Promise<void> }>();
    for (const gateway of gateways)
      gateway.act = ({ body }, response) => {
        const ended = new Promise<void>((resolve) => response.once("close", resolve));
        const answer = (): void => {
          gateway.answer(response);
        };
        held.set(body, { answer, ended });
      };
    const url = `${edge.url}/v1/transactions`;
    const asked = post(url, {}, "stays");
    const failed = ask(url, { method: "POST", body: "goes", signal: gone.signal }).catch(
      () => "it has failed",
    );
    await eventually("both have arrived", () => held.size === 2);
    gone.abort();
    assert.equal(await failed, "it has failed");
    await held.get("goes")?.ended;
    held.get("stays")?.answer();
    assert.equal((await asked).status, 200, "and no other");
  });

  test("the log has a line of JSON for each request, with its trace and without secrets", async () => {
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const answered = await ask(`${edge.url}/v1/transactions/${ID}?wait=0`, {
      headers: { traceparent, authorization: "Bearer hwk_secret" },
    });
    const requestId = answered.headers.get("x-request-id");
    const line = await eventually("the line", async () =>
      (await edge.log()).find((one) => one["requestId"] === requestId),
    );
    assert.deepEqual(
      [line["method"], line["path"], line["status"], line["traceparent"], line["details"], line["cluster"]],
      ["GET", `/v1/transactions/${ID}`, 200, traceparent, "via_upstream", "gateways"],
    );
    assert.doesNotMatch(JSON.stringify(line), /secret|wait=0/);
    const [reached] = gateways.flatMap(({ reached: all }) => all);
    assert.equal(reached?.headers["traceparent"], traceparent);
  });
});

describe("no one there", withoutEnvoy, () => {
  const answered = ({ status, body }: EdgeResponse): unknown => [status, body.code, body.outcome, body.retry];

  test("while a gateway is down all its requests go to the other, and with both down nothing was applied", async () => {
    await using one = await Upstream.start("g1");
    await using two = await Upstream.start("g2");
    await using tracker = await Upstream.start("t1");
    await using edge = await TestEdge.start({
      regions: [{ name: "here", gateways: [one.node, two.node], trackers: [tracker.node] }],
    });
    await one.kill();
    // At once: no check has noticed yet, and none of them fails.
    for (const _ of Array(20).keys())
      assert.equal((await post(`${edge.url}/v1/transactions`)).body.from, "g2");
    await two.kill();
    const nobody = await post(`${edge.url}/v1/transactions`);
    assert.deepEqual(answered(nobody), [503, "overloaded", "not_applied", "wait"]);
    assert.equal(nobody.headers.get("retry-after"), "1");
    assert.equal(nobody.body.retryAfterMs, 1_000);
    const neon = JSON.parse((await post(`${edge.url}/sql`)).text) as { highwater: Record<string, unknown> };
    assert.deepEqual([neon.highwater["code"], neon.highwater["outcome"]], ["overloaded", "not_applied"]);
    assert.deepEqual(answered(await ask(`${edge.url}/v1/transactions/${ID}`)), [
      ...[503, "overloaded", "not_applied", "wait"],
    ]);
    await one.open();
    await eventually("the gateway is used again", async () => {
      return (await post(`${edge.url}/v1/transactions`)).body.from === "g1";
    });
  });

  test("a region is left when nothing of it is ready, and used again when something is", async () => {
    await using near = await Upstream.start("near1");
    await using near2 = await Upstream.start("near2");
    await using far = await Upstream.start("far");
    await using tracker = await Upstream.start("t1");
    await using edge = await TestEdge.start({
      regions: [
        { name: "near", gateways: [near.node, near2.node], trackers: [] },
        { name: "far", gateways: [far.node], trackers: [tracker.node] },
      ],
    });
    const healthy = (count: number) => async (): Promise<boolean> =>
      (await edge.statistic("cluster.gateways.membership_healthy")) === count;
    /** Its workers learn the result of the checks a little later. */
    const served = (by: readonly string[]): Promise<true> =>
      eventually(`${by.join(" and ")} serve`, async () => {
        const answers = await Promise.all(
          Array.from({ length: 30 }, () => post(`${edge.url}/v1/transactions`)),
        );
        return isDeepStrictEqual([...new Set(answers.map(({ body }) => body.from ?? ""))].sort(), by);
      });
    await served(["near1", "near2"]);
    near.isReady = false;
    await eventually("one is seen not to be ready", healthy(2));
    await served(["near2"]);
    near2.isReady = false;
    await eventually("both are", healthy(1));
    await served(["far"]);
    far.isReady = false;
    await eventually("nobody is ready", healthy(0));
    // As in a failover: each of them can say best why it cannot.
    await served(["far", "near1", "near2"]);
    near.isReady = true;
    await eventually("one is ready", healthy(1));
    await served(["near1"]);
    // Trackers of the other region serve where there are none.
    assert.equal((await ask(`${edge.url}/v1/durability/marks`)).body.from, "t1");
  });
});
