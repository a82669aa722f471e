// Goal: trackers neither settle nor report as lost what a gateway has announced and the database never got; they do report an attempt
// in doubt although a retry of its id was refused.
// Method: keys whose login roles the database turns away in three ways, so that nothing is sent or announced. A statement that it
// refuses when all trackers have the intent. A gateway that is cut off with a COMMIT on its way; intents of a gateway that is gone, to wait for.
import assert from "node:assert/strict";
import { after, before, describe, it, test } from "node:test";
import { type EventPage, type Problem, type TransactionEventData } from "@highwater/protocol";
import { EAST, eventually, FaultySystem, isIntentOf, newId, WEST } from "./support.ts";

type Headers = Readonly<Record<string, string>>;

const REGIONS = [EAST, WEST] as const;
/** What keeps a login role out, by the code that its key is answered with. */
const TURNED_AWAY = {
  overloaded: "CONNECTION LIMIT 0",
  forbidden: "NOLOGIN",
  primary_unavailable: "SET session_preload_libraries TO 'missing'",
} as const;

const insert = (id: string) => ({ id, statements: [{ sql: "INSERT INTO kv VALUES ($1)", params: [id] }] });

function post(url: string, body: object, headers: Headers = {}): Promise<Response> {
  const init = { method: "POST", headers: { "content-type": "application/json", ...headers } };
  return fetch(url, { ...init, body: JSON.stringify(body) });
}

/** Sends a transaction; `announced` resolves when every tracker has its intent. */
function send(
  { system, proxies }: FaultySystem,
  region: string,
  body: { readonly id: string },
  headers: Headers,
): { readonly answer: Promise<Response>; readonly announced: Promise<unknown> } {
  const announced = [...proxies.values()].map(async (proxy) => {
    const held = proxy.hold("answer", isIntentOf(body.id));
    await held.reached;
    held.release();
  });
  const answer = post(`${system.gateway(region).url}/v1/transactions`, body, headers);
  return { answer, announced: Promise.all(announced) };
}

/** Sends a transaction whose login role the database turns away. */
async function turnAway(
  faulty: FaultySystem,
  { id, key, headers, code }: { id: string; key: string; headers: Headers; code: keyof typeof TURNED_AWAY },
): Promise<void> {
  await faulty.system.cluster.query(EAST, `ALTER ROLE "app_${key}_write" ${TURNED_AWAY[code]}`);
  const answer = await post(`${faulty.system.gateway(EAST).url}/v1/transactions`, insert(id), headers);
  const problem = (await answer.json()) as Problem;
  assert.deepEqual([problem.code, problem.outcome], [code, "not_applied"]);
}

/** Sends a transaction whose statement the database refuses. Every tracker has its intent. */
async function refuse(faulty: FaultySystem, id: string, headers: Headers): Promise<void> {
  const body = { id, statements: [{ sql: "SELECT 1 / 0" }] };
  const { answer, announced } = send(faulty, EAST, body, headers);
  const problem = (await (await answer).json()) as Problem;
  assert.deepEqual([problem.code, problem.outcome], ["statement_failed", "not_applied"]);
  await announced;
}

/** The ids of one request for each refusal. */
async function refuseEach(faulty: FaultySystem): Promise<string[]> {
  const ids: string[] = [];
  for (const code of Object.keys(TURNED_AWAY) as (keyof typeof TURNED_AWAY)[]) {
    const id = newId();
    await turnAway(faulty, { id, key: code, headers: await faulty.headersOf(code), code });
    ids.push(id);
  }
  const id = newId();
  await refuse(faulty, id, await faulty.headersOf("refused"));
  return [...ids, id];
}

/** An id that every tracker knows, from a gateway that says nothing more. */
async function abandon({ system }: FaultySystem, endsWithinMs: number): Promise<string> {
  const id = newId();
  const { epoch } = (await (await fetch(`${system.tracker(EAST).url}/readyz`)).json()) as { epoch: string };
  const announcements = [{ kind: "intent", by: "gone.1", endsWithinMs, id, epoch }];
  for (const region of REGIONS) {
    const url = `${system.tracker(region).url}/internal/announcements`;
    assert.equal((await post(url, { gateway: "gone", announcements })).status, 204);
  }
  return id;
}

describe("an epoch ends", () => {
  const metadata = { order: "7" };
  const inDoubt = newId();
  let faulty: FaultySystem;
  let refused: readonly string[];
  let abandoned: string;

  before(async () => {
    faulty = await FaultySystem.start({ GATEWAY_AUTH: "keys", GATEWAY_PEERS: "" });
    const { system } = faulty;
    const headers = await faulty.headersOf("doubt");
    // On a session that is there already: to open one takes several round trips.
    let first = newId();
    await eventually("a session is there", async () => {
      first = newId();
      return (await send(faulty, WEST, insert(first), headers).answer).status === 200;
    });
    await eventually("the replica has it", async () => (await faulty.keysOn(WEST)).has(first));
    await faulty.starve(WEST);
    // What the gateway sends arrives, and no reply of the database comes back.
    await system.cluster.link(EAST, WEST).cut({ direction: "forward" });
    const { answer, announced } = send(faulty, WEST, { ...insert(inDoubt), ...{ metadata } }, headers);
    answer.catch(() => undefined);
    await announced;
    await eventually("the commit is visible", async () => (await faulty.keysOn(EAST)).has(inDoubt));
    await turnAway(faulty, { id: inDoubt, key: "doubt", headers, code: "overloaded" });
    refused = await refuseEach(faulty);
    abandoned = await abandon(faulty, 600_000);
    await faulty.failOver();
    await system.cluster.link(EAST, WEST).heal();
    for (const region of REGIONS) await faulty.untilReported(region, [inDoubt, abandoned]);
  });

  after(() => faulty[Symbol.asyncDispose]());

  it("what the database turned away or refused is not reported as lost", async () => {
    for (const region of REGIONS) {
      const reported = await faulty.reportedLost(region);
      assert.deepEqual(
        refused.filter((id) => reported.includes(id)),
        [],
      );
    }
  });

  it("an attempt in doubt is reported as lost, with its metadata, although a retry of its id was refused", async () => {
    const url = `${faulty.system.tracker(WEST).url}/v1/durability/events?format=json&after=0.0&types=transaction.lost`;
    const { events } = (await (await fetch(url)).json()) as EventPage;
    const lost = events.map(({ data }) => data as TransactionEventData);
    assert.deepEqual(lost.map(({ id }) => id).sort(), [inDoubt, abandoned].sort());
    assert.deepEqual(lost.find(({ id }) => id === inDoubt)?.metadata, metadata);
  });
});

test("what the database turned away or refused has no tombstone when the trackers' patience is over", async () => {
  await using faulty = await FaultySystem.start({
    ...{
      GATEWAY_AUTH: "keys",
      GATEWAY_PEERS: "",
      GATEWAY_TOTAL_TIMEOUT_MS: "2000",
      TRACKER_INTENT_PATIENCE_MS: "500",
    },
  });
  const refused = await refuseEach(faulty);
  // Its time ends after theirs.
  const abandoned = await abandon(faulty, 6_000);
  const settled = async (): Promise<unknown[]> =>
    (
      await faulty.system.cluster.query(EAST, "SELECT id::text FROM highwater.receipt WHERE kind = 'aborted'")
    ).map(({ id }) => id);
  await eventually("an abandoned id is settled", async () => (await settled()).includes(abandoned));
  const ids = await settled();
  assert.deepEqual(
    refused.filter((id) => ids.includes(id)),
    [],
  );
});
