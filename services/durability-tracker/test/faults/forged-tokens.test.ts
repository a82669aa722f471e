// Goal: nothing that a client makes up reaches the database or stays in a tracker: no receipt, no event, no entry of the ledger.
// Method: a real server is started anew, so that its first epoch has ended. Tokens of that epoch at an offset beyond the end of
// its log then ask a tracker to look them up. A refused token must leave no trace; a signed one must still be settled.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { type ServiceProcess } from "@highwater/lab-system";
import { type EpochId, type VerdictsResponse } from "@highwater/protocol";
import { DeploymentKeys } from "@highwater/service";
import { testDeploymentKeys, testToken } from "@highwater/service/testing";
import { epochOf, startLone } from "./lone-tracker.ts";
import { EAST, eventually, newId } from "./support.ts";

const BEYOND = 10n ** 20n;
const FORGED = 10_000;

const keysOf = (deployment: string, kid: number, secret: string): DeploymentKeys =>
  new DeploymentKeys({ deployment, schedule: [{ kid, validFromMs: 0, secret }], wallMs: () => 0 });
const [OURS] = testDeploymentKeys().schedule;

describe("tokens that this deployment has not signed", () => {
  let cluster: Cluster;
  let tracker: ServiceProcess;
  let ended: EpochId;

  before(async () => {
    cluster = await startCluster({ nodes: [{ id: EAST, region: EAST }] });
    const ledger = join(cluster.dir, "ledger.sqlite");
    tracker = await startLone({ cluster, ledger, levels: { disk: { primary: true } } });
    ended = await epochOf(tracker);
    await cluster.restart(EAST);
    await epochOf(tracker, ended);
  });

  after(async () => {
    await tracker.stop();
    await cluster.close();
  });

  async function ask(tokens: readonly string[]): Promise<VerdictsResponse["verdicts"]> {
    const answer = await fetch(`${tracker.url}/v1/durability/verdicts`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ tokens, level: "disk" }),
    });
    assert.equal(answer.status, 200);
    return ((await answer.json()) as VerdictsResponse).verdicts;
  }

  async function traces(): Promise<Record<string, number>> {
    const count = async (rows: string): Promise<number> =>
      Number((await cluster.query(EAST, `SELECT count(*)::int AS n FROM highwater.${rows}`))[0]?.["n"]);
    const metrics = await (await fetch(`${tracker.url}/metrics`)).text();
    const entries = Number(/^highwater_ledger_entries (\d+)$/m.exec(metrics)?.[1]);
    // The epoch that began records its event whenever the tracker comes to it.
    const events = await count("event WHERE type LIKE 'transaction%'");
    return { receipts: await count("receipt"), events, entries };
  }

  const valid = (id = newId()): string => testToken({ id, epoch: ended, offset: BEYOND });

  it("are refused in every form, and leave nothing behind", async () => {
    const before = await traces();
    assert.equal(before["receipts"], 0);
    assert.equal(before["events"], 0);
    const [deployment, secret] = ["development", OURS?.secret ?? ""];
    const foreign = [
      keysOf(deployment, 1, "another secret of at least 32 characters"),
      keysOf("another-deployment", 1, secret),
      // Its key is not in the schedule any more, or not yet.
      keysOf(deployment, 2, secret),
    ];
    const forms: (() => string)[] = [
      ...foreign.map((keys) => () => testToken({ id: newId(), epoch: ended, offset: BEYOND }, keys)),
      () => flipped(valid(), 8 * 20),
      () => flipped(valid(), 8 * 70),
      () => flipped(valid(), -1),
      () => unsigned(valid()),
      () => valid().replace("hw2_", "hw1_"),
    ];
    const tokens = Array.from({ length: FORGED }, (_, at) => forms[at % forms.length]?.() ?? "");
    const verdicts = await ask(tokens);
    assert.equal(verdicts.length, FORGED);
    for (const reported of verdicts)
      assert.equal("error" in reported ? reported.error.code : reported.verdict, "invalid_token");
    // What is signed goes the whole way after them, so they would have done so by now.
    const token = valid();
    await eventually("a signed token is settled", async () => (await ask([token]))[0]?.verdict === "lost");
    await eventually("its event is recorded", async () => (await traces())["events"] === 1);
    assert.deepEqual(await traces(), { receipts: 1, events: 1, entries: 1 + (before["entries"] ?? 0) });
  });
});

/** The token with one bit of its content changed; counted from the end when negative. */
function flipped(token: string, bit: number): string {
  const bytes = Buffer.from(token.slice(4), "base64url");
  const at = bit < 0 ? 8 * bytes.length + bit : bit;
  bytes[at >> 3] = (bytes[at >> 3] ?? 0) ^ (1 << (at & 7));
  return `hw2_${bytes.toString("base64url")}`;
}

function unsigned(token: string): string {
  const bytes = Buffer.from(token.slice(4), "base64url");
  return `hw2_${bytes.fill(0, bytes.length - 16).toString("base64url")}`;
}
