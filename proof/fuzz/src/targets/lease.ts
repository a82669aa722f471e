// The answers of etcd. An invalid answer must change nothing that is known of the lease.
import assert from "node:assert/strict";
import { EtcdClient, LeaseReader } from "@highwater/authority/internals";
import { FakeClock, settle } from "@highwater/runtime/testing";
import { pure, type Target } from "../target.ts";

const base64 = (text: string): string => Buffer.from(text).toString("base64");
const KEY = "/service/batman/leader";
const RANGE = JSON.stringify({
  header: { revision: "12" },
  kvs: [
    { key: base64(KEY), value: base64("patroni-east"), create_revision: "7", mod_revision: "9", lease: "42" },
  ],
  count: "1",
});
const TTL = JSON.stringify({ ID: "42", TTL: "17", grantedTTL: "30" });

/** A status and a body per line. They are given one after another, the last one repeatedly. */
const lease = pure({
  name: "etcd",
  about: "whatever etcd answers: the reader goes on, and trusts no term longer than an answer about it says",
  seeds: [
    `200 ${RANGE}\n200 ${TTL}`,
    `200 {"header":{}}\n200 ${TTL}`,
    `401 {"message":"no"}\n200 {"token":"t"}\n200 ${RANGE}\n200 ${TTL}`,
    `200 ${RANGE}\n200 {"ID":"42","TTL":"-1"}`,
    `503 upstream`,
  ],
  words: ["kvs", "lease", "TTL", "create_revision", "value", "200 ", "401 ", "503 ", "token", "\n", "1e300"],
  sliceRuns: 300,
  run: async (input) => {
    const answers = input.toString("utf8").split("\n");
    let asked = 0;
    const clock = new FakeClock();
    const post = async (): Promise<{ status: number; body: string }> => {
      const line = answers[Math.min(asked++, answers.length - 1)] ?? "";
      return { status: Number(line.slice(0, 3)) || 500, body: line.slice(4) };
    };
    const etcd = new EtcdClient({
      endpoints: ["http://root:pw@10.0.0.9:2379"],
      timeoutMs: 1_000,
      clock,
      post,
    });
    const reader = new LeaseReader({
      etcd,
      key: KEY,
      clock,
      pollMs: 500,
      members: { "patroni-east": "east" },
    });
    reader.start(() => undefined);
    for (let look = 0; look < 3; look++) {
      await settle();
      const { view } = reader;
      if (view.kind === "held") {
        assert.equal(typeof view.term.node, "string");
        assert.ok(Number.isFinite(view.validUntilMs));
      }
      await reader.confirm({ node: "east", revision: "7" });
      await reader.candidates({ node: "east", revision: "7" });
      await clock.advance(500);
    }
    reader.stop();
    assert.ok(asked > 0);
    await clock.advance(10_000);
    assert.equal(clock.pendingTimers, 0, "timers are left behind");
  },
});

export const targets: readonly Target[] = [lease];
