// Goal: a lost transaction takes effect once, and in its place, also if the trackers that answer do
// not list all of what was lost.
// Method: a real gateway and a database that has begun three epochs. A scripted tracker lists what
// the test says was lost in them.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import {
  type KeptContents,
  type ReplayOutcome,
  type ReplayReport,
  type SealedLost,
  type TransactionResponse,
} from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import { hashSecret, makeContentsKeys, makeKeyText, ownerTag } from "@highwater/service";
import { TEST_DEPLOYMENT } from "@highwater/service/testing";
import { DEFAULT_LIMITS, PostgresKeys, type Scope } from "@highwater/store";
import { keptResult } from "../../src/contents/keeper.ts";
import { newId } from "../support/fakes.ts";
import { TestGateway } from "../support/gateway.ts";
import { TrackerPeer } from "../support/tracker-peer.ts";

const SECRET = "contents of the tests, 32 characters";
const KEY = { kid: 1, validFrom: "2026-01-01T00:00:00Z", secret: SECRET };
const schedule = [{ kid: 1, validFromMs: Date.parse(KEY.validFrom), secret: SECRET }];
const keys = makeContentsKeys(
  { deployment: TEST_DEPLOYMENT.HIGHWATER_DEPLOYMENT, contentsKeys: schedule },
  realClock,
);
const OFFSET = "1000";
const DIGEST = "0".repeat(64);

type Line = SealedLost["lost"][number];

let cluster: Cluster;
let gateway: TestGateway;
let tracker: TrackerPeer;
const epochs: string[] = [];
/** Rows with a balance of 100 that were there before anything was lost. */
const accounts = Array.from({ length: 10 }, () => randomUUID());

/** How a tracker lists a lost transaction. Those with a lower `xid` committed before. */
function lostWrite(
  statement: KeptContents["statements"][number],
  more: { id?: string; epoch?: string; redoOf?: string; owner?: bigint; xid?: number } = {},
): Line {
  const { id = newId(), epoch = epochs[0] ?? "", redoOf, owner = 0n, xid = 10 } = more;
  const contents: KeptContents = {
    ...{ version: 1, form: "one_shot", isolation: "read committed", key: "k", role: null, settings: {} },
    statements: [statement],
    order: { xid: String(xid), snapshot: `${String(xid)}:${String(xid)}:` },
    ...(redoOf !== undefined && { redoOf }),
    digest: DIGEST,
  };
  const sealed = keys?.seal({ owner, id, epoch, offset: OFFSET }, JSON.stringify(contents));
  return {
    ...{ id, attempt: epoch, owner: String(owner), verdicts: {}, lostAt: new Date(0).toISOString() },
    ...{ answered: "yes", contents: "kept", position: { epoch, offset: OFFSET }, rule: "scripted" },
    sealed: { offset: OFFSET, text: sealed?.toString("base64url") ?? "" },
  };
}

function lostUpdate(
  { account, sets, xid }: { account: string; sets: string; xid: number },
  more: { epoch?: string; redoOf?: string } = {},
): Line {
  const sql = `UPDATE account SET bal = ${sets} WHERE id = $1`;
  const result = keptResult({ command: "UPDATE", rowCount: 1, fields: [], rows: [] });
  return lostWrite({ sql, params: [account], result }, { ...more, xid });
}

/** Returns the end of each. */
async function replay(
  { dryRun = false, at = gateway, key }: { dryRun?: boolean; at?: TestGateway; key?: string },
  ...listed: Line[]
): Promise<(line: Line) => ReplayOutcome> {
  tracker.lost = listed;
  const response = await fetch(`${at.url}/v1/lost/replay`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
    },
    body: JSON.stringify({ dryRun, independent: "rows" }),
  });
  const body = (await response.json()) as ReplayReport;
  assert.equal(response.status, 200, JSON.stringify(body));
  return ({ id }) => {
    const end = body.transactions.find((each) => each.id === id);
    assert.ok(end !== undefined, JSON.stringify(body));
    return end;
  };
}

/** Begun since the last crash. */
function nextEpoch(of: TestGateway): Promise<string> {
  return eventually("a transaction commits in a new epoch", async () => {
    const { status, body } = await of.post({});
    const epoch = status === 200 ? (body as TransactionResponse).position.epoch : undefined;
    return epoch === undefined || epochs.includes(epoch) ? undefined : epoch;
  });
}

async function balanceOf(account: string): Promise<unknown> {
  return (await cluster.query("a", "SELECT bal FROM account WHERE id = $1", [account]))[0]?.["bal"];
}

async function rootsOf(...lines: Line[]): Promise<unknown[]> {
  const ids = lines.map(({ id }) => id);
  const found = await cluster.query("a", "SELECT root::text FROM highwater.redo WHERE root = ANY($1)", [ids]);
  return found.map(({ root }) => root);
}

before(async () => {
  cluster = await startCluster({ nodes: [{ id: "a", region: "us-east" }], roundTripMs: {} });
  // Without a tracker, it begins epochs itself and at once.
  gateway = await TestGateway.start(cluster);
  await gateway.ready();
  await gateway.run("CREATE TABLE account (id uuid PRIMARY KEY, bal int NOT NULL)");
  await cluster.query("a", "INSERT INTO account SELECT unnest($1::uuid[]), 100", [accounts]);
  for (;;) {
    epochs.push(await nextEpoch(gateway));
    if (epochs.length === 3) break;
    await cluster.kill("a");
    await cluster.start("a");
  }
  await gateway.close();
  tracker = await new TrackerPeer().start();
  const env = { HIGHWATER_CONTENTS_KEYS: JSON.stringify([KEY]) };
  gateway = await TestGateway.start(cluster, { trackers: [tracker.url], env });
  await gateway.ready();
});

after(async () => {
  await gateway.close();
  tracker.stop();
  await cluster.close();
});

describe("a lost replay whose root no tracker lists", () => {
  it("stands for its root, which takes effect once", async () => {
    const account = accounts.pop() ?? "";
    const update = { account, sets: "bal - 10", xid: 10 };
    const root = lostUpdate(update);
    const again = lostUpdate({ ...update, xid: 20 }, { epoch: epochs[1] ?? "", redoOf: root.id });
    const { outcome, replayedBy } = (await replay({}, again))(again);
    assert.equal(outcome, "replayed");
    // The tracker of the region that was lost first is back.
    const endOf = await replay({}, root, again);
    assert.equal(await balanceOf(account), 90);
    assert.deepEqual([endOf(root).outcome, endOf(root).replayedBy], ["replayed", replayedBy]);
    assert.deepEqual(await rootsOf(root, again), [root.id]);
    const sealed = tracker.announcements.find((one) => one.kind === "contents" && one.id === replayedBy);
    assert.ok(sealed?.kind === "contents");
    const { id, epoch, offset } = sealed;
    const text = keys?.open({ owner: 0n, id, epoch, offset }, Buffer.from(sealed.sealed, "base64url"));
    assert.equal((JSON.parse(text ?? "") as KeptContents).redoOf, root.id);
    const kinds = await cluster.query("a", "SELECT kind FROM highwater.receipt WHERE id = $1", [root.id]);
    assert.deepEqual(kinds, [{ kind: "lost" }], "its client cannot commit under the id any more");
  });

  it("is brought back once if two replays of the root were lost", async () => {
    const account = accounts.pop() ?? "";
    const update = { account, sets: "bal - 10", xid: 10 };
    const root = lostUpdate(update);
    const [first, second] = [epochs[0] ?? "", epochs[1] ?? ""].map((epoch) =>
      lostUpdate(update, { epoch, redoOf: root.id }),
    ) as [Line, Line];
    const [standIn] = [first, second].toSorted((a, b) => (a.id < b.id ? -1 : 1)) as [Line];
    assert.equal((await replay({}, second, first))(standIn).outcome, "replayed");
    assert.equal(await balanceOf(account), 90);
    assert.deepEqual(await rootsOf(root, first, second), [root.id]);
  });
});

describe("a report", () => {
  it("shows results and the database's message only to a key that may read contents", async () => {
    const [account, other] = [accounts.pop() ?? "", accounts.pop() ?? ""];
    const owner = ownerTag("shop");
    const result = { command: "UPDATE", rowCount: 1, digest: DIGEST };
    const sql = "UPDATE account SET bal = bal + 1 WHERE id = $1 RETURNING *";
    const different = lostWrite({ sql, params: [account], result }, { owner });
    const insert = { sql: "INSERT INTO account VALUES ($1, 1)", params: [other] };
    const refused = lostWrite({ ...insert, result: { ...result, command: "INSERT" } }, { owner, xid: 20 });
    const url = await cluster.connectionString("a");
    const store = new PostgresKeys({
      nodes: [{ id: "a", region: "us-east", zone: "a", url }],
      ...{ clock: realClock, helper: "replay-test", connectTimeoutMs: 30_000, callTimeoutMs: 30_000 },
    });
    await cluster.query("a", "CREATE ROLE shop LOGIN IN ROLE highwater_app");
    const keyWith = async (...scopes: Scope[]): Promise<string> => {
      const { id, secret, text } = makeKeyText();
      const secretHash = hashSecret(secret);
      const stored = { id, secretHash, name: id, owner: "shop", role: "shop", scopes, expiresAtMs: null };
      await store.insertKey("a", { ...stored, limits: DEFAULT_LIMITS });
      return text;
    };
    const env = { HIGHWATER_CONTENTS_KEYS: JSON.stringify([KEY]), GATEWAY_AUTH: "keys" };
    const secret = { HIGHWATER_INTERNAL_SECRET: randomUUID() };
    const guarded = await TestGateway.start(cluster, { trackers: [tracker.url], env: { ...env, ...secret } });
    await guarded.ready();
    try {
      const reader = await keyWith("contents:replay", "contents:read");
      const full = await replay({ at: guarded, key: reader }, different, refused);
      assert.deepEqual(full(different).redone?.rows, [[account, "101"]]);
      assert.equal(full(different).lost?.digest, DIGEST);
      assert.match(full(refused).error ?? "", /duplicate key/);
      const key = await keyWith("contents:replay");
      const bare = await replay({ at: guarded, key }, different, refused);
      const about = { attempt: epochs[0], answered: "yes", outcome: "conflict", statement: 0 };
      assert.deepEqual(bare(different), { id: different.id, ...about, reason: "different_result" });
      assert.deepEqual(bare(refused), { id: refused.id, ...about, reason: "refused" });
    } finally {
      await guarded.close();
      store.close();
    }
  });
});

describe("what is handed in late", () => {
  it("is not written behind the replay of one that no tracker lists now", async () => {
    const account = accounts.pop() ?? "";
    const early = lostUpdate({ account, sets: "bal - 50", xid: 10 });
    const late = lostUpdate({ account, sets: "10", xid: 20 });
    assert.equal((await replay({}, late))(late).outcome, "replayed");
    for (const dryRun of [true, false]) {
      const { outcome, reason, because } = (await replay({ dryRun }, early))(early);
      assert.deepEqual([outcome, reason, because], ["conflict", "too_late", undefined]);
    }
    assert.equal((await replay({}, early, late))(early).because, late.id);
    assert.equal(await balanceOf(account), 10);
  });

  it("goes behind the replays of those that come before it", async () => {
    const account = accounts.pop() ?? "";
    const [first, second] = [10, 20].map((xid) => lostUpdate({ account, sets: "bal - 10", xid })) as [
      Line,
      Line,
    ];
    assert.equal((await replay({}, first))(first).outcome, "replayed");
    for (const dryRun of [true, false]) {
      const end = (await replay({ dryRun }, first, second))(second);
      assert.equal(end.outcome, "replayed", JSON.stringify(end));
    }
    assert.equal(await balanceOf(account), 80);
  });

  it("goes behind a replay of the epoch that lost it, which it found there", async () => {
    const account = accounts.pop() ?? "";
    const first = lostUpdate({ account, sets: "bal - 10", xid: 10 });
    assert.equal((await replay({}, first))(first).outcome, "replayed");
    const second = lostUpdate({ account, sets: "bal - 10", xid: 20 }, { epoch: epochs[2] ?? "" });
    await cluster.kill("a");
    await cluster.start("a");
    const beginner = await TestGateway.start(cluster);
    await nextEpoch(beginner);
    await beginner.close();
    await nextEpoch(gateway);
    const end = (await replay({}, second))(second);
    assert.equal(end.outcome, "replayed", JSON.stringify(end));
    assert.equal(await balanceOf(account), 80);
  });
});
