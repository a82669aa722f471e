// Goal: a gateway or tracker whose schedule of deployment keys differs from the others' is not
// ready, names the differing key, and does not use its keys. A rotation that is rolled out before
// it takes effect keeps every service ready. Method: real processes on one real node.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import type { Problem } from "@highwater/protocol";
import { TEST_DEPLOYMENT } from "@highwater/service/testing";
import { type ServiceKind, ServiceProcess } from "../src/service-process.ts";
import { commit, eventually, newId, post, send } from "../src/testing.ts";

const [FIRST] = JSON.parse(TEST_DEPLOYMENT.HIGHWATER_DEPLOYMENT_KEYS) as [Record<string, unknown>];
const OTHER = { ...FIRST, secret: "another secret of thirty-two chars" };
const NEXT = { kid: 2, validFrom: "2999-01-01T00:00:00Z", secret: "the next secret, of enough letters" };

let cluster: Cluster;
let folder: string;
let tracker: ServiceProcess;
const running: ServiceProcess[] = [];

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "highwater-schedules-"));
  cluster = await startCluster({ nodes: [{ id: "a", region: "r" }] });
  tracker = await start("tracker", FIRST);
  await untilReady(tracker);
});

after(async () => {
  await Promise.all(running.map((service) => service.stop()));
  await cluster.close();
  await rm(folder, { recursive: true });
});

async function start(service: ServiceKind, ...schedule: readonly unknown[]): Promise<ServiceProcess> {
  const name = `${service}-${String(running.length)}`;
  const prefix = service.toUpperCase();
  const nodes = [{ id: "a", region: "r", zone: "z", url: await cluster.connectionString("a") }];
  const started = await ServiceProcess.start({
    ...{ name, service, logFile: join(folder, `${name}.log`), startTimeoutMs: 180_000 },
    env: {
      HIGHWATER_TOPOLOGY: JSON.stringify({ nodes, levels: { disk: { primary: true } } }),
      HIGHWATER_DEPLOYMENT: TEST_DEPLOYMENT.HIGHWATER_DEPLOYMENT,
      HIGHWATER_DEPLOYMENT_KEYS: JSON.stringify(schedule),
      [`${prefix}_NAME`]: name,
      [`${prefix}_REGION`]: "r",
      ...(service === "tracker"
        ? { TRACKER_LEDGER: join(folder, `${name}.sqlite`) }
        : { GATEWAY_TRACKERS: tracker.url }),
    },
  });
  running.push(started);
  return started;
}

async function readiness({ url }: ServiceProcess): Promise<Partial<Problem>> {
  const response = await fetch(`${url}/readyz`);
  return { ...((await response.json()) as Partial<Problem>), status: response.status };
}

function untilReady(service: ServiceProcess): Promise<true> {
  return eventually(`${service.name} is ready`, async () => (await readiness(service)).status === 200);
}

/** The reason why it is not ready, once it has compared its keys. */
function untilRefused(service: ServiceProcess): Promise<string> {
  return eventually(`${service.name} says that its keys differ`, async () => {
    const { status, detail = "" } = await readiness(service);
    assert.notEqual(status, 200, `${service.name} is ready`);
    return detail.includes("differs") && detail;
  });
}

test("services with another secret are not ready and name the key, and change nothing for the others", async () => {
  for (const service of ["gateway", "tracker"] as const) {
    const detail = await untilRefused(await start(service, OTHER, NEXT));
    assert.match(detail, /: key 1 has another secret or validFrom\. Give every service the same schedule/);
    assert.doesNotMatch(detail, /secret of/);
  }
  const known = await cluster.query("a", "SELECT kid FROM highwater.deployment_key");
  assert.deepEqual(known, [{ kid: 1 }], "a schedule that differs publishes nothing");
  await untilReady(await start("gateway", FIRST));
  await untilReady(tracker);
});

test("with other keys no id runs twice, and no token of the others is called invalid", async () => {
  const gateway = await start("gateway", FIRST);
  await untilReady(gateway);
  await cluster.query("a", "CREATE TABLE counter (value int)");
  await cluster.query("a", "INSERT INTO counter VALUES (0)");
  await cluster.query("a", "GRANT ALL ON counter TO PUBLIC");
  const id = newId();
  const increment = [{ sql: "UPDATE counter SET value = value + 1" }];
  const { token } = await commit(gateway.url, increment, { id });

  const stranger = await start("gateway", OTHER);
  const answers: Partial<Problem>[] = [];
  await eventually("it has compared its keys", async () => {
    const { body } = await send(stranger.url, increment, { id });
    answers.push(body);
    return body.detail?.includes("key 1 has another secret");
  });
  for (const { code, outcome, retry } of answers)
    assert.deepEqual(
      [code, outcome, retry],
      ["primary_unavailable", "not_applied", "wait"],
      "from its start on",
    );
  const look = (await (await fetch(`${stranger.url}/v1/transactions/${id}`)).json()) as Partial<Problem>;
  assert.equal(look.code, "primary_unavailable", "it would not find the receipt");
  const begun = await post<Partial<Problem>>(`${stranger.url}/v1/transactions/begin`, { id: newId() });
  assert.equal(begun.body.code, "primary_unavailable");
  assert.deepEqual(await cluster.query("a", "SELECT value FROM counter"), [{ value: 1 }]);

  const other = await start("tracker", OTHER);
  await untilRefused(other);
  const asked = await post<Partial<Problem>>(`${other.url}/v1/durability/verdicts`, { tokens: [token] });
  assert.deepEqual([asked.status, asked.body.code], [503, "primary_unavailable"]);
});

test("the next key is rolled out one service at a time, and all stay ready until its time", async () => {
  await untilReady(await start("gateway", FIRST, NEXT));
  const known = await cluster.query("a", "SELECT kid FROM highwater.deployment_key ORDER BY kid");
  assert.deepEqual(known, [{ kid: 1 }, { kid: 2 }]);
  await untilReady(await start("gateway", FIRST));
  const late = await untilRefused(
    await start("gateway", FIRST, { ...NEXT, kid: 3, validFrom: "2026-01-01T00:00:00Z" }),
  );
  assert.match(late, /key 3 was not published before its validFrom/);
});

test("no application reads the check values", async () => {
  const [row] = await cluster.query(
    "a",
    "SELECT has_table_privilege('highwater_app', 'highwater.deployment_key', 'SELECT, INSERT, UPDATE, DELETE') AS may",
  );
  assert.equal(row?.["may"], false);
});
