// Goal: the calls of an open transaction reach the gateway that has it and no other, also while that can take nothing new; and what
// is said when it is gone is true. Both sides of a real Envoy are seen.
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, test } from "node:test";
import { eventually } from "@highwater/lab-tools/process";
import { post, TestEdge, type EdgeResponse, withoutEnvoy } from "./support/edge.ts";
import { Upstream } from "./support/upstream.ts";

const ID = "01980f3e-6d2a-7c44-9b1d-3f6a2c8e5d70";
const MAC = "Zm9vYmFy-_9vYmFyZm9vYmFy";
const CALLS = ["statements", "commit", "rollback"] as const;

describe("open transactions", withoutEnvoy, () => {
  // Names that are the beginning of each other, and dots that mean any character where they are not taken for what they are.
  let gateways: readonly Upstream[];
  let tracker: Upstream;
  let edge: TestEdge;

  before(async () => {
    gateways = await Promise.all(["a", "a.b", "axb", "far"].map((name) => Upstream.start(name)));
    tracker = await Upstream.start("t1");
    const [far, ...near] = gateways.map(({ node }) => node).reverse();
    assert.ok(far);
    edge = await TestEdge.start({
      regions: [
        { name: "near", gateways: near, trackers: [tracker.node] },
        { name: "far", gateways: [far], trackers: [] },
      ],
    });
  });
  after(async () => {
    await edge[Symbol.asyncDispose]();
    for (const upstream of [...gateways, tracker]) await upstream[Symbol.asyncDispose]();
  });
  beforeEach(() => {
    for (const gateway of gateways) {
      gateway.reached.length = 0;
      gateway.isReady = true;
      gateway.act = (_request, response) => {
        gateway.answer(response);
      };
    }
  });
  const session = (gateway: string): Record<string, string> => ({
    "highwater-session": `${gateway}.${ID}.${MAC}`,
  });
  const call = (name: string, gateway: string): Promise<EdgeResponse> =>
    post(`${edge.url}/v1/transactions/${ID}/${name}`, session(gateway), '{"seq":1}');
  const answered = ({ status, body }: EdgeResponse): unknown => [status, body.code, body.outcome, body.retry];
  const reached = (): string[] => gateways.flatMap(({ name, reached: all }) => all.splice(0).map(() => name));
  const named = (name: string): Upstream => {
    const found = gateways.find((one) => one.name === name);
    assert.ok(found);
    return found;
  };

  test("every call goes where its header says, in every region, and the header with it", async () => {
    for (const gateway of gateways)
      for (const name of CALLS)
        for (const _ of Array(5).keys()) {
          assert.equal((await call(name, gateway.name)).body.from, gateway.name);
          const [got] = gateway.reached.splice(0);
          assert.equal(got?.headers["highwater-session"], session(gateway.name)["highwater-session"]);
        }
  });

  test("a gateway that takes nothing new still gets what belongs to it", async () => {
    named("a").isReady = false;
    await eventually("it is seen not to be ready", async () => {
      return (await edge.statistic("cluster.gateways.membership_healthy")) === gateways.length - 1;
    });
    for (const name of CALLS) assert.equal((await call(name, "a")).body.from, "a");
  });

  test("a call without the header is any gateway's to refuse", async () => {
    for (const name of CALLS) {
      const answer = await post(`${edge.url}/v1/transactions/${ID}/${name}`);
      assert.ok(gateways.some((gateway) => gateway.name === answer.body.from));
    }
  });

  test("a gateway that is gone: no other gets its calls, its commit may have been applied, and its rollback is settled", async () => {
    const gone = named("a.b");
    await gone.kill();
    try {
      assert.deepEqual(answered(await call("statements", "a.b")), [
        503,
        "gateway_lost",
        "not_applied",
        "transaction",
      ]);
      assert.deepEqual(answered(await call("commit", "a.b")), [
        ...[503, "commit_unconfirmed", "unknown", "resolve_outcome"],
      ]);
      assert.deepEqual(reached(), []);
      for (const _ of Array(10).keys()) {
        const settled = await call("rollback", "a.b");
        assert.equal(settled.status, 200);
        assert.deepEqual(reached(), [settled.body.from]);
      }
    } finally {
      await gone.open();
    }
  });

  test("a gateway that the edge does not know counts as gone", async () => {
    for (const name of ["statements", "commit"])
      assert.deepEqual(answered(await call(name, "scaled-away")), [
        503,
        ...(name === "commit"
          ? ["commit_unconfirmed", "unknown", "resolve_outcome"]
          : ["gateway_lost", "not_applied", "transaction"]),
      ]);
    assert.deepEqual(reached(), []);
    assert.equal((await call("rollback", "scaled-away")).status, 200);
  });

  test("a call that was cut is not repeated, at its gateway or elsewhere", async () => {
    named("a").act = (_request, response) => {
      response.destroy();
    };
    assert.deepEqual(answered(await call("statements", "a")), [
      503,
      "gateway_lost",
      "not_applied",
      "transaction",
    ]);
    for (const name of ["commit", "rollback"])
      assert.deepEqual(answered(await call(name, "a")), [
        503,
        "commit_unconfirmed",
        "unknown",
        "resolve_outcome",
      ]);
    assert.deepEqual(reached(), ["a", "a", "a"]);
  });
});
