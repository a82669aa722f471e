// Goal: who is asked what, and what becomes of the answers. Method: the store in memory, and trackers that are functions.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type NodeReport } from "@highwater/authority";
import { type LevelRule, type Offset } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { type Store } from "@highwater/store";
import { epochId } from "../../../test/support/core.ts";
import { FIRST, NODES, replica } from "../../../test/support/failover.ts";
import { type FailoverPreviewRequest } from "../../failover/wire.ts";
import { askNodes } from "./ask.ts";
import { type CandidateCommand, parseCandidateCommand } from "./parse.ts";
import { printReport } from "./print.ts";
import { findCandidate } from "./run.ts";

/** Every pause is over at once, and has taken its time. */
class RushedClock implements Clock {
  #nowMs = 0;
  monotonicMs(): number {
    return this.#nowMs;
  }
  wallMs(): number {
    return this.#nowMs;
  }
  after(delayMs: number, callback: () => void): () => void {
    this.#nowMs += delayMs;
    queueMicrotask(callback);
    return () => undefined;
  }
}

/** Nodes that answer with what the function says at each look. */
function storeOf(probe: (node: string, look: number) => NodeReport | null): Store {
  const looks = new Map<string, number>();
  return {
    nodes: NODES,
    witnessOf: () => Promise.resolve(null),
    probe: (node: string): Promise<NodeReport> => {
      const look = (looks.get(node) ?? 0) + 1;
      looks.set(node, look);
      const report = probe(node, look);
      return report === null ? Promise.reject(new Error("connect ECONNREFUSED")) : Promise.resolve(report);
    },
  } as unknown as Store;
}

function command(...args: string[]): CandidateCommand {
  const parsed = parseCandidateCommand(args);
  assert.ok(parsed !== null);
  return parsed;
}

const LEVELS: Record<string, LevelRule> = {
  disk: { primary: true },
  region: { replicas: 1, outside: "region" },
};
const settled = storeOf((node) => (node === "east" ? null : replica(node, node === "west" ? 80 : 70)));

test("it asks again until positions stop moving, and no longer than --wait", async () => {
  const replaying = storeOf((node, look) =>
    node === "west" ? replica("west", Math.min(80, 50 + 10 * look)) : null,
  );
  const found = await askNodes(replaying, new RushedClock(), 60_000);
  assert.equal(found.reports.get("west")?.flushed, 80n as Offset);
  assert.deepEqual([...found.moving], []);
  assert.deepEqual([...found.failures.keys()], ["east", "north"]);
  const growing = storeOf((node, look) => (node === "west" ? replica("west", look) : null));
  assert.deepEqual([...(await askNodes(growing, new RushedClock(), 2_000)).moving], ["west"]);
});

test("a node that answers only at the last look has not stood still yet", async () => {
  const late = storeOf((node, look) => (node === "west" && look > 1 ? replica("west", 80) : null));
  const found = await askNodes(late, new RushedClock(), 60_000);
  assert.equal(found.reports.get("west")?.flushed, 80n as Offset);
  assert.deepEqual([...found.moving], []);
  assert.deepEqual(
    [
      ...(
        await askNodes(
          storeOf((node, look) => (node === "west" && look > 1 ? replica("west", 80) : null)),
          new RushedClock(),
          0,
        )
      ).moving,
    ],
    ["west"],
  );
});

test("trackers are asked with the key about every candidate, and those that fail are named without their address", async () => {
  const asked: { url: string; key: string | null; body: FailoverPreviewRequest | null }[] = [];
  const fake = ((url: string, init: RequestInit) => {
    const { authorization = null } = init.headers as Record<string, string>;
    const body = typeof init.body === "string" ? (JSON.parse(init.body) as FailoverPreviewRequest) : null;
    asked.push({ url, key: authorization, body });
    const { host } = new URL(url);
    if (host === "down:1")
      return Promise.reject(new TypeError("fetch failed", { cause: { code: "ECONNREFUSED" } }));
    if (host === "stranger:1") return Promise.resolve(Response.json({ hello: "world" }));
    if (body === null) return Promise.resolve(Response.json({ marks: null, levels: [], epochs: [FIRST] }));
    if (host === "refusing:1") return Promise.resolve(Response.json({ code: "forbidden" }, { status: 403 }));
    const candidates = body.candidates.map(({ node, offset }) => ({
      ...{ node, offset, bytes: "1", promises: [], transactions: 3, complete: true, ids: [] },
    }));
    const preview = {
      epoch: body.epoch,
      follows: true,
      end: "100",
      marks: {},
      nodes: [],
      undecided: 0,
      candidates,
    };
    return Promise.resolve(Response.json(preview));
  }) as typeof fetch;
  const report = await findCandidate(command("--tracker", "http://refusing:1"), {
    ...{ store: settled, clock: new RushedClock(), levels: LEVELS, isLease: false },
    trackers: ["http://up:1", "http://user:secret@named:1", "http://down:1", "http://stranger:1"],
    caller: { fetch: fake, apiKey: "hwk_key" },
  });
  assert.deepEqual(
    report.trackers.map(({ tracker, answers, reason }) => [tracker, answers, reason]),
    [
      ["up:1", true, null],
      ["named:1", false, "its address must hold no user and password"],
      ["down:1", false, "fetch failed (ECONNREFUSED)"],
      ["stranger:1", false, "its answer is not that of a tracker"],
      ["refusing:1", false, "it answers 403 forbidden"],
    ],
  );
  assert.ok(asked.every(({ key }) => key === "Bearer hwk_key"));
  const [request] = asked.flatMap(({ body }) => (body === null ? [] : [body]));
  assert.deepEqual(request, {
    epoch: epochId(1),
    candidates: [
      { node: "west", offset: "80" },
      { node: "north", offset: "70" },
    ],
    list: 0,
  });
  assert.equal(report.candidate, "west");
  const text = printReport(report);
  assert.ok(!text.includes("secret"));
  assert.equal(text, EXPECTED);
});

test("a node that is not configured cannot be passed over", async () => {
  const deps = {
    ...{ store: settled, clock: new RushedClock(), levels: LEVELS, isLease: false, trackers: [] },
    caller: { fetch, apiKey: null },
  };
  await assert.rejects(findCandidate(command("--ignore", "west", "--exclude", "moon"), deps), {
    details: { fields: ["moon is not a node of the topology"], detail: "moon is not a node of the topology" },
  });
});

const EXPECTED = `PROMOTE west (epoch 1, e0000000-0000-4000-8000-000000000001, began on east)

  node   region  zone  position  is         remark
  east   east    a     -         silent     does not answer: connect ECONNREFUSED
* west   west    a     80        candidate
  north  north   a     70        candidate

Levels, if it is promoted:
  disk: does not survive a change of the primary
  region: kept · 2 of 2 regions must answer; answered: west, north

What each choice would lose:
  west: 20 bytes of known log, 3 transactions
  north: 30 bytes of known log, 3 transactions

Trackers:
  up:1: answers; 0 announced transactions of unknown end
  named:1: does not answer: its address must hold no user and password
  down:1: does not answer: fetch failed (ECONNREFUSED)
  stranger:1: does not answer: its answer is not that of a tracker
  refusing:1: does not answer: it answers 403 forbidden

Next:
  1. Make sure that east is off and stays off: anything it accepts from now on is lost.
  2. On west: SELECT pg_promote();
  3. highwater failover authorize west; or on west, as Highwater's service role: SET synchronous_commit = local; INSERT INTO highwater.authority_command (node, reason, overrules) VALUES ('west', 'failover from east', '{}');
  4. On the other replicas: point primary_conninfo to it (ALTER SYSTEM SET primary_conninfo = '…'; SELECT pg_reload_conf();).
  5. Watch GET /readyz of a tracker: it is ready, and names the node and the new epoch, once Highwater follows.`;
