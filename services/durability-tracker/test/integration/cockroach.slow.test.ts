// Goal: on CockroachDB's adapter, the verdicts of gateways and trackers are right, failover after
// failover. Method: clients write through both gateways while the serving cluster is lost or fenced
// and its standby is cut over. Then every transaction's verdict is compared with what the new cluster
// shows. On the stand-in, or on two clusters where their URLs are set; the names of the tests say
// which. Gateways and trackers run in this process, and none of them is lost. Nothing here has run
// against a CockroachDB server.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { CockroachStandIn, openServers } from "@highwater/lab-cluster/cockroach";
import { eventually, marksOf, newId, put, send, verdicts } from "@highwater/lab-system/testing";
import { SystemOnCockroach } from "../support/on-cockroach.ts";

const ROUNDS = openServers === null ? 6 : 2;
const NAME = openServers === null ? "CockroachDB (STAND-IN)" : "CockroachDB (SERVER)";
/** Longer than a transaction takes: between two of them, a standby receives what a cut-over takes back. */
const BEAT_MS = 400;
const LOAD_MS = openServers === null ? 1_500 : 60_000;
const AFTERWARDS_MS = 500;
const WRITERS = 4;
/** A round takes 6 s, and a minute at a load of 15 per processor. */
const LIMIT_MS = openServers === null ? 600_000 : 3_600_000;
const PATIENCE_MS = openServers === null ? 60_000 : 300_000;
const WAYS = ["killed", "cut off, then killed", "fenced, and still running"] as const;

interface Claim {
  readonly id: string;
  readonly isSafe: boolean;
  /** Absent: no answer, or one that does not say what became of it. */
  token?: string | undefined;
  /** The answer said that it is gone, or never ran. */
  isGone?: boolean;
}

async function ask(claim: Claim, gateway: string): Promise<void> {
  const safely = { ack: "durable", level: "region", maxWaitMs: PATIENCE_MS } as const;
  const sent = send(gateway, [put(claim.id)], { id: claim.id, ...(claim.isSafe && safely) });
  const answer = await sent.catch(() => null);
  claim.token = answer?.body.token;
  const outcome = answer?.body.code === "transaction_lost" ? "lost" : answer?.body.outcome;
  claim.isGone = claim.token === undefined && (outcome === "lost" || outcome === "not_applied");
}

class Writers {
  readonly claims: Claim[] = [];
  readonly #done: Promise<unknown>;
  #isStopped = false;

  constructor(gateways: readonly string[]) {
    this.#done = Promise.all(Array.from({ length: WRITERS }, (_, at) => this.#write(gateways, at)));
  }

  async #write(gateways: readonly string[], at: number): Promise<void> {
    for (let n = at; !this.#isStopped; n++) {
      const claim: Claim = { id: newId(), isSafe: at === 0 };
      this.claims.push(claim);
      await ask(claim, gateways[n % gateways.length] ?? "");
      // Refused for now, or not refused and soon enough.
      await sleep(claim.token === undefined ? 50 : 5);
    }
  }

  stop(): Promise<unknown> {
    this.#isStopped = true;
    return this.#done;
  }
}

interface Count {
  committed: number;
  durable: number;
  lost: number;
  pending: number;
  wrong: number;
}

describe(`${NAME}: failovers under gateways and trackers`, () => {
  let system: SystemOnCockroach;
  let serving = "";
  const all: Claim[] = [];

  before(async () => {
    const nodes = ["east", "west"].map((id) => ({ id, region: id }));
    const pair =
      openServers === null ? await CockroachStandIn.start({ nodes, beatMs: BEAT_MS }) : await openServers();
    serving = pair.nodes[0]?.id ?? "";
    await pair.query(serving, "CREATE TABLE kv (key text PRIMARY KEY, value int)");
    system = await SystemOnCockroach.start(pair);
    await untilFollowed(serving);
  });

  after(() => system.close());

  const other = (node: string): string => system.pair.nodes.find(({ id }) => id !== node)?.id ?? "";

  async function untilFollowed(node: string): Promise<void> {
    for (const { id } of system.pair.nodes) {
      const follows = async (): Promise<boolean> =>
        (await marksOf(system.tracker(id))).epochs.at(-1)?.node === node;
      await eventually(`${id}'s tracker follows ${node}`, follows, PATIENCE_MS);
      const isReady = async (): Promise<boolean> => (await fetch(`${system.gateway(id)}/readyz`)).ok;
      await eventually(`${id}'s gateway is ready`, isReady, PATIENCE_MS);
    }
  }

  async function lose(node: string, way: (typeof WAYS)[number]): Promise<void> {
    const { pair } = system;
    if (pair instanceof CockroachStandIn && way === "cut off, then killed") {
      await pair.cluster.link(node, other(node)).cut();
      await sleep(2 * BEAT_MS);
    }
    await pair.stopServing(node);
    if (pair instanceof CockroachStandIn && way !== "fenced, and still running")
      await pair.cluster.kill(node);
  }

  /** Every verdict of both trackers, against the rows of the serving cluster. */
  async function judge(claims: readonly Claim[]): Promise<Count> {
    const present = new Set((await system.pair.query(serving, "SELECT key FROM kv")).map(({ key }) => key));
    const count = { committed: 0, durable: 0, lost: 0, pending: 0, wrong: 0 };
    for (const { id, isGone } of claims) if (isGone === true && present.has(id)) count.wrong++;
    const committed = claims.filter(({ token }) => token !== undefined);
    count.committed = committed.length;
    for (const { id: node } of system.pair.nodes) {
      const tokens = committed.map(({ token }) => token ?? "");
      const judged = await verdicts(system.tracker(node), tokens, { level: "region", waitMs: PATIENCE_MS });
      for (const [at, { id }] of committed.entries()) {
        const verdict = judged[at]?.verdict;
        if (verdict === "pending") count.pending++;
        else if (verdict !== (present.has(id) ? "durable" : "lost")) count.wrong++;
        else if (node === serving) count[verdict]++;
      }
    }
    return count;
  }

  async function round(way: (typeof WAYS)[number]): Promise<Count & { readonly reverted: number }> {
    const writers = new Writers(system.pair.nodes.map(({ id }) => system.gateway(id)));
    let reverted = 0;
    try {
      reverted = await failover(way);
    } finally {
      // Also after a failure: the file does not end, and reports nothing, while they write.
      await writers.stop();
    }
    await untilFollowed(serving);
    for (const claim of writers.claims)
      await eventually("the answer says what became of it", async () => {
        if (claim.token === undefined && claim.isGone !== true) await ask(claim, system.gateway(serving));
        return claim.token !== undefined || claim.isGone === true;
      });
    all.push(...writers.claims);
    return { ...(await judge(writers.claims)), reverted };
  }

  /** How many changes the cut-over took back. */
  async function failover(way: (typeof WAYS)[number]): Promise<number> {
    const { pair } = system;
    await sleep(LOAD_MS);
    const [old, heir] = [serving, other(serving)];
    await lose(old, way);
    const reverted = Number(await pair.cutOver(heir));
    serving = heir;
    await untilFollowed(heir);
    await sleep(AFTERWARDS_MS);
    // A tracker that was down has its ledger, and learns the rest.
    await system.stopTracker(old);
    if (pair instanceof CockroachStandIn) await pair.cluster.healAll();
    await pair.follow(old, heir);
    await system.startTracker(old);
    return reverted;
  }

  it(
    `${String(ROUNDS)} in a row: nothing is pending or wrong, and what a cut-over takes back is lost`,
    { timeout: LIMIT_MS },
    async (t) => {
      let [lost, reverted] = [0, 0];
      for (let number = 1; number <= ROUNDS; number++) {
        const way = WAYS[number % WAYS.length] ?? "killed";
        const found = await round(way);
        t.diagnostic(`round ${String(number)}, ${way}: ${JSON.stringify(found)}`);
        const { committed, durable, lost: gone, pending, wrong } = found;
        assert.deepEqual([pending, wrong, durable + gone], [0, 0, committed], `round ${String(number)}`);
        assert.ok(durable > 0);
        lost += gone;
        reverted += found.reverted;
      }
      const found = await judge(all);
      t.diagnostic(`at the end: ${JSON.stringify(found)}`);
      assert.deepEqual([found.pending, found.wrong, found.lost], [0, 0, lost]);
      if (openServers !== null) return;
      assert.ok(lost > 0, "the faults lost something");
      assert.ok(reverted > 0, "and a cut-over took back what the standby had received");
    },
  );

  const skip = openServers !== null && "it would lose what others wrote; run it on the stand-in";
  it("a cut-over to the past breaks promises, and both trackers say which", { skip }, async () => {
    const { pair } = system;
    assert.ok(pair instanceof CockroachStandIn);
    const safely = { ack: "durable", level: "region", maxWaitMs: PATIENCE_MS } as const;
    const written = [];
    for (const key of ["kept", "broken"]) {
      const { body } = await send(system.gateway(serving), [put(key)], safely);
      assert.equal(body.state, "durable", JSON.stringify(body));
      written.push(body);
    }
    const [old, heir] = [serving, other(serving)];
    await pair.stopServing(old);
    assert.ok(Number(await pair.cutOver(heir, written[0]?.position?.offset)) > 0);
    serving = heir;
    await untilFollowed(heir);
    await pair.follow(old, heir);
    for (const { id } of pair.nodes) {
      const tokens = written.map(({ token }) => token);
      const judged = await verdicts(system.tracker(id), tokens, { level: "region", waitMs: PATIENCE_MS });
      assert.deepEqual(
        judged.map(({ verdict }) => verdict),
        ["durable", "broken"],
        `${id}'s tracker`,
      );
    }
  });
});
