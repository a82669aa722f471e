// Goal: the limits of rate hold and are told apart, operators can ask the edge how it is, and a collector gets its spans within the
// trace of the caller.
import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { createServer } from "node:http";
import { createServer as createSocket, type AddressInfo } from "node:net";
import { describe, test } from "node:test";
import { eventually } from "@highwater/lab-tools/process";
import { ask, post, TestEdge, withoutEnvoy } from "./support/edge.ts";
import { Upstream } from "./support/upstream.ts";

/** Below the ports that the kernel gives out by itself: no process gets it before the edge listens there. */
async function freePort(): Promise<number> {
  const port = randomInt(10_000, 32_000);
  const isFree = await new Promise<boolean>((resolve) => {
    const server = createSocket().once("error", () => {
      resolve(false);
    });
    server.listen(port, "127.0.0.1", () =>
      server.close(() => {
        resolve(true);
      }),
    );
  });
  return isFree ? port : freePort();
}

describe("the edge and its operators", withoutEnvoy, () => {
  test("requests above the total rate get 503, above one address's rate 429, and neither reaches the service", async () => {
    for (const [limits, status, code, detail] of [
      [{ requestsPerSecond: 5 }, 503, "overloaded", undefined],
      [{ requestsPerSecondOfAddress: 5, requestsPerSecond: 1_000 }, 429, "rate_limited", /This address/],
    ] as const) {
      await using gateway = await Upstream.start("g1");
      await using tracker = await Upstream.start("t1");
      await using edge = await TestEdge.start({
        regions: [{ name: "here", gateways: [gateway.node], trackers: [tracker.node] }],
        limits,
        trustedProxies: 1,
      });
      const startedMs = performance.now();
      const answers = await Promise.all(
        Array.from({ length: 200 }, () =>
          post(`${edge.url}/v1/transactions`, { "x-forwarded-for": "192.0.2.1" }),
        ),
      );
      const refused = answers.filter((answer) => answer.status !== 200);
      // Five at once, and five more whenever a second has begun meanwhile.
      const allowedMax = 5 * (2 + Math.floor((performance.now() - startedMs) / 1_000));
      assert.ok(refused.length > 0 && answers.length - refused.length <= allowedMax, String(refused.length));
      assert.equal(gateway.reached.length, answers.length - refused.length);
      for (const answer of refused) {
        assert.deepEqual(
          [answer.status, answer.body.code, answer.body.outcome, answer.body.retry],
          [status, code, "not_applied", "wait"],
        );
        assert.equal(answer.headers.get("retry-after"), "1");
        if (detail !== undefined) assert.match(answer.body.detail ?? "", detail);
      }
      if (status === 429) {
        const other = await post(`${edge.url}/v1/transactions`, { "x-forwarded-for": "192.0.2.2" });
        assert.equal(other.status, 200, "another address has a rate of its own");
      }
    }
  });

  test("when its memory is used up, it refuses new requests and says that nothing was applied", async () => {
    await using gateway = await Upstream.start("g1");
    await using tracker = await Upstream.start("t1");
    await using edge = await TestEdge.start({
      regions: [{ name: "here", gateways: [gateway.node], trackers: [tracker.node] }],
      // Less than it has taken by the time that it serves.
      limits: { memoryBytes: 1_048_576 },
    });
    const refused = await eventually("it has looked at its memory", async () => {
      const answer = await post(`${edge.url}/v1/transactions`);
      return answer.status === 200 ? undefined : answer;
    });
    assert.deepEqual(
      [refused.status, refused.body.code, refused.body.outcome, refused.headers.get("retry-after")],
      [503, "overloaded", "not_applied", "1"],
    );
  });

  test("health, readiness and statistics, for operators alone", async () => {
    await using gateway = await Upstream.start("g1");
    await using tracker = await Upstream.start("t1");
    const port = await freePort();
    await using edge = await TestEdge.start({
      regions: [{ name: "here", gateways: [gateway.node], trackers: [tracker.node] }],
      operators: { address: "127.0.0.1", port },
    });
    const at = `http://127.0.0.1:${String(port)}`;
    assert.deepEqual([(await ask(`${at}/healthz`)).status, (await ask(`${at}/readyz`)).status], [200, 200]);
    await post(`${edge.url}/v1/transactions`);
    const { text } = await ask(`${at}/metrics`);
    assert.match(text, /^envoy_cluster_membership_healthy\{envoy_cluster_name="gateways"\} 1$/m);
    assert.match(text, /^envoy_cluster_upstream_rq_xx\{.*envoy_cluster_name="gateways".*\} 1$/m);
    for (const path of ["/stats", "/config_dump", "/metrics/../config_dump", "/v1/transactions"])
      assert.equal((await ask(at + path)).status, 404, path);
    assert.equal((await ask(`${at}/metrics`, { method: "POST" })).status, 404);
    // As without a primary: other edges could do no more.
    tracker.isReady = false;
    gateway.isReady = false;
    await eventually("nobody is ready", async () =>
      /^envoy_cluster_membership_healthy\{envoy_cluster_name="gateways"\} 0$/m.test(
        (await ask(`${at}/metrics`)).text,
      ),
    );
    assert.equal((await ask(`${at}/readyz`)).status, 200);
    await tracker.kill();
    await eventually("the edge is not ready", async () => (await ask(`${at}/readyz`)).status === 503);
    assert.equal((await ask(`${at}/healthz`)).status, 200);
  });

  test("the span of the edge lies in the trace of the caller, and the gateway's below it", async () => {
    const spans: Buffer[] = [];
    const collector = createServer((request, response) => {
      const pieces: Buffer[] = [];
      request.on("data", (piece: Buffer) => pieces.push(piece));
      request.on("end", () => {
        assert.equal(request.url, "/v1/traces");
        spans.push(Buffer.concat(pieces));
        response.end();
      });
    });
    await new Promise<void>((resolve) => collector.listen(0, "127.0.0.1", resolve));
    try {
      await using gateway = await Upstream.start("g1");
      await using tracker = await Upstream.start("t1");
      await using edge = await TestEdge.start({
        regions: [{ name: "here", gateways: [gateway.node], trackers: [tracker.node] }],
        traces: { address: "127.0.0.1", port: (collector.address() as AddressInfo).port },
      });
      const trace = "0af7651916cd43dd8448eb211c80319c";
      const caller = "b7ad6b7169203331";
      await post(`${edge.url}/v1/transactions`, { traceparent: `00-${trace}-${caller}-01` });
      const [, traceSeen, spanSeen] = (gateway.reached[0]?.headers["traceparent"] as string).split("-");
      assert.equal(traceSeen, trace);
      assert.notEqual(spanSeen, caller, "the gateway's parent is the edge's span");
      await eventually("the collector has the span", async () =>
        spans.some((sent) =>
          [trace, caller, spanSeen ?? ""].every((id) => sent.includes(Buffer.from(id, "hex"))),
        ),
      );
      const [line] = await edge.log();
      assert.equal(line?.["traceId"], trace);
    } finally {
      collector.closeAllConnections();
      await new Promise((resolve) => collector.close(resolve));
    }
  });

  test("services get the client's address from the edge in x-envoy-external-address, whatever the client put there", async () => {
    await using gateway = await Upstream.start("g1");
    await using tracker = await Upstream.start("t1");
    await using edge = await TestEdge.start({
      regions: [{ name: "here", gateways: [gateway.node], trackers: [tracker.node] }],
      // As behind a load balancer, which adds the address that it saw to what the client sent.
      trustedProxies: 1,
    });
    const FORGED = "203.0.113.9";
    for (const [forwarded, expected] of [
      ["192.0.2.1", "192.0.2.1"],
      [`${FORGED}, 192.0.2.1`, "192.0.2.1"],
      // A client within the private network.
      ["10.0.0.7", "10.0.0.7"],
    ] as const) {
      const headers = { "x-forwarded-for": forwarded, "x-envoy-external-address": FORGED };
      await post(`${edge.url}/v1/transactions`, headers);
      await post(`${edge.url}/v1/durability/verdicts`, headers);
      for (const service of [gateway, tracker]) {
        const reached = service.reached.at(-1);
        assert.equal(reached?.headers["x-envoy-external-address"], expected, `${service.name}: ${forwarded}`);
      }
    }
  });
});
