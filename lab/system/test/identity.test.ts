// Goal: a tracker with authentication answers each caller only about its own transactions, accepts
// announcements only from gateways, and works with gateways and SDKs like one without. Levels
// change meanwhile. Method: gateways and trackers as processes, keys made by the operator's
// command, requests by hand and by the SDK.
import assert from "node:assert/strict";
import { readFile, rename, writeFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  decodeToken,
  type ExposureLimits,
  type KeyList,
  LIMITS,
  type Topology,
  type VerdictsResponse,
} from "@highwater/protocol";
import { Highwater, sql } from "@highwater/sdk";
import { internalCredential } from "@highwater/service";
import { testToken } from "@highwater/service/testing";
import { SERVICE_ROLE, System } from "../src/index.ts";
import { eventually, newId } from "../src/testing.ts";

const [EAST, WEST] = ["us-east", "us-west"] as const;
const SECRET = "a secret of this test's cluster";
/** An expected event happens within this time even on a busy machine. */
const WAIT_MS = 60_000;
const ASK_MS = 2 * WAIT_MS;

let system: System;
/** Two keys of one owner, one key of another, and one that may only write. */
let alice: string;
let alicesOther: string;
let bob: string;
let writer: string;
let client: Highwater;

before(async () => {
  system = await System.start({
    cluster: {
      nodes: [
        { id: EAST, region: EAST },
        { id: WEST, region: WEST },
      ],
    },
    env: {
      ...{ GATEWAY_AUTH: "keys", TRACKER_AUTH: "keys", HIGHWATER_INTERNAL_SECRET: SECRET },
      ...{ TRACKER_MAX_STREAMS_PER_KEY: "3", TRACKER_MAX_WAITING_PER_KEY: "50" },
      TRACKER_TOKENS_PER_SECOND_PER_KEY: "1000",
      // So few that gateways would be refused if they counted.
      TRACKER_MAX_STREAMS: "7",
    },
  });
  const scopes = ["read", "write"];
  [alice, alicesOther, bob, writer] = await Promise.all([
    system.createKey({ name: "one", owner: "alice", scopes }),
    system.createKey({ name: "two", owner: "alice", scopes: ["read", "admin"] }),
    system.createKey({ name: "three", owner: "bob", scopes }),
    system.createKey({ name: "four", owner: "alice", scopes: ["write"] }),
  ]);
  client = new Highwater({ endpoints: await system.endpoints(EAST), apiKey: alice });
  await client.transaction(sql`CREATE TABLE kv (key text PRIMARY KEY, value int)`);
});

after(async () => {
  await client.close();
  await system.close();
});

test("gateways and trackers log in as no superuser, on any node", async () => {
  for (const { id } of system.cluster.nodes) {
    const sessions = await system.cluster.query(
      id,
      `SELECT DISTINCT r.rolname::text AS role, r.rolsuper AS is_superuser FROM pg_stat_activity a JOIN pg_roles r ON r.oid = a.usesysid
       WHERE a.application_name LIKE 'highwater:%' ORDER BY 1`,
    );
    assert.ok(
      sessions.some(({ role }) => role === SERVICE_ROLE),
      JSON.stringify(sessions),
    );
    assert.deepEqual(
      sessions.filter(({ is_superuser }) => is_superuser),
      [],
    );
  }
});

test("no session of theirs keeps a snapshot between two statements: on a replica, promotions would wait for it", async () => {
  const LOOKS = 20;
  for (const { id } of system.cluster.nodes) {
    const keeping = [];
    for (let look = 0; look < LOOKS; look++) {
      const [session] = await system.cluster.query(
        id,
        `SELECT application_name FROM pg_stat_activity
         WHERE application_name LIKE 'highwater:%' AND state <> 'active' AND backend_xmin IS NOT NULL`,
      );
      if (session !== undefined) keeping.push(session);
      await sleep(100);
    }
    // Some looks fall between two statements of one short transaction.
    assert.ok(keeping.length < LOOKS / 2, `${id}: ${JSON.stringify(keeping)}`);
  }
});

interface Answered {
  readonly status: number;
  readonly body: unknown;
}

async function ask(path: string, key: string | null, body?: unknown): Promise<Answered> {
  const response = await fetch(`${system.tracker(EAST).url}${path}`, {
    headers: {
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(ASK_MS),
  });
  if (response.headers.get("content-type")?.startsWith("text/event-stream") === true) {
    await response.body?.cancel();
    return { status: response.status, body: null };
  }
  const text = await response.text();
  return { status: response.status, body: text === "" ? null : JSON.parse(text) };
}

async function statusOf(path: string, key: string | null, body?: unknown): Promise<string> {
  const { status, body: answer } = await ask(path, key, body);
  return status < 400 ? String(status) : `${String(status)} ${(answer as { code: string }).code}`;
}

async function verdictsOf(
  key: string,
  tokens: readonly string[],
  level?: string,
): Promise<VerdictsResponse["verdicts"]> {
  const untilMs = performance.now() + WAIT_MS;
  for (;;) {
    const question = { tokens, waitMs: WAIT_MS, ...(level === undefined ? {} : { level }) };
    const { status, body } = await ask("/v1/durability/verdicts", key, question);
    assert.equal(status, 200, JSON.stringify(body));
    const { verdicts, blind } = body as VerdictsResponse;
    // A tracker that does not see the primary for a moment answers early, so that clients ask another one.
    if (blind !== true || performance.now() > untilMs) return verdicts;
  }
}

const insert = (key: string): ReturnType<typeof sql> => sql`INSERT INTO kv VALUES (${key}, 1)`;

test("without a credential, with a wrong one, or without the scope, a tracker says nothing", async () => {
  const { token } = await client.transaction(insert("scopes"));
  const question = { tokens: [token] };
  const wrong = `${alice.slice(0, -2)}xx`;
  for (const [path, body] of [
    ["/v1/durability/marks"],
    ["/v1/durability/stream"],
    ["/v1/durability/verdicts", question],
  ] as const) {
    assert.equal(await statusOf(path, null, body), "401 unauthenticated", path);
    assert.equal(await statusOf(path, wrong, body), "401 unauthenticated", path);
    assert.equal(await statusOf(path, writer, body), "403 forbidden", path);
    assert.equal(await statusOf(path, alice, body), "200", path);
  }
  const preview = { epoch: decodeToken(token)?.epoch, candidates: [{ node: EAST, offset: "1" }] };
  assert.equal(await statusOf("/v1/durability/failover-preview", alice, preview), "403 forbidden");
  assert.equal(await statusOf("/v1/durability/failover-preview", alicesOther, preview), "200");
  // An operator during a failover may have no key: the services' secret is enough.
  assert.equal(await statusOf("/v1/durability/failover-preview", internalCredential(SECRET), preview), "200");
  for (const path of ["/healthz", "/readyz"]) assert.equal(await statusOf(path, null), "200");
  const metrics = await (await fetch(`${system.tracker(EAST).url}/metrics`)).text();
  assert.match(metrics, /^highwater_tracker_refusals_total\{code="unauthenticated"\} 6$/m);
});

test("announcements are for gateways, whatever a key may do", async () => {
  const epoch = decodeToken((await client.transaction(insert("announce"))).token)?.epoch;
  const batch = {
    gateway: "mallory",
    announcements: [{ kind: "withdrawn", id: newId(), epoch, by: "mallory.1" }],
  };
  assert.equal(await statusOf("/internal/announcements", null, batch), "401 unauthenticated");
  assert.equal(await statusOf("/internal/announcements", alicesOther, batch), "403 forbidden");
  assert.equal(await statusOf("/internal/announcements", "hwi_aaaaaaaaaaaa", batch), "401 unauthenticated");
  assert.equal(
    await statusOf("/internal/announcements", SECRET.replaceAll(" ", ""), batch),
    "401 unauthenticated",
  );
});

test("operators see all keys without their secrets, and the limits of all gateways; no other key does", async () => {
  for (const path of ["/v1/keys", "/v1/durability/exposure/limits"]) {
    assert.equal(await statusOf(path, null), "401 unauthenticated", path);
    for (const key of [alice, bob, writer]) assert.equal(await statusOf(path, key), "403 forbidden", path);
  }
  const { status, body } = await ask("/v1/keys", alicesOther);
  assert.equal(status, 200, JSON.stringify(body));
  const { keys, total } = body as KeyList;
  assert.deepEqual([keys.length, total], [4, 4]);
  assert.deepEqual(keys.map(({ name, owner, state }) => `${name} ${owner} ${state}`).sort(), [
    "four alice active",
    "one alice active",
    "three bob active",
    "two alice active",
  ]);
  const text = JSON.stringify(body);
  for (const key of [alice, alicesOther, bob, writer])
    assert.ok(!text.includes(key.slice(-16)), "a secret is listed");

  const gateways = await eventually("both gateways have reported", async () => {
    const { body: answer } = await ask("/v1/durability/exposure/limits", alicesOther);
    const { gateways: found } = answer as ExposureLimits;
    return found.length === 2 ? found : undefined;
  });
  for (const { gateway, level, limits } of gateways) {
    assert.ok(system.regions.includes(gateway), gateway);
    assert.equal(level, "region");
    assert.deepEqual(
      limits.map(({ name, value }) => [name, value]),
      [
        ["exposureTransactions", 200_000],
        ["maxPendingAnnouncements", 100_000],
      ],
    );
  }
  const report = { gateway: "mallory", region: EAST, level: "region", limits: [] };
  assert.equal(await statusOf("/internal/exposure-limits", null, report), "401 unauthenticated");
  assert.equal(await statusOf("/internal/exposure-limits", alicesOther, report), "403 forbidden");
});

test("verdicts by id are for gateways, whatever a key may do", async () => {
  const question = { of: [{ id: newId() }], level: "region" };
  assert.equal(await statusOf("/internal/losses", null, question), "401 unauthenticated");
  assert.equal(await statusOf("/internal/losses", alicesOther, question), "403 forbidden");
  assert.equal(await statusOf("/internal/losses", internalCredential(SECRET), question), "200");
});

test("a token is judged for its owner; one that is not spoils no other", async () => {
  const { token } = await client.transaction(insert("mine"));
  const content = decodeToken(token);
  assert.ok(content !== undefined && content.owner !== 0n);
  const nobodys = testToken({ ...content, owner: 0n });
  const answered = await verdictsOf(alicesOther, [nobodys, token, "nonsense", token]);
  assert.deepEqual(
    answered.map((one) => ("error" in one ? `${one.rule} ${one.error.code}` : one.verdict)),
    ["refused forbidden", "durable", "refused invalid_token", "durable"],
  );
  assert.deepEqual(
    answered.map((one) => one.token),
    [nobodys, token, "nonsense", token],
  );
  const [others] = await verdictsOf(bob, [token]);
  assert.deepEqual(others, {
    ...{ token, verdict: "unknown", level: "region", rule: "refused" },
    error: { code: "forbidden", detail: "The token belongs to another owner." },
  });
});

test("the SDK keeps its promises by an authenticated stream, and says why another's token is not judged", async () => {
  const tx = await client.transaction(insert("sdk"));
  await tx.durable({ level: "global", timeoutMs: WAIT_MS });
  await using stranger = new Highwater({ endpoints: await system.endpoints(EAST), apiKey: bob });
  const [refused] = await stranger.verdicts([tx.token]);
  assert.ok(refused !== undefined && "error" in refused);
  assert.equal(refused.error.code, "forbidden");
  const own = await stranger.transaction(insert("bob's"));
  await own.durable({ timeoutMs: WAIT_MS });
});

test("a gateway announces: the tracker acknowledges what it says", async () => {
  await eventually("a commit is announced when it is answered", async () => {
    return (await client.transaction(insert(newId()))).announced;
  });
  await eventually("nothing waits for an acknowledgement", async () => {
    const metrics = await (await fetch(`${system.gateway(EAST).url}/metrics`)).text();
    return /^highwater_gateway_unacknowledged_transactions 0$/m.test(metrics);
  });
});

test("a gateway asks for all its callers: safe transactions, and states that wait", async () => {
  const safe = await client.transaction(insert("safe"), { ack: "durable", level: "global" });
  assert.equal(safe.state, "durable");
  const { id } = await client.transaction(insert("waits"));
  const { state } = await client.status(id, { level: "global", waitMs: WAIT_MS });
  assert.equal(state, "durable");
});

test("levels change in the file, and gateways and trackers follow without a restart; nodes do not", async () => {
  const change = async (make: (before: Topology) => Topology): Promise<void> => {
    for (const region of system.regions) {
      const file = system.topologyFile(region);
      const before = JSON.parse(await readFile(file, "utf8")) as Topology;
      await writeFile(`${file}.new`, JSON.stringify(make(before)));
      await rename(`${file}.new`, file);
    }
  };
  const before = await client.transaction(insert("before"));
  await assert.rejects(client.transaction(insert("too soon"), { ack: "durable", level: "far" }), /far/);
  await change(({ nodes, levels }) => ({
    nodes,
    levels: { ...levels, far: { replicas: 1, outside: "region" } },
  }));
  const safe = await eventually("the gateway knows the level", () =>
    client.transaction(insert("far"), { ack: "durable", level: "far" }).catch(() => undefined),
  );
  assert.ok(safe.state === "durable" || safe.state === "pending");
  await eventually("the tracker knows it", async () => {
    const { body } = await ask("/v1/durability/marks", alice);
    return (body as { levels: string[] }).levels.includes("far");
  });
  // This holds for earlier transactions, too.
  const judged = await verdictsOf(alice, [before.token, safe.token], "far");
  assert.deepEqual(
    judged.map(({ verdict }) => verdict),
    ["durable", "durable"],
  );
  await change(({ nodes, levels }) => ({
    nodes: nodes.slice(0, 1),
    levels: { disk: levels["disk"] ?? {} } as never,
  }));
  for (const service of [system.gateway(EAST), system.tracker(EAST)])
    await eventually(`${service.name} says that it refuses`, async () =>
      /^highwater_topology_refused 1$/m.test(await (await fetch(`${service.url}/metrics`)).text()),
    );
  const still = await client.transaction(insert("still"), { ack: "durable", level: "far" });
  assert.equal(still.state, "durable");
});

test("a key has its share of streams, gateways always get one, and a revocation ends them", async () => {
  const stop = new AbortController();
  const open = (key: string): Promise<Response> =>
    fetch(`${system.tracker(EAST).url}/v1/durability/stream`, {
      headers: { authorization: `Bearer ${key}` },
      signal: stop.signal,
    });
  const greedy = await system.createKey({ name: "greedy", owner: "bob", scopes: ["read"] });
  const streams = [await open(greedy), await open(greedy), await open(greedy)];
  assert.deepEqual(
    streams.map(({ status }) => status),
    [200, 200, 200],
  );
  const refused = await open(greedy);
  const { code, limit } = (await refused.json()) as { code: string; limit: object };
  assert.deepEqual([code, limit], ["concurrency_limited", { name: "maxStreamsPerKey", value: 3 }]);
  // Until only the services may open another stream.
  while ((await open(bob)).status === 200);
  assert.equal((await open(internalCredential(SECRET))).status, 200);
  await system.revokeKey(greedy);
  const revokedAtMs = performance.now();
  for (const { body } of streams) for await (const _ of body ?? []);
  // Without a notification of the change, a stream would be checked only after a minute.
  assert.ok(performance.now() - revokedAtMs < 30_000);
  stop.abort();
});

test("a key may wait for the verdicts of so many tokens, and others still may", async () => {
  const mine = await client.transaction(insert("waiting"));
  await using other = new Highwater({ endpoints: await system.endpoints(EAST), apiKey: bob });
  const others = await other.transaction(insert("bob waits"));
  const [own] = await verdictsOf(alice, [mine.token]);
  const [bobs] = await verdictsOf(bob, [others.token]);
  assert.deepEqual([own?.verdict, bobs?.verdict], ["durable", "durable"]);
  await system.cluster.stop(WEST);
  const late = await client.transaction(insert("late"));
  const ask30 = (key: string, token: string): Promise<string> => {
    const tokens = Array.from({ length: 30 }, () => token);
    return statusOf("/v1/durability/verdicts", key, { tokens, level: "region", waitMs: WAIT_MS });
  };
  // The accepted call waits until the other node is back; the other call is refused at once.
  const two = [ask30(alice, late.token), ask30(alice, late.token)];
  const refused = two.map(async (call) => {
    assert.equal(await call, "429 concurrency_limited");
  });
  await Promise.any(refused);
  assert.equal(await ask30(alice, mine.token), "200", "none waits");
  assert.equal(await ask30(bob, others.token), "200");
  await system.cluster.start(WEST);
  assert.deepEqual((await Promise.all(two)).sort(), ["200", "429 concurrency_limited"]);
});

test("a key has the verdicts of so many tokens in a time, and takes none of another's", async () => {
  const { token } = await client.transaction(insert("often asked"));
  const tokens = Array.from({ length: LIMITS.tokensPerRequest }, () => token);
  const question = (): Promise<string> => statusOf("/v1/durability/verdicts", alicesOther, { tokens });
  const answers = await Promise.all([question(), question(), question()]);
  assert.deepEqual(answers.sort(), ["200", "429 rate_limited", "429 rate_limited"]);
  for (const key of [alice, bob]) assert.equal((await verdictsOf(key, [token])).length, 1);
});

test("a key that is revoked is refused", async () => {
  assert.equal(await statusOf("/v1/durability/marks", bob), "200");
  await system.revokeKey(bob);
  await eventually("the tracker has read it", async () => {
    return (await statusOf("/v1/durability/marks", bob)) === "401 unauthenticated";
  });
});
