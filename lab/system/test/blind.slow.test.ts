// Goal: a tracker that gets no report from the primary says so, and its gateway and clients move to
// another tracker. Method: the whole product. The services of one region have their own links and
// login roles to the nodes; the test cuts the links and blocks the roles one at a time. All tests
// share one system.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Problem } from "@highwater/protocol";
import { Highwater, sql } from "@highwater/sdk";
import { gatewayLocation, System, trackerLocation, trackerRole } from "../src/index.ts";
import {
  type JsonResponse,
  commit,
  createTable,
  eventually,
  post,
  put,
  send,
  stateOf,
} from "../src/testing.ts";

const [EAST, WEST] = ["us-east", "us-west"] as const;
const SAFE = { ack: "durable", level: "region", maxWaitMs: 60_000 } as const;

let system: System;

before(async () => {
  system = await System.start({ hasTrackerLinks: true, hasTrackerRoles: true, hasGatewayLinks: true });
  await createTable(system, EAST);
});

after(() => system.close());

async function readiness(url: string): Promise<{ status: number; body: Partial<Problem> }> {
  const response = await fetch(`${url}/readyz`);
  return { status: response.status, body: (await response.json()) as Partial<Problem> };
}

async function untilReady(url: string): Promise<void> {
  await eventually("it is ready again", async () => (await readiness(url)).status === 200 || undefined);
}

async function refuse(...roles: readonly string[]): Promise<void> {
  for (const role of roles) await system.cluster.query(EAST, `ALTER ROLE ${role} NOLOGIN`);
  const end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = ANY ($1)";
  await system.cluster.query(EAST, end, [roles]);
}

async function admit(...roles: readonly string[]): Promise<void> {
  for (const role of roles) await system.cluster.query(EAST, `ALTER ROLE ${role} LOGIN`);
}

async function untilBlind(): Promise<void> {
  const { body } = await eventually("the tracker says that it is blind", async () => {
    const answer = await readiness(system.tracker(EAST).url);
    return answer.status === 503 ? answer : undefined;
  });
  assert.equal(body.code, "primary_unavailable");
}

/** Sent once, before any service can have noticed the fault. */
async function assertSafe(key: string): Promise<void> {
  const { status, body } = await send(system.gateway(EAST).url, [put(key)], SAFE);
  assert.equal(status, 200, JSON.stringify(body));
  assert.equal(body.state, "durable");
}

describe("the nearest tracker receives no reports from the primary", () => {
  it("over a dead way to it: safe commits are durable through another tracker", async () => {
    const link = system.cluster.link(trackerLocation(EAST), EAST);
    await link.cut();
    try {
      await assertSafe("as it goes");
      await untilBlind();
      await assertSafe("blind");
      const { id } = await commit(system.gateway(EAST).url, [put("asked")], SAFE);
      const known = await stateOf(system.gateway(EAST).url, id);
      assert.equal(known.body.state, "durable");
      assert.equal((await readiness(system.gateway(EAST).url)).status, 200);
    } finally {
      await link.heal();
    }
    await untilReady(system.tracker(EAST).url);
  });

  it("because its role is refused: the same", async () => {
    await refuse(trackerRole(EAST));
    try {
      await assertSafe("refused");
      await untilBlind();
      await assertSafe("refused and blind");
    } finally {
      await admit(trackerRole(EAST));
    }
    await untilReady(system.tracker(EAST).url);
  });

  it("a client that waits for a fast commit learns its verdict from another tracker, and so does a look-up", async () => {
    const hw = new Highwater({ endpoints: await system.endpoints(EAST), tuning: { recheckMs: 3_600_000 } });
    await refuse(trackerRole(EAST));
    try {
      const early = await hw.transaction(sql`INSERT INTO kv (key, value) VALUES ('fast', 1)`);
      assert.equal((await early.durable({ timeoutMs: 60_000 })).verdict, "durable");
      await untilBlind();
      const late = await hw.transaction(sql`INSERT INTO kv (key, value) VALUES ('fast and blind', 1)`);
      assert.equal((await late.durable({ timeoutMs: 60_000 })).verdict, "durable");
    } finally {
      await admit(trackerRole(EAST));
      await hw.close();
    }
    await untilReady(system.tracker(EAST).url);
  });
});

it("where every tracker is blind, a safe commit is pending and the gateway is not ready", async () => {
  const gateway = system.gateway(EAST).url;
  await refuse(...system.regions.map(trackerRole));
  try {
    const { body } = await eventually("the gateway says so", async () => {
      const answer = await readiness(gateway);
      return answer.status === 503 ? answer : undefined;
    });
    assert.equal(body.code, "marks_unavailable");
    const pending = await send(gateway, [put("nobody sees")], { ...SAFE, maxWaitMs: 1_000 });
    assert.equal(pending.status, 202);
    assert.equal(pending.body.state, "pending");
  } finally {
    await admit(...system.regions.map(trackerRole));
  }
  await untilReady(gateway);
  for (const region of system.regions) await untilReady(system.tracker(region).url);
  await assertSafe("seen again");
});

/** Waits until the gateway's next transaction commits in the next epoch. */
async function untilNextEpoch(before: string): Promise<void> {
  const { url } = system.gateway(WEST);
  let attempts = 0;
  await eventually("a transaction commits in the next epoch", async () => {
    const { body } = await send(url, [put(`next after ${before}, ${String(attempts++)}`)]);
    return body.position !== undefined && body.position.epoch !== before ? true : undefined;
  });
}

describe("no tracker begins the next epoch, so a gateway does", () => {
  it("because all of them are frozen", async () => {
    const { position } = await commit(system.gateway(WEST).url, [put("before")], SAFE);
    const pids = system.regions.map((region) => system.tracker(region).pid ?? assert.fail("no process"));
    for (const pid of pids) process.kill(pid, "SIGSTOP");
    try {
      await system.cluster.crashBackend(EAST);
      await untilNextEpoch(position.epoch);
    } finally {
      for (const pid of pids) process.kill(pid, "SIGCONT");
    }
    for (const region of system.regions) await untilReady(system.tracker(region).url);
    await untilReady(system.gateway(EAST).url);
    await assertSafe("thawed");
  });

  it("because the database refuses all of them", async () => {
    const { position } = await commit(system.gateway(WEST).url, [put("before too")], SAFE);
    await refuse(...system.regions.map(trackerRole));
    try {
      await system.cluster.crashBackend(EAST);
      await untilNextEpoch(position.epoch);
    } finally {
      await admit(...system.regions.map(trackerRole));
    }
    for (const region of system.regions) await untilReady(system.tracker(region).url);
    await untilReady(system.gateway(EAST).url);
    await assertSafe("admitted");
  });
});

it("a gateway that is cut off from the primary refuses transactions, and its region's tracker keeps working", async () => {
  const link = system.cluster.link(gatewayLocation(EAST), EAST);
  await link.cut();
  try {
    await eventually("the gateway is not ready", async () => {
      const { status } = await readiness(system.gateway(EAST).url);
      return status === 503 || undefined;
    });
    const id = (await commit(system.gateway(WEST).url, [put("elsewhere")], SAFE)).id;
    const refused: JsonResponse<Partial<Problem>> = await post(
      `${system.gateway(EAST).url}/v1/transactions`,
      {
        id,
        statements: [put("elsewhere")],
      },
    );
    assert.equal(refused.body.code, "primary_unavailable");
    assert.equal((await readiness(system.tracker(EAST).url)).status, 200);
  } finally {
    await link.heal();
  }
  await untilReady(system.gateway(EAST).url);
  await assertSafe("back");
});
