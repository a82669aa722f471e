// Goal: every verdict holds through an automatic failover that a real Patroni decides alone.
// Method: three members, and a gateway and a tracker that read Patroni's leader key. The leader's
// host dies in the middle of commits and comes back as a replica. Verdicts are for the level that
// counts the standbys which Patroni may promote.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { Etcd, PatroniCluster } from "@highwater/lab-cluster";
import { APP_ROLE, SERVICE_ROLE, type ServiceKind, ServiceProcess, systemRoles } from "../src/index.ts";
import { commit, eventually, marksOf, put, send, verdict, verdicts } from "../src/testing.ts";

const MEMBERS = ["east", "west", "north"];
/** Patroni checks every few seconds, and copies or rewinds a server before it restarts it. */
const PATRONI_MS = 180_000;
const missing = await PatroniCluster.missing();

async function startServices(
  etcd: Etcd,
  patroni: PatroniCluster,
): Promise<{ tracker: ServiceProcess; gateway: ServiceProcess }> {
  for (const sql of systemRoles([])) await patroni.query((await patroni.leader()) ?? "", sql);
  const nodes = MEMBERS.map((id) => ({
    ...{ id, region: id, zone: `${id}-a` },
    url: patroni.connectionString(id, SERVICE_ROLE),
    appUrl: patroni.connectionString(id, APP_ROLE),
  }));
  const levels = { disk: { primary: true }, safe: { synchronous: 1 }, global: { regions: "all" } };
  const env = {
    HIGHWATER_TOPOLOGY: JSON.stringify({ nodes, levels }),
    HIGHWATER_AUTHORITY: "lease",
    HIGHWATER_LEASE_ETCD: etcd.url,
    HIGHWATER_LEASE_SCOPE: "shop",
  };
  const start = (service: ServiceKind, more: Record<string, string>): Promise<ServiceProcess> =>
    ServiceProcess.start({
      name: service,
      service,
      env: { ...env, ...more },
      // The folder belongs to the servers' user; if this process is root, it can write there.
      logFile: join(patroni.dir, `${service}.log`),
      startTimeoutMs: 180_000,
    });
  const tracker = await start("tracker", {
    TRACKER_NAME: "one",
    TRACKER_REGION: "east",
    TRACKER_LEDGER: join(patroni.dir, "ledger.sqlite"),
  });
  const gateway = await start("gateway", {
    GATEWAY_NAME: "one",
    GATEWAY_REGION: "east",
    GATEWAY_TRACKERS: tracker.url,
  });
  return { tracker, gateway };
}

test(
  "Patroni fails over in the middle of commits, and every verdict is true",
  { skip: missing ?? false },
  async () => {
    await using etcd = await Etcd.start();
    await using patroni = await PatroniCluster.start({ etcd, scope: "shop", members: MEMBERS });
    const { tracker, gateway } = await startServices(etcd, patroni);
    try {
      const dead = (await patroni.leader()) ?? "";
      await commit(gateway.url, [{ sql: "CREATE TABLE kv (key text PRIMARY KEY, value int)" }]);
      const tokens = new Map<string, string>();
      const write = async (key: string): Promise<boolean> => {
        const { status, body } = await send(gateway.url, [put(key)]);
        if (status !== 200) return false;
        tokens.set(key, body.token);
        return true;
      };
      for (let i = 0; i < 20; i++) {
        const key = `early-${String(i)}`;
        tokens.set(key, (await commit(gateway.url, [put(key)])).token);
      }
      const early = [...tokens.keys()];
      for (const { verdict: found } of await verdicts(tracker.url, [...tokens.values()], { level: "safe" }))
        assert.equal(found, "durable");
      const epoch = (await marksOf(tracker.url)).marks?.epoch;

      // Commits go on until the primary has died. Fast ones may be lost, durable ones not.
      let isOver = false;
      const burst = (async () => {
        for (let i = 0; !isOver; i++) await write(`burst-${String(i)}`);
      })();
      await eventually("the burst is under way", () => Promise.resolve(tokens.size > early.length + 20));
      await patroni.kill(dead);
      isOver = true;
      await burst;
      await patroni.revokeLease();
      const another = async (): Promise<string | false | undefined> => {
        const leader = await patroni.leader();
        return leader !== dead && leader;
      };
      const heir = await eventually("Patroni has chosen another", another, PATRONI_MS);
      await commit(gateway.url, [put("after")]);
      const after = await eventually("the new epoch", async () => {
        const answer = await marksOf(tracker.url);
        return answer.marks !== null && answer.marks.epoch !== epoch ? answer : undefined;
      });
      assert.equal(after.epochs.at(-1)?.node, heir);

      // The old leader's Patroni finds the new one and rewinds its server, which gets no traffic.
      patroni.start(dead);
      await eventually("it follows", () => patroni.isReplica(dead), PATRONI_MS);
      const hasAfter = async (): Promise<boolean> => {
        const rows = await patroni.query(dead, "SELECT FROM kv WHERE key = 'after'");
        return rows.length === 1;
      };
      await eventually("it has what came after", hasAfter, PATRONI_MS);
      const present = new Set(
        (await patroni.query(heir, "SELECT key FROM kv")).map(({ key }) => String(key)),
      );
      const settled = await eventually("every verdict", async () => {
        const judged = await verdicts(tracker.url, [...tokens.values()], { level: "safe" });
        return judged.every((each) => each.verdict !== "pending") && judged;
      });
      for (const [index, key] of [...tokens.keys()].entries()) {
        const expected = present.has(key) ? "durable" : "lost";
        assert.equal(settled[index]?.verdict, expected, `${key}: ${JSON.stringify(settled[index])}`);
      }
      assert.ok(early.every((key) => present.has(key)));
      const last = await commit(gateway.url, [put("last")]);
      assert.equal((await verdict(tracker.url, last.token, { level: "safe" })).verdict, "durable");
      assert.equal((await marksOf(tracker.url)).marks?.epoch, after.marks?.epoch);
    } finally {
      await gateway.stop();
      await tracker.stop();
    }
  },
);
