// Goal: a transaction that its application commits itself is announced before and judged behind as any other, and no client's word
// counts for more than its own ticket. Method: gateways with real keys over a real primary, a scripted peer in a tracker's place,
// and connections of the applications' own, which write receipts as the SDKs do, or as they should not.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import {
  decodeToken,
  type EpochRecord,
  type Problem,
  type RollbackResponse,
  type Ticket,
  TicketEndsResponse,
  TicketsResponse,
  type TransactionResponse,
  validate,
} from "@highwater/protocol";
import { realClock, sleep } from "@highwater/runtime";
import { DeploymentKeys, hashSecret, makeKeyText, ownerTag } from "@highwater/service";
import { testDeploymentKeys } from "@highwater/service/testing";
import { DEFAULT_LIMITS, PostgresKeys, type Scope } from "@highwater/store";
import { INSERT_RECEIPT } from "@highwater/store/internals";
import pg from "pg";
import { encodeTicket, openTicket } from "../../src/tickets/ticket-text.ts";
import { readEpoch } from "../support/cluster.ts";
import { newId } from "../support/fakes.ts";
import { TestGateway } from "../support/gateway.ts";
import { TrackerPeer } from "../support/tracker-peer.ts";

const MOST = 40;
let cluster: Cluster;
let tracker: TrackerPeer;
let gateway: TestGateway;
let other: TestGateway;
let store: PostgresKeys;
let epoch: EpochRecord;
let shop: string;
let bank: string;
let reader: string;

type Answer<T> = { readonly status: number; readonly body: T & Partial<Problem> };

async function makeKey(role: string, scopes: readonly Scope[] = ["read", "write"]): Promise<string> {
  const { id, secret, text } = makeKeyText();
  const key = { id, secretHash: hashSecret(secret), name: role, owner: role, role, scopes };
  await store.insertKey("a", { ...key, expiresAtMs: null, limits: DEFAULT_LIMITS });
  return text;
}

before(async () => {
  cluster = await startCluster({ nodes: [{ id: "a", region: "us-east" }] });
  const first = await TestGateway.start(cluster);
  await first.ready();
  await first.close();
  for (const sql of [
    "CREATE TABLE entry (n int)",
    "CREATE ROLE shop LOGIN IN ROLE highwater_app",
    "CREATE ROLE bank LOGIN IN ROLE highwater_app",
    "GRANT ALL ON entry TO shop, bank",
  ])
    await cluster.query("a", sql);
  const url = await cluster.connectionString("a");
  store = new PostgresKeys({
    nodes: [{ id: "a", region: "us-east", zone: "a", url }],
    ...{ clock: realClock, helper: "tickets-test", connectTimeoutMs: 30_000, callTimeoutMs: 30_000 },
  });
  epoch = await readEpoch(cluster, "a");
  tracker = await new TrackerPeer().start();
  tracker.sendEpochs([epoch]);
  [shop, bank] = [await makeKey("shop"), await makeKey("bank")];
  reader = await makeKey("shop", ["read"]);
  const env = {
    ...{ GATEWAY_AUTH: "keys", GATEWAY_KEY_REFRESH_MS: "50", GATEWAY_MAX_TICKETS: "16" },
    GATEWAY_EXPOSURE_TRANSACTIONS: String(MOST),
  };
  const start = (more: object): Promise<TestGateway> =>
    TestGateway.start(cluster, { trackers: [tracker.url], env: { ...env, ...more } });
  // The other's tickets live for a moment, and all of their owners may have many.
  [gateway, other] = await Promise.all([
    start({}),
    start({ GATEWAY_TOTAL_TIMEOUT_MS: "1", GATEWAY_MAX_TICKETS: "1000" }),
  ]);
  for (const each of [gateway, other]) await each.ready();
  await tracker.until(() => tracker.streams === 2);
  // Tombstones are durable, and what has committed is not exposed.
  tracker.sendMarks({ epoch: epoch.id, seq: epoch.seq, levels: { global: String(2n ** 62n) } });
});

after(async () => {
  for (const each of [gateway, other]) await each.close();
  tracker.stop();
  store.close();
  await cluster.close();
});

async function post(path: string, body: object, key: string, at: TestGateway): Promise<unknown> {
  const response = await fetch(`${at.url}/v1/tickets${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
    body: JSON.stringify(body),
  });
  assert.equal(response.status, 200);
  return response.json();
}

async function ask(
  transactions: readonly object[],
  { key = shop, at = gateway } = {},
): Promise<readonly Answer<Ticket>[]> {
  const checked = validate(TicketsResponse, await post("", { transactions }, key, at));
  assert.ok(checked.ok);
  return checked.value.answers as Answer<Ticket>[];
}

async function issue(how: { key?: string; at?: TestGateway } = {}): Promise<Ticket> {
  const [answer] = await ask([{ id: newId() }], how);
  assert.equal(answer?.status, 200, JSON.stringify(answer));
  return answer.body;
}

type End = Answer<TransactionResponse & RollbackResponse>;

async function end(ticket: string, { ended = "commit", key = shop, at = gateway } = {}): Promise<End> {
  const checked = validate(
    TicketEndsResponse,
    await post("/ends", { tickets: [{ ticket, ended }] }, key, at),
  );
  assert.ok(checked.ok, "the answer has its shape");
  const [answer] = checked.value.answers;
  assert.ok(answer !== undefined);
  return answer as End;
}

/** A connection of the application's own. */
async function connect(user = "shop"): Promise<pg.Client> {
  const url = new URL(await cluster.connectionString("a"));
  url.username = user;
  const client = new pg.Client({ connectionString: url.href });
  await client.connect();
  return client;
}

/** Writes the receipt with a row of the application's. */
async function commit(
  { id, tag, epoch: of, digest }: Pick<Ticket, "id" | "tag" | "epoch" | "digest">,
  user = "shop",
): Promise<void> {
  const client = await connect(user);
  try {
    await client.query("BEGIN");
    await client.query("INSERT INTO entry VALUES (1)");
    await client.query(INSERT_RECEIPT, [id, tag, of, digest]);
    await client.query("COMMIT");
  } finally {
    await client.end();
  }
}

const isCode = (answer: Answer<unknown>, status: number, code: string): void => {
  assert.deepEqual([answer.status, (answer.body as Problem).code], [status, code], JSON.stringify(answer));
};
const sqlstate = (code: string) => (cause: unknown) => (cause as { code?: string }).code === code;
const reserved = (at = gateway): Promise<number> =>
  at.metric('highwater_gateway_exposure_transactions{state="reserved"}');

it("a ticket is issued when a tracker has the id, and its end gives a token at a position of the gateway's own reading", async () => {
  const ticket = await issue();
  assert.deepEqual(tracker.kindsOf(ticket.id), ["intent"]);
  assert.equal(ticket.epoch, epoch.id);
  await commit(ticket);
  const [{ lsn } = { lsn: "" }] = await cluster.query(
    "a",
    "SELECT pg_current_wal_insert_lsn() - '0/0' AS lsn",
  );
  const { status, body } = await end(ticket.ticket);
  assert.deepEqual([status, body.state, body.announced, body.results], [200, "committed", true, []]);
  const token = decodeToken(body.token);
  assert.deepEqual(
    [token?.id, token?.kind, token?.epoch, token?.attempt, token?.owner],
    [ticket.id, "write", epoch.id, epoch.id, ownerTag("shop")],
  );
  assert.ok(BigInt(body.position.offset) >= BigInt(String(lsn)), "it was read after the COMMIT");
  await tracker.until(() => tracker.kindsOf(ticket.id).includes("position"));
  // Asked again, at this gateway or another: the same transaction.
  for (const at of [gateway, other]) {
    const again = await end(ticket.ticket, { at });
    assert.deepEqual([again.status, again.body.id, again.body.state], [200, ticket.id, "committed"]);
  }
  await eventually("nothing is reserved", async () => (await reserved()) === 0);
});

it("the same id again gets the same ticket, and is announced once", async () => {
  const id = newId();
  const [first, second] = await ask([{ id }, { id }]);
  const [third] = await ask([{ id }]);
  assert.deepEqual(second, first);
  assert.deepEqual(third, first);
  assert.deepEqual(tracker.kindsOf(id), ["intent"]);
  await end(first?.body.ticket ?? "", { ended: "rollback" });
});

it("what was rolled back is withdrawn and counts no more", async () => {
  const ticket = await issue();
  const { status, body } = await end(ticket.ticket, { ended: "rollback" });
  assert.deepEqual([status, body.state], [200, "aborted"]);
  await tracker.until(() => tracker.kindsOf(ticket.id).includes("withdrawn"));
  await eventually("nothing is reserved", async () => (await reserved()) === 0);
});

it("without a receipt the id is settled, and the ticket is worth nothing any more", async () => {
  const ticket = await issue();
  isCode(await end(ticket.ticket), 409, "transaction_aborted");
  await assert.rejects(commit(ticket), sqlstate("23505"));
  isCode(await end(ticket.ticket), 409, "transaction_aborted");
});

it("a receipt under another tag is not the ticket's, and one with another digest is another transaction's", async () => {
  const ticket = await issue();
  await commit({ ...ticket, tag: newId() });
  isCode(await end(ticket.ticket), 409, "transaction_aborted");
  const second = await issue();
  await commit({ ...second, digest: "17" });
  isCode(await end(second.ticket), 422, "id_reused");
});

it("a receipt of another epoch is refused, with the service's statement and without", async () => {
  const ticket = await issue();
  await assert.rejects(commit({ ...ticket, epoch: newId() }), sqlstate("42501"));
  const client = await connect();
  const forged = client.query(
    "INSERT INTO highwater.receipt (id, tag, epoch, digest) VALUES ($1, $2, $3, 1)",
    [...[ticket.id, ticket.tag, newId()]],
  );
  await assert.rejects(forged, sqlstate("42501"));
  await client.end();
  await end(ticket.ticket, { ended: "rollback" });
});

it("a forged ticket is refused, one of another owner is forbidden, and neither makes a tracker keep anything", async () => {
  const ticket = await issue();
  const content = openTicket(ticket.ticket, testDeploymentKeys());
  const before = tracker.announcements.length;
  const strangers = new DeploymentKeys({
    deployment: "development",
    schedule: [{ kid: 1, validFromMs: 0, secret: "a secret of another deployment, 32 characters" }],
    wallMs: () => 0,
  });
  const flipped = Buffer.from(ticket.ticket.slice(5), "base64url");
  flipped[20] = (flipped[20] ?? 0) ^ 1;
  for (const forged of [
    encodeTicket(content, strangers),
    `hwt1_${flipped.toString("base64url")}`,
    `${ticket.ticket}A`,
    ticket.ticket.slice(0, -1),
    ticket.tag,
  ])
    isCode(await end(forged), 400, "invalid_token");
  for (const ended of ["commit", "rollback"])
    isCode(await end(ticket.ticket, { key: bank, ended }), 403, "forbidden");
  isCode(await end(ticket.ticket, { key: reader }), 403, "forbidden");
  const [refused] = await ask([{ id: newId() }], { key: reader });
  isCode(refused as Answer<Ticket>, 403, "forbidden");
  assert.equal(tracker.announcements.length, before);
  await commit(ticket);
  assert.equal((await end(ticket.ticket)).status, 200);
});

it("the same id of another owner is another transaction", async () => {
  const id = newId();
  const [mine, theirs] = [(await ask([{ id }]))[0], (await ask([{ id }], { key: bank }))[0]];
  assert.notEqual(mine?.body.tag, theirs?.body.tag);
  await commit(theirs?.body as Ticket, "bank");
  isCode(await end(mine?.body.ticket ?? ""), 409, "transaction_aborted");
  assert.equal((await end(theirs?.body.ticket ?? "", { key: bank })).status, 200);
});

it("an owner may have half of the tickets, and each of several in a request is judged alone", async () => {
  const answers = await ask([...Array.from({ length: 9 }, () => ({ id: newId() })), { id: "none" }]);
  const good = answers.slice(0, 8);
  assert.deepEqual(
    good.map(({ status }) => status),
    Array.from({ length: 8 }, () => 200),
  );
  isCode(answers[8] as Answer<Ticket>, 503, "too_many_open");
  isCode(answers[9] as Answer<Ticket>, 400, "invalid_id");
  await end((await issue({ key: bank })).ticket, { key: bank, ended: "rollback" });
  for (const { body } of good) await end(body.ticket, { ended: "rollback" });
  await end((await issue()).ticket, { ended: "rollback" });
});

it("a commit whose end is never reported is found", async () => {
  const ticket = await issue();
  await commit(ticket);
  await tracker.until(() => tracker.kindsOf(ticket.id).includes("position"));
  await eventually(
    "no ticket is open",
    async () => (await gateway.metric("highwater_gateway_open_tickets")) === 0,
  );
  assert.equal((await end(ticket.ticket)).status, 200);
});

it("past its deadline a ticket is settled, and commits no more", async () => {
  const ticket = await issue({ at: other });
  assert.equal(ticket.lifeMs, 1);
  await tracker.until(() => tracker.kindsOf(ticket.id).includes("withdrawn"));
  await assert.rejects(commit(ticket), sqlstate("23505"));
  isCode(await end(ticket.ticket), 409, "transaction_aborted");
  await eventually("nothing is reserved", async () => (await reserved(other)) === 0);
});

it("tickets count as exposed until they end, and the limit holds for them", async () => {
  const tickets = await ask(
    Array.from({ length: MOST }, () => ({ id: newId() })),
    { at: other },
  );
  const refused = (await ask([{ id: newId() }], { at: other }))[0] as Answer<Ticket>;
  isCode(refused, 503, "exposure_limit");
  assert.equal(refused.body.limit?.name, "exposureTransactions");
  await end(tickets[0]?.body.ticket ?? "", { ended: "rollback", at: other });
  const [next] = await ask([{ id: newId() }], { at: other });
  assert.equal(next?.status, 200);
});

it("no ticket is issued that no tracker has", async () => {
  tracker.stop();
  const [answer] = await ask([{ id: newId() }]);
  isCode(answer as Answer<Ticket>, 503, "overloaded");
  await tracker.start();
  tracker.sendEpochs([epoch]);
  // The gateway tries again a little later, and a request may have waited in vain until then.
  const { ticket } = await eventually("tickets are issued again", issue);
  await end(ticket, { ended: "rollback" });
});

it("a ticket that was withdrawn is issued to no other who still waits for it", async () => {
  tracker.stop();
  const id = newId();
  const first = ask([{ id }]);
  // The first one gives up before the tracker is back, and the second still waits.
  await sleep(realClock, 4_500);
  const second = ask([{ id }]);
  isCode((await first)[0] as Answer<Ticket>, 503, "overloaded");
  await tracker.start();
  tracker.sendEpochs([epoch]);
  const [answer] = await second;
  await tracker.until(() => tracker.kindsOf(id).includes("withdrawn"));
  isCode(answer as Answer<Ticket>, 503, "overloaded");
  assert.equal(await reserved(), 0);
});

it("a ticket whose end cannot be looked up while there is no primary stays open, and counts", async () => {
  const ticket = await issue();
  await cluster.stop("a");
  await eventually(
    "the gateway knows that there is no primary",
    async () => (await fetch(`${gateway.url}/readyz`)).status === 503,
  );
  isCode(await end(ticket.ticket), 503, "primary_unavailable");
  assert.deepEqual([await reserved(), await gateway.metric("highwater_gateway_open_tickets")], [1, 1]);
  await cluster.start("a");
});
