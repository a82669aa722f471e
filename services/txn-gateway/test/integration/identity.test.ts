// Goal: the database's own grants decide what a key may do, and no owner sees another owner's transactions. Method: real keys
// in a real store, each with a login role of its own, against a whole gateway.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { decodeToken, type Problem, type TransactionResponse, type TxnId } from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import { DEFAULT_LIMITS, type KeyLimits, PostgresKeys, type Scope } from "@highwater/store";
import { hashSecret, makeKeyText } from "@highwater/service";
import { DeploymentKeys, ownerTag } from "@highwater/service";
import { testDeploymentKeys } from "@highwater/service/testing";
import { Database } from "../support/database.ts";
import { newId } from "../support/fakes.ts";
import { TestGateway } from "../support/gateway.ts";

const KEY_REFRESH_MS = 50;
/** Somebody else's idea of the deployment's key. */
const FORGED = { kid: 1, validFromMs: 0, secret: "a secret of another deployment, 32 characters" };
let cluster: Cluster;
let gateway: TestGateway;
/** Two more beside it, for what has to hold across gateways. */
let others: TestGateway[] = [];
let store: PostgresKeys;

interface KeyOptions {
  readonly role: string;
  readonly owner?: string;
  readonly scopes?: readonly Scope[];
  readonly limits?: Partial<KeyLimits>;
}

/** A new key: its text, and what a client that has it would send. */
class Client {
  readonly text: string;
  readonly id: string;

  private constructor(text: string, id: string) {
    this.text = text;
    this.id = id;
  }

  static async make({ role, owner, scopes = ["read", "write"], limits = {} }: KeyOptions): Promise<Client> {
    const { id, secret, text } = makeKeyText();
    const secretHash = hashSecret(secret);
    const key = { id, secretHash, name: role, owner: owner ?? id, role, scopes, expiresAtMs: null };
    await store.insertKey("a", { ...key, limits: { ...DEFAULT_LIMITS, ...limits } });
    return new Client(text, id);
  }

  async post<T = TransactionResponse & Partial<Problem>>(
    path: string,
    body: unknown,
    headers: Record<string, string> = {},
    at = gateway,
  ): Promise<{ status: number; headers: Headers; body: T }> {
    const response = await fetch(`${at.url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${this.text}`, ...headers },
      body: JSON.stringify(body),
    });
    return { status: response.status, headers: response.headers, body: (await response.json()) as T };
  }

  run(...sql: string[]) {
    return this.post("/v1/transactions", { id: newId(), statements: sql.map((text) => ({ sql: text })) });
  }

  async get(path: string): Promise<{ status: number; body: Record<string, unknown> }> {
    const response = await fetch(`${gateway.url}${path}`, {
      headers: { authorization: `Bearer ${this.text}` },
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  }
}

before(async () => {
  cluster = await startCluster({ nodes: [{ id: "a", region: "us-east" }] });
  const first = await TestGateway.start(cluster);
  await first.ready();
  await first.close();
  for (const sql of [
    "CREATE ROLE shop LOGIN IN ROLE highwater_app",
    "CREATE ROLE bank LOGIN IN ROLE highwater_app",
    "CREATE TABLE goods (name text)",
    "CREATE TABLE money (amount int)",
    "GRANT ALL ON goods TO shop",
    "GRANT ALL ON money TO bank",
  ])
    await cluster.query("a", sql);
  const url = await cluster.connectionString("a");
  store = new PostgresKeys({
    nodes: [{ id: "a", region: "us-east", zone: "a", url }],
    ...{ clock: realClock, helper: "identity-test", connectTimeoutMs: 30_000, callTimeoutMs: 30_000 },
  });
  const env = {
    GATEWAY_AUTH: "keys",
    GATEWAY_KEY_REFRESH_MS: String(KEY_REFRESH_MS),
    GATEWAY_ROLE_POOL_SIZE: "4",
  };
  const start = (): Promise<TestGateway> => TestGateway.start(cluster, { env });
  [gateway, ...others] = await Promise.all([start(), start(), start()]);
  for (const each of [gateway, ...others]) await each.ready();
});

after(async () => {
  for (const each of [gateway, ...others]) await each.close();
  store.close();
  await cluster.close();
});

describe("who may come in", () => {
  it("no one without a key, with another's, or with one that was revoked", async () => {
    const response = await fetch(`${gateway.url}/v1/transactions`, { method: "POST", body: "{}" });
    assert.equal(response.status, 401);
    assert.equal(response.headers.get("www-authenticate"), "Bearer");
    assert.equal(((await response.json()) as Problem).code, "unauthenticated");
    const key = await Client.make({ role: "shop" });
    assert.equal((await key.run("SELECT 1")).status, 200);
    const forged = Object.assign(Object.create(Client.prototype) as Client, {
      text: `hwk_${key.id}_${"A".repeat(43)}`,
    });
    assert.equal((await forged.run("SELECT 1")).status, 401);
    await store.revokeKey("a", key.id);
    await eventually("the revocation is known", async () => (await key.run("SELECT 1")).status === 401);
    assert.equal((await fetch(`${gateway.url}/healthz`)).status, 200, "probes need no key");
  });

  it("not even with a transaction that was open when the key was revoked: its locks are free again", async () => {
    const limits = { idleTimeoutMs: 600_000, totalTimeoutMs: 600_000 };
    const key = await Client.make({ role: "shop", limits });
    const other = await Client.make({ role: "shop" });
    const begun = await key.post("/v1/transactions/begin", {
      id: newId(),
      statements: [{ sql: "LOCK TABLE goods IN ACCESS EXCLUSIVE MODE" }],
    });
    assert.equal(begun.status, 200);
    const locked = "LOCK TABLE goods IN ACCESS EXCLUSIVE MODE NOWAIT";
    assert.equal((await other.run(locked)).status, 422, "its lock is held");
    await store.revokeKey("a", key.id);
    await eventually("the lock is free", async () => (await other.run(locked)).status === 200);
  });

  it("for what its scopes say", async () => {
    const reader = await Client.make({ role: "shop", scopes: ["read"] });
    const refused = await reader.run("INSERT INTO goods VALUES ('x')");
    assert.deepEqual([refused.status, refused.body.code], [403, "forbidden"]);
    const read = { id: newId(), readOnly: true, statements: [{ sql: "SELECT count(*) FROM goods" }] };
    assert.equal((await reader.post("/v1/transactions", read)).status, 200);
    const begin = await reader.post("/v1/transactions/begin", { id: newId() });
    assert.equal(begin.body.code, "forbidden");
  });

  it("and without the scope read, write or admin not even for a state by id", async () => {
    const owner = "several-keys";
    const writer = await Client.make({ role: "shop", owner, scopes: ["write"] });
    const id = newId();
    const statements = [{ sql: "INSERT INTO goods VALUES ('scopes')" }];
    assert.equal((await writer.post("/v1/transactions", { id, statements })).status, 200);
    for (const scopes of [["read"], ["write"], ["admin", "webhooks"]] as const)
      assert.equal(
        (await (await Client.make({ role: "shop", owner, scopes })).get(`/v1/transactions/${id}`)).status,
        200,
      );
    for (const scopes of [["webhooks"], []] as const) {
      const other = await Client.make({ role: "shop", owner, scopes });
      const { status, body } = await other.get(`/v1/transactions/${id}`);
      assert.deepEqual([status, body["code"]], [403, "forbidden"], scopes.join());
    }
  });
});

describe("what a key may touch", () => {
  it("is what the database has granted to its role, whatever the statements try", async () => {
    const shop = await Client.make({ role: "shop" });
    const bank = await Client.make({ role: "bank" });
    assert.equal((await shop.run("INSERT INTO goods VALUES ('tea')")).status, 200);
    assert.equal((await bank.run("INSERT INTO money VALUES (1)")).status, 200);
    for (const attempt of [
      ["SELECT * FROM money"],
      ["RESET ROLE", "SELECT * FROM money"],
      ["SET SESSION AUTHORIZATION DEFAULT", "SELECT * FROM money"],
      ["SELECT * FROM highwater.api_key"],
      ["DELETE FROM highwater.receipt"],
    ]) {
      const { status, body } = await shop.run(...attempt);
      assert.deepEqual([status, body.sqlstate], [422, "42501"], attempt.join("; "));
    }
    const others = await shop.run("SET ROLE bank");
    assert.equal(others.body.sqlstate, "42501");
    const who = await shop.run("SELECT current_user, session_user");
    assert.deepEqual(who.body.results?.[0]?.rows, [["shop", "shop"]]);
  });
});

describe("what a key can see", () => {
  it("its own transactions, and no other key's: neither by id, nor by token, nor by an id of its own", async () => {
    const shop = await Client.make({ role: "shop" });
    const bank = await Client.make({ role: "bank" });
    const id = newId();
    const statements = [{ sql: "INSERT INTO goods VALUES ('milk')" }];
    const { body } = await shop.post("/v1/transactions", { id, statements });
    assert.equal(decodeToken(body.token)?.owner, ownerTag(shop.id));
    assert.equal((await shop.get(`/v1/transactions/${id}`)).body["state"], "committed");
    assert.equal((await bank.get(`/v1/transactions/${id}`)).body["state"], "unknown");
    const reused = await shop.post("/v1/transactions", { id, statements: [{ sql: "SELECT 1" }] });
    assert.deepEqual([reused.status, reused.body.code], [422, "id_reused"]);
    const read = { id: newId(), readOnly: true, after: body.token, statements: [{ sql: "SELECT 1" }] };
    const after = await bank.post("/v1/transactions", read);
    assert.deepEqual([after.status, after.body.code], [403, "forbidden"]);
    assert.equal((await shop.post("/v1/transactions", { ...read, id: newId() })).status, 200);
    const admin = await Client.make({ role: "shop", scopes: ["admin"] });
    assert.equal(
      (await admin.get(`/v1/transactions/${id}`)).body["state"],
      "unknown",
      "it has none of its own",
    );
    const ofShop = `/v1/transactions/${id}?owner=${String(ownerTag(shop.id))}`;
    assert.equal((await admin.get(ofShop)).body["state"], "committed");
    assert.equal((await shop.get(ofShop)).body["state"], "committed");
    assert.deepEqual(
      [(await bank.get(ofShop)).status, (await bank.get(ofShop)).body["code"]],
      [403, "forbidden"],
    );
    for (const bad of ["-1", "x", String(2n ** 128n), "1&owner=2"])
      assert.equal((await admin.get(`/v1/transactions/${id}?owner=${bad}`)).status, 400, bad);
  });

  it("another's open transaction neither, even with its header", async () => {
    const shop = await Client.make({ role: "shop" });
    const bank = await Client.make({ role: "bank" });
    const id = newId();
    const begun = await shop.post("/v1/transactions/begin", { id });
    const header = { "highwater-session": begun.headers.get("highwater-session") ?? "" };
    const call = { seq: 1, statements: [{ sql: "SELECT 1" }] };
    const stolen = await bank.post(`/v1/transactions/${id}/statements`, call, header);
    assert.deepEqual([stolen.status, stolen.body.code], [404, "transaction_not_open"]);
    assert.equal((await bank.get(`/v1/transactions/${id}`)).body["state"], "unknown");
    assert.equal((await shop.get(`/v1/transactions/${id}`)).body["state"], "active");
    assert.equal((await shop.post(`/v1/transactions/${id}/statements`, call, header)).status, 200);
    assert.equal((await shop.post(`/v1/transactions/${id}/rollback`, { seq: 2 }, header)).status, 200);
  });

  it("the open transaction of another key of its owner neither, by repeating its begin", async () => {
    const owner = "two-roles";
    const bank = await Client.make({ role: "bank", owner });
    const others = [
      await Client.make({ role: "shop", owner }),
      await Client.make({ role: "bank", owner }),
      await Client.make({ role: "bank", owner, scopes: ["write"] }),
    ];
    const id = newId();
    const begin = { id, statements: [{ sql: "SELECT current_user" }] };
    const begun = await bank.post("/v1/transactions/begin", begin);
    for (const other of others)
      for (const body of [begin, { ...begin, statements: [{ sql: "SELECT 1" }] }]) {
        const repeated = await other.post("/v1/transactions/begin", body);
        assert.deepEqual([repeated.status, repeated.body.code], [409, "transaction_in_progress"]);
        assert.equal(repeated.headers.get("highwater-session"), null);
      }
    const again = await bank.post("/v1/transactions/begin", begin);
    assert.deepEqual([again.status, again.body.results?.[0]?.rows], [200, [["bank"]]]);
    const session = again.headers.get("highwater-session") ?? "";
    assert.equal(session, begun.headers.get("highwater-session"));
    const header = { "highwater-session": session };
    assert.equal((await bank.post(`/v1/transactions/${id}/rollback`, { seq: 1 }, header)).status, 200);
  });

  it("the transactions of a key that it has succeeded", async () => {
    const old = await Client.make({ role: "shop", owner: "team-shop" });
    const next = await Client.make({ role: "shop", owner: "team-shop" });
    const { body } = await old.run("INSERT INTO goods VALUES ('salt')");
    assert.equal((await next.get(`/v1/transactions/${body.id}`)).body["state"], "committed");
  });
});

describe("an id that two owners use", () => {
  const tagged: [owner: string, id: TxnId][] = [];
  const goods = (name: string) => [{ sql: `INSERT INTO goods VALUES ('${name}')` }];
  const money = (amount: number) => [{ sql: `INSERT INTO money VALUES (${String(amount)})` }];
  const countOf = async (table: string, condition: string): Promise<unknown> =>
    (await cluster.query("a", `SELECT count(*)::int AS n FROM ${table} WHERE ${condition}`))[0]?.["n"];

  async function twoOwners(): Promise<{ shop: Client; bank: Client; id: TxnId }> {
    const [shop, bank] = [await Client.make({ role: "shop" }), await Client.make({ role: "bank" })];
    const id = newId();
    tagged.push([shop.id, id], [bank.id, id]);
    return { shop, bank, id };
  }

  it("is two transactions, at one gateway and at three", async () => {
    const { shop, bank, id } = await twoOwners();
    const ofShop = { id, statements: goods("twice") };
    const ofBank = { id, statements: money(7_001) };
    const first = await Promise.all([
      shop.post("/v1/transactions", ofShop),
      bank.post("/v1/transactions", ofBank),
    ]);
    for (const { status, body } of first) assert.deepEqual([status, body.replayed], [200, undefined]);
    for (const at of [gateway, ...others])
      for (const [client, body] of [
        [shop, ofShop],
        [bank, ofBank],
      ] as const) {
        const again = await client.post("/v1/transactions", body, {}, at);
        assert.deepEqual([again.status, again.body.replayed], [200, true]);
        const other = { id, statements: [{ sql: "SELECT 1" }] };
        assert.equal((await client.post("/v1/transactions", other, {}, at)).body.code, "id_reused");
      }
    assert.deepEqual(
      [await countOf("goods", "name = 'twice'"), await countOf("money", "amount = 7001")],
      [1, 1],
    );
  });

  it("and that one of them has open, neither blocks, ends nor settles the other's", async () => {
    const { shop, id } = await twoOwners();
    const begun = await shop.post("/v1/transactions/begin", { id, statements: goods("open") });
    const sessionOf = ({ headers }: { headers: Headers }) => ({
      "highwater-session": headers.get("highwater-session") ?? "",
    });
    for (const at of [gateway, ...others])
      for (const readOnly of [false, true]) {
        const scopes: Scope[] = readOnly ? ["read"] : ["read", "write"];
        const stranger = await Client.make({ role: "bank", scopes });
        tagged.push([stranger.id, id]);
        const own = await stranger.post("/v1/transactions/begin", { id, readOnly }, {}, at);
        assert.equal(own.status, 200, JSON.stringify(own.body));
        // The rollback at a gateway that does not have it settles the stranger's own id.
        const elsewhere = at === gateway ? others[0] : gateway;
        const path = `/v1/transactions/${id}/rollback`;
        const settled = await stranger.post(path, { seq: 1 }, sessionOf(own), elsewhere);
        assert.ok(settled.status < 500 || settled.status === 503, JSON.stringify(settled.body));
        await stranger.post(path, { seq: 1 }, sessionOf(own), at);
      }
    const calls = `/v1/transactions/${id}`;
    const call = { seq: 1, statements: goods("still") };
    assert.equal((await shop.post(`${calls}/statements`, call, sessionOf(begun))).status, 200);
    const done = await shop.post(`${calls}/commit`, { seq: 2 }, sessionOf(begun));
    assert.deepEqual([done.status, done.body.state], [200, "committed"]);
    assert.equal(await countOf("goods", "name IN ('open', 'still')"), 2);
  });

  it("and for which one of them has forged a receipt, runs and is not answered as a repetition", async () => {
    const { shop, bank, id } = await twoOwners();
    const tag = new DeploymentKeys({ deployment: "development", schedule: [FORGED], wallMs: Date.now });
    for (const forged of [newId(), tag.receiptTag(ownerTag(shop.id), id)]) {
      const sql = `INSERT INTO highwater.receipt (id, tag, epoch, digest) SELECT '${id}', '${forged}', s.id, 0 FROM highwater.epoch_sentinel s`;
      assert.equal((await bank.run(sql)).status, 200);
    }
    const ran = await shop.post("/v1/transactions", { id, statements: goods("forged") });
    assert.deepEqual([ran.status, ran.body.replayed], [200, undefined]);
    assert.equal(await countOf("goods", "name = 'forged'"), 1);
    assert.equal((await shop.get(`/v1/transactions/${id}`)).body["state"], "committed");
  });

  it("has tags that no gateway has logged", () => {
    const keys = testDeploymentKeys();
    const log = [gateway, ...others].flatMap(({ logLines }) => logLines).join("");
    assert.ok(tagged.length >= 10);
    for (const [owner, id] of tagged) assert.ok(!log.includes(keys.receiptTag(ownerTag(owner), id)));
  });
});

describe("the limits of a key", () => {
  it("a rate, with the limit's name and when to come again", async () => {
    const slow = await Client.make({ role: "shop", limits: { ratePerSecond: 1, burst: 2 } });
    // As many as it gets anew in the time that a slow machine takes for them would be let in.
    const answers = await Promise.all(Array.from({ length: 40 }, () => slow.run("SELECT 1")));
    const limited = answers.find(({ status }) => status === 429);
    assert.ok(limited !== undefined);
    assert.deepEqual(
      [limited.body.code, limited.body.limit],
      ["rate_limited", { name: "ratePerSecond", value: 1 }],
    );
    assert.ok(Number(limited.headers.get("retry-after")) >= 1);
    const other = await Client.make({ role: "shop" });
    assert.equal((await other.run("SELECT 1")).status, 200, "a limit is one key's own");
  });

  it("requests in flight, and what is in flight ends all the same", async () => {
    const narrow = await Client.make({ role: "shop", limits: { concurrency: 1 } });
    const gate = await new Database(cluster, "a").gate();
    const one = narrow.run(gate.inStatement.sql);
    await gate.reached();
    const refused = await narrow.run("SELECT 1");
    assert.deepEqual([refused.status, refused.body.code], [429, "concurrency_limited"]);
    await gate.open();
    assert.equal((await one).status, 200);
    assert.equal((await narrow.run("SELECT 1")).status, 200);
  });

  it("its statements' time, for a lock and in all", async () => {
    const hasty = await Client.make({
      role: "shop",
      limits: { statementTimeoutMs: 2_000, lockTimeoutMs: 50 },
    });
    const slept = await hasty.run("SELECT pg_sleep(600)");
    assert.deepEqual([slept.status, slept.body.code], [422, "statement_timeout"]);
    assert.match(slept.body.detail ?? "", /statement timeout/);
    const patient = await Client.make({ role: "shop" });
    const { body } = await patient.run("SHOW statement_timeout");
    assert.equal(body.results?.[0]?.rows[0]?.[0], "30s");
  });

  it("open transactions", async () => {
    const client = await Client.make({ role: "bank", limits: { openTransactions: 1 } });
    const id = newId();
    const begun = await client.post("/v1/transactions/begin", { id });
    const second = await client.post("/v1/transactions/begin", { id: newId() });
    assert.deepEqual(
      [second.status, second.body.code, second.body.limit],
      [503, "too_many_open", { name: "openTransactions", value: 1 }],
    );
    const header = { "highwater-session": begun.headers.get("highwater-session") ?? "" };
    assert.equal((await client.post(`/v1/transactions/${id}/rollback`, { seq: 1 }, header)).status, 200);
    const third = newId();
    const free = await client.post("/v1/transactions/begin", { id: third });
    assert.equal(free.status, 200);
    // The gateway would wait for its end.
    const last = { "highwater-session": free.headers.get("highwater-session") ?? "" };
    await client.post(`/v1/transactions/${third}/rollback`, { seq: 1 }, last);
  });
});

it("no key, and no part of one, is ever written to the log", async () => {
  const key = await Client.make({ role: "shop" });
  await key.run("SELECT 1");
  await key.run("SELECT wrong");
  const log = gateway.logLines.join("");
  assert.ok(!log.includes(key.text) && !log.includes(key.text.slice(-20)));
});
