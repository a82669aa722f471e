// Goal: a transaction may last as long as its gateway's limit, however short the trackers' patience is. Trackers settle a dead
// gateway's transactions when their time limit is over.
// Method: trackers that lose patience after half a second; one-shots that are held open for several times that, with the commits of
// others beside them; a gateway that is killed with one open whose session the server does not notice.
import assert from "node:assert/strict";
import { test } from "node:test";
import { EAST, eventually, FaultySystem, isIntentOf, newId, WEST } from "./support.ts";

const PATIENCE_MS = 500;
/** Much more than the long one takes, so that a slow machine does not end it. */
const TOTAL_MS = 15_000;
const ENV = {
  TRACKER_INTENT_PATIENCE_MS: String(PATIENCE_MS),
  GATEWAY_TOTAL_TIMEOUT_MS: String(TOTAL_MS),
  GATEWAY_LOCK_TIMEOUT_MS: "300",
};

interface Refusal {
  readonly code?: string;
  readonly status?: number;
}

test("long transactions commit, and orphans are settled when their time is over", async () => {
  await using faulty = await FaultySystem.start(ENV);
  const { system } = faulty;
  const post = async (
    region: string,
    id: string,
    ...sql: string[]
  ): Promise<Refusal & { state?: string }> => {
    const answer = await fetch(`${system.gateway(region).url}/v1/transactions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ id, statements: sql.map((text) => ({ sql: text })) }),
    });
    return (await answer.json()) as Refusal & { state?: string };
  };
  const kindOf = async (id: string): Promise<unknown> =>
    (await system.cluster.query(EAST, "SELECT kind FROM highwater.receipt WHERE id = $1", [id]))[0]?.["kind"];
  const untilRuns = (): Promise<unknown> =>
    eventually("it runs", async () => {
      const sleeping = "SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
      return (await system.cluster.query(EAST, sleeping)).length === 1;
    });

  // Several times the patience, with a second sender at the other gateway all the while.
  const long = newId();
  const running = post(EAST, long, "INSERT INTO kv VALUES ('long')", "SELECT pg_sleep(4)");
  await untilRuns();
  let refusals = 0;
  const senders = (async () => {
    for (;;) {
      const answer = await post(WEST, long, "INSERT INTO kv VALUES ('long')", "SELECT pg_sleep(4)");
      if (answer.status === 503) continue;
      if (answer.code !== "transaction_in_progress") return answer;
      assert.equal(answer.status, 409);
      refusals++;
    }
  })();
  assert.equal((await running).state, "committed");
  assert.equal((await senders).state, "committed", "the second sender gets the original's outcome");
  assert.ok(refusals > 0);
  assert.equal(await kindOf(long), "commit");

  // Its gateway is killed, and what it had sent runs on: no word of its client reaches the server's backend, which never looks.
  const orphan = newId();
  const announced = [EAST, WEST].map((region) => faulty.proxy(region).hold("answer", isIntentOf(orphan)));
  const lost = post(
    EAST,
    orphan,
    "SET client_connection_check_interval TO 0",
    "SET statement_timeout TO 0",
    "INSERT INTO kv VALUES ('orphan')",
    "SELECT pg_sleep(600)",
  ).catch(() => "no answer");
  for (const hold of announced) {
    await hold.reached;
    hold.release();
  }
  await untilRuns();
  await system.gateway(EAST).kill();
  assert.equal(await lost, "no answer");
  assert.equal((await post(WEST, orphan, "SELECT 1")).code, "transaction_in_progress");
  assert.equal(await kindOf(orphan), undefined, "its time is not over");
  await eventually("it is settled", async () => (await kindOf(orphan)) === "aborted");
  const rows = await system.cluster.query(EAST, "SELECT key FROM kv");
  assert.deepEqual(
    rows.map(({ key }) => key),
    ["long"],
  );
  assert.equal((await post(WEST, orphan, "SELECT 1")).code, "transaction_aborted");
});
