// The reader with a scripted etcd and a clock that only the test moves. test/lease.etcd.test.ts
// uses a real etcd.
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { FakeClock, settle } from "@highwater/runtime/testing";
import { EtcdClient, type HttpRequest, type HttpResponse } from "./etcd.ts";
import { LEASE_MARGIN_MS, LeaseReader } from "./reader.ts";

const ONE = "http://one:2379";
const TWO = "http://two:2379";
const TIMEOUT_MS = 1_000;
const POLL_MS = 500;

let clock: FakeClock;
let asked: HttpRequest[];
let answer: (request: HttpRequest) => HttpResponse | Promise<HttpResponse>;
let changes: number;

const ok = (body: unknown): HttpResponse => ({ status: 200, body: JSON.stringify(body) });
const base64 = (text: string): string => Buffer.from(text).toString("base64");

/** An etcd with one leader key. */
function leader(value: string, ttl: string, revision = "5"): (request: HttpRequest) => HttpResponse {
  return ({ url }) => {
    if (url.endsWith("/v3/lease/timetolive")) return ok({ ID: "77", TTL: ttl, grantedTTL: "30" });
    return ok({ kvs: [{ value: base64(value), create_revision: revision, lease: "77" }], count: "1" });
  };
}

const never = ({ signal }: HttpRequest): Promise<HttpResponse> =>
  new Promise((_resolve, reject) => {
    signal.addEventListener("abort", () => {
      reject(signal.reason as Error);
    });
  });

function client(endpoints: readonly string[] = [ONE, TWO]): EtcdClient {
  return new EtcdClient({
    endpoints,
    timeoutMs: TIMEOUT_MS,
    clock,
    post: async (request) => {
      asked.push(request);
      return answer(request);
    },
  });
}

function reader(members: Record<string, string> = {}): LeaseReader {
  const made = new LeaseReader({
    etcd: client(),
    key: "/service/shop/leader",
    clock,
    pollMs: POLL_MS,
    members,
  });
  made.start(() => changes++);
  return made;
}

beforeEach(() => {
  clock = new FakeClock();
  clock.nowMs = 100_000;
  asked = [];
  changes = 0;
});

describe("the lease reader", () => {
  it("trusts an answer from the question on, for what is left, less a margin", async () => {
    const answers: (() => void)[] = [];
    answer = (request) =>
      new Promise((resolve) => {
        answers.push(() => {
          resolve(leader("east", "20")(request));
        });
      });
    const lease = reader();
    await settle();
    assert.deepEqual(JSON.parse(asked[0]?.body ?? ""), { key: base64("/service/shop/leader") });
    clock.nowMs += 300;
    answers[0]?.();
    await settle();
    clock.nowMs += 400;
    answers[1]?.();
    await settle();
    assert.deepEqual(lease.view, {
      kind: "held",
      term: { node: "east", revision: "5" },
      askedAtMs: 100_000,
      validUntilMs: 100_000 + 20_000 - LEASE_MARGIN_MS,
    });
    assert.deepEqual([lease.failure, changes], [null, 1]);
    lease.stop();
  });

  it("keeps what it read while it cannot read, and says why", async () => {
    answer = leader("east", "20");
    const lease = reader();
    await settle();
    const { view } = lease;
    answer = () => Promise.reject(new Error("refused"));
    await clock.advance(POLL_MS);
    assert.equal(lease.view, view);
    assert.equal(lease.failure, "one:2379: refused; two:2379: refused");
    answer = leader("west", "20", "9");
    await clock.advance(POLL_MS);
    assert.ok(lease.view.kind === "held" && lease.view.term.node === "west");
    assert.equal(lease.failure, null);
    lease.stop();
    asked = [];
    await clock.advance(10 * POLL_MS);
    assert.deepEqual([asked.length, clock.pendingTimers], [0, 0]);
  });

  it("ends what it believed when the key has moved, even if the new holder's time cannot be read", async () => {
    answer = leader("east", "20");
    const lease = reader();
    await settle();
    answer = (request) =>
      request.url.endsWith("/v3/lease/timetolive")
        ? { status: 503, body: "{}" }
        : leader("west", "20", "9")(request);
    await clock.advance(POLL_MS);
    assert.ok(lease.view.kind === "held" && lease.view.term.node === "west");
    assert.ok(lease.view.validUntilMs <= clock.nowMs);
    assert.match(lease.failure ?? "", /status 503/);
    answer = leader("west", "20", "9");
    await clock.advance(POLL_MS);
    assert.ok(lease.view.validUntilMs > clock.nowMs);
    lease.stop();
  });

  it("takes a key without a lease, or with one that is over, for expired", async () => {
    for (const ttl of ["-1", undefined]) {
      answer = leader("east", ttl as string);
      const lease = reader();
      await settle();
      assert.ok(lease.view.kind === "held" && lease.view.validUntilMs < clock.nowMs);
      lease.stop();
    }
    answer = () => ok({ kvs: [{ value: base64("east"), create_revision: "5" }] });
    const lease = reader();
    await settle();
    assert.ok(lease.view.kind === "held" && lease.view.validUntilMs < clock.nowMs);
    answer = () => ok({ header: {} });
    await clock.advance(POLL_MS);
    assert.equal(lease.view.kind, "free");
    lease.stop();
  });

  it("confirms a term only by a question that is sent after the call", async () => {
    answer = leader("member-1", "20");
    const lease = reader({ "member-1": "east" });
    await settle();
    const term = { node: "east", revision: "5" };
    const before = asked.length;
    assert.equal(await lease.confirm(term), true);
    assert.equal(asked.length, before + 1);
    answer = leader("member-1", "20", "6");
    assert.equal(await lease.confirm(term), false, "the same holder, but not without a break");
    answer = leader("member-2", "20");
    assert.equal(await lease.confirm(term), false);
    assert.ok(lease.view.kind === "held" && lease.view.validUntilMs <= clock.nowMs, "the old hold is over");
    answer = () => ok({});
    assert.equal(await lease.confirm(term), false);
    assert.equal(lease.view.kind, "free");
    answer = () => Promise.reject(new Error("refused"));
    assert.equal(await lease.confirm(term), false);
    lease.stop();
  });
});

/** An etcd with Patroni's keys, read as of one moment. */
function manager(holder: string, standbys: string, revision = "5"): (request: HttpRequest) => HttpResponse {
  const kv = (key: string, value: unknown): unknown => ({
    key: base64(`/service/shop/${key}`),
    value: base64(typeof value === "string" ? value : JSON.stringify(value)),
    create_revision: revision,
    lease: "77",
  });
  return (request) => {
    if (!request.url.endsWith("/v3/kv/txn")) return leader(holder, "20", revision)(request);
    const parts = [
      [kv("leader", holder)],
      [kv("sync", { leader: holder, sync_standby: standbys })],
      [kv("config", { synchronous_mode: true, synchronous_node_count: 1 })],
      [kv("members/member-2", { tags: {} }), kv("members/member-3", { tags: { nofailover: true } })],
    ];
    return ok({ succeeded: true, responses: parts.map((kvs) => ({ response_range: { kvs } })) });
  };
}

describe("the lease reader, asked for candidates", () => {
  const term = { node: "east", revision: "5" };
  const members = { "member-1": "east", "member-2": "west" };

  it("reads them and the leader key at one moment, and names them as nodes", async () => {
    answer = manager("member-1", "member-2");
    const lease = reader(members);
    await settle();
    asked = [];
    assert.deepEqual(await lease.candidates(term), { kind: "known", nodes: ["west"] });
    assert.equal(asked.length, 1);
    const { success } = JSON.parse(asked[0]?.body ?? "") as { success: { requestRange: unknown }[] };
    assert.deepEqual(
      success.map(({ requestRange }) => requestRange),
      [
        { key: base64("/service/shop/leader") },
        { key: base64("/service/shop/sync") },
        { key: base64("/service/shop/config") },
        { key: base64("/service/shop/members/"), rangeEnd: base64("/service/shop/members0") },
      ],
    );
    answer = manager("member-1", "member-3");
    const barred = await lease.candidates(term);
    assert.match(barred?.kind === "unknown" ? barred.reason : "", /member-3 is a synchronous standby/);
    lease.stop();
  });

  it("has none for a term that is over, and believes in it no longer", async () => {
    answer = manager("member-1", "member-2");
    const lease = reader(members);
    await settle();
    answer = manager("member-1", "member-2", "6");
    assert.equal(await lease.candidates(term), null, "the same holder, but not without a break");
    answer = manager("member-2", "");
    assert.equal(await lease.candidates(term), null);
    assert.ok(lease.view.kind === "held" && lease.view.term.node === "west");
    assert.ok(lease.view.validUntilMs <= clock.nowMs);
    for (const broken of [{}, { responses: [{}] }, { responses: [{}, {}, {}, {}] }]) {
      answer = () => ok(broken);
      assert.equal(await lease.candidates(term), null);
    }
    answer = () => Promise.reject(new Error("refused"));
    assert.equal(await lease.candidates(term), null);
    lease.stop();
  });
});

describe("the etcd client", () => {
  it("goes on to the next endpoint after a failure or the time limit, and stays with the one that answers", async () => {
    const etcd = client();
    const hosts = (): string[] => asked.map(({ url }) => new URL(url).hostname);
    answer = (request) => (request.url.startsWith(ONE) ? never(request) : leader("east", "20")(request));
    const slow = etcd.readKey("k");
    await settle();
    assert.deepEqual(hosts(), ["one"]);
    await clock.advance(TIMEOUT_MS);
    assert.equal((await slow)?.value, "east");
    assert.deepEqual(hosts(), ["one", "two"]);
    await etcd.readKey("k");
    assert.deepEqual(hosts(), ["one", "two", "two"]);
    answer = ({ url }) =>
      url.startsWith(TWO) ? { status: 503, body: '{"message":"etcdserver: no leader"}' } : ok({});
    assert.equal(await etcd.readKey("k"), null);
    answer = () => ({ status: 503, body: '{"message":"etcdserver: no leader"}' });
    await assert.rejects(etcd.readKey("k"), /one:2379: status 503: etcdserver: no leader; two:2379/);
    answer = () => ({ status: 200, body: "<html>" });
    await assert.rejects(etcd.readKey("k"), /no JSON/);
    assert.equal(clock.pendingTimers, 0);
  });

  it("logs in where the URL has a user, again when the token is refused, and reveals no secret", async () => {
    let valid = "t1";
    answer = ({ url, headers, body }) => {
      if (url.endsWith("/v3/auth/authenticate")) {
        assert.deepEqual(JSON.parse(body), { name: "watcher", password: "p@ss" });
        return ok({ token: valid });
      }
      return headers.authorization === valid
        ? leader("east", "20")({ url } as HttpRequest)
        : { status: 401, body: '{"message":"etcdserver: invalid auth token"}' };
    };
    const etcd = client(["https://watcher:p%40ss@one:2379/"]);
    assert.equal((await etcd.readKey("k"))?.value, "east");
    valid = "t2";
    assert.equal(await etcd.remainingMs("77"), 20_000);
    assert.ok(asked.every(({ url }) => url.startsWith("https://one:2379/v3/")));
    answer = () => Promise.reject(new Error("refused"));
    await assert.rejects(etcd.readKey("k"), (error: Error) => !error.message.includes("p@ss"));
  });
});
