// Goal: under far more load than the database can take, the gateway refuses requests before they run, with the limit's name
// and a time to retry. It serves admitted requests, and recovers at once.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { problemOf, TestGateway } from "../support/gateway.ts";

const POOL = 2;
const QUEUE = 8;
const CLIENTS = 20 * (POOL + QUEUE);
const ROUNDS = 5;

let cluster: Cluster;
let gateway: TestGateway;

before(async () => {
  cluster = await startCluster({ nodes: [{ id: "a", region: "us-east" }] });
  gateway = await TestGateway.start(cluster, {
    env: { GATEWAY_POOL_SIZE: String(POOL), GATEWAY_POOL_QUEUE: String(QUEUE) },
  });
  await gateway.ready();
  await gateway.run("CREATE TABLE served (n serial)");
});

after(async () => {
  await gateway.close();
  await cluster.close();
});

it("twenty times as many clients as it has room for", async () => {
  const statements = [{ sql: "INSERT INTO served DEFAULT VALUES" }, { sql: "SELECT pg_sleep(0.05)" }];
  let served = 0;
  const client = async (): Promise<void> => {
    for (let round = 0; round < ROUNDS; round++) {
      const answer = await gateway.post({ statements, isolation: "read committed" });
      if (answer.status === 200) {
        served++;
        continue;
      }
      const problem = problemOf(answer);
      assert.deepEqual([problem.status, problem.code, problem.outcome], [503, "overloaded", "not_applied"]);
      assert.equal(problem.limit?.value, POOL + QUEUE);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  assert.ok(served >= POOL + QUEUE, `${String(served)} were served`);
  assert.ok(served < CLIENTS * ROUNDS, "nothing was refused: the test overloads nothing");
  const [row] = await cluster.query("a", "SELECT count(*)::int AS n FROM served");
  assert.equal(row?.["n"], served, "what was refused did nothing, and what was answered is there");

  // A session takes no other transaction before its reset, which comes behind the answer.
  const busy = 'highwater_gateway_pool_sessions{node="a",use="write",state="busy"}';
  for (const underWay of ["highwater_gateway_active_transactions", busy])
    await eventually("nothing is under way", async () => (await gateway.metric(underWay)) === 0);
  const again = await Promise.all(Array.from({ length: POOL + QUEUE }, () => gateway.post({})));
  assert.deepEqual([...new Set(again.map(({ status }) => status))], [200]);
  const [sessions] = await cluster.query(
    "a",
    "SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name = $1",
    [`highwater:${gateway.name}`],
  );
  assert.ok(Number(sessions?.["n"]) <= POOL);
});
