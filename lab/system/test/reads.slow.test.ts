// Goal: a read near the user sees what it must see, and its promise is true. A safe read does not
// wait for transactions that it did not see. Method: the whole product over three regions with
// delayed links; the test delays replication where it needs to.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { TransactionRequest, TransactionResponse } from "@highwater/protocol";
import { System } from "../src/index.ts";
import { commit, createTable, eventually, newId, put } from "../src/testing.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;

async function ask(url: string, request: Partial<TransactionRequest>): Promise<TransactionResponse> {
  const response = await fetch(`${url}/v1/transactions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      id: newId(),
      readOnly: true,
      statements: [{ sql: "SELECT key FROM kv" }],
      ...request,
    }),
  });
  const body = (await response.json()) as TransactionResponse;
  assert.ok(response.status < 300, JSON.stringify(body));
  return body;
}

/** Repeats until the replica serves it. If a busy replica is late, the primary does. */
function askReplica(url: string, request: Partial<TransactionRequest>): Promise<TransactionResponse> {
  return eventually("the replica serves it", async () => {
    const answer = await ask(url, request);
    return answer.served?.role === "replica" && answer;
  });
}

const keysOf = (answer: TransactionResponse): string[] =>
  (answer.results?.[0]?.rows ?? []).map(([key]) => key ?? "");

test("a read near the user: served by its replica once that has the token's transaction, by the primary until then", async () => {
  await using system = await System.start();
  const { cluster } = system;
  await createTable(system, EAST);
  const west = system.gateway(WEST).url;

  const first = await commit(system.gateway(EAST).url, [put("first")], { ack: "durable", level: "global" });
  const local = await askReplica(west, { after: first.token });
  assert.deepEqual(keysOf(local), ["first"]);
  assert.deepEqual([local.served?.node, local.served?.region], [WEST, WEST]);
  assert.match(local.served?.behindBytes ?? "", /^[0-9]+$/);

  // The replica is paused: new data is read on the primary, old data still on the replica.
  await cluster.query(WEST, "SELECT pg_wal_replay_pause()");
  await eventually("the replay is paused", async () => {
    const [row] = await cluster.query(WEST, "SELECT pg_get_wal_replay_pause_state() AS state");
    return row?.["state"] === "paused";
  });
  const second = await commit(system.gateway(EAST).url, [put("second")]);
  const fresh = await ask(west, { after: second.token });
  assert.equal(fresh.served?.role, "primary");
  assert.deepEqual(keysOf(fresh).sort(), ["first", "second"]);
  assert.deepEqual(keysOf(await askReplica(west, { mode: "local" })), ["first"]);
  assert.deepEqual(keysOf(await askReplica(west, { after: first.token })), ["first"]);
  await cluster.query(WEST, "SELECT pg_wal_replay_resume()");
  const caughtUp = await askReplica(west, { after: second.token });
  assert.deepEqual(keysOf(caughtUp).sort(), ["first", "second"]);

  // The primary serves serializable snapshots, and everything where the primary is near.
  assert.equal((await ask(west, { mode: "local", isolation: "serializable" })).served?.role, "primary");
  assert.equal((await ask(system.gateway(EAST).url, { mode: "local" })).served?.role, "primary");
  assert.equal((await ask(west, { mode: "primary", after: second.token })).served?.role, "primary");
  assert.equal((await ask(west, {})).served, undefined);
});

test("a safe read on a replica waits until what it shows is durable at the level", async () => {
  await using system = await System.start();
  const { cluster } = system;
  await createTable(system, EAST);
  const west = system.gateway(WEST).url;
  await commit(system.gateway(EAST).url, [put("old")], { ack: "durable", level: "global" });
  const safe = await askReplica(west, { mode: "local", ack: "durable", level: "global" });
  assert.equal(safe.state, "durable");

  // Europe receives nothing more: the west shows data that is not everywhere yet, and reports it as
  // pending.
  await cluster.isolate(EUROPE);
  const shown = await commit(system.gateway(EAST).url, [put("new")]);
  const pending = await eventually("the west shows it", async () => {
    const answer = await ask(west, { mode: "local", ack: "durable", level: "global", maxWaitMs: 200 });
    return answer.served?.role === "replica" && keysOf(answer).includes("new") ? answer : undefined;
  });
  assert.equal(pending.state, "pending");
  const asked = { mode: "local", ack: "durable", level: "region", maxWaitMs: 60_000 } as const;
  const regional = await askReplica(west, asked);
  assert.equal(regional.state, "durable");
  assert.ok(shown.token.length > 0);
  await cluster.healAll();
  const durable = await ask(west, { mode: "local", ack: "durable", level: "global", maxWaitMs: 60_000 });
  assert.equal(durable.state, "durable");
});

test("a safe read on an idle database answers at once, and an uncommitted bulk load delays none", async () => {
  await using system = await System.start();
  const { cluster } = system;
  await createTable(system, EAST);
  const east = system.gateway(EAST).url;
  await commit(east, [put("old")], { ack: "durable", level: "global" });
  const safe = { ack: "durable", level: "global", maxWaitMs: 0 } as const;
  // At rest each read is answered without waiting, because a read writes nothing that the next
  // would wait for. A tracker that is late with its schema maintenance interrupts the rest.
  const [settled, ...reads] = await eventually("twenty reads beside which nobody wrote", async () => {
    const visible = await newestVisible(system);
    const answers = [await ask(east, safe)];
    if (answers[0]?.state !== "durable") return undefined;
    for (let n = 0; n < 20; n++) answers.push(await ask(east, safe));
    return (await newestVisible(system)) === visible ? answers : undefined;
  });
  for (const [n, answer] of reads.entries()) {
    assert.equal(answer.state, "durable", `read ${String(n)}`);
    assert.deepEqual(answer.position, settled?.position);
  }
  await cluster.isolate(EUROPE);
  await cluster.query(EAST, "CREATE TABLE bulk (text text)");
  const visible = await ask(east, safe);
  assert.equal(visible.state, "pending", "the new table is visible, and not everywhere yet");
  await cluster.healAll();
  await eventually("that is durable as well", async () => (await ask(east, safe)).state === "durable");
  // Another commit beside the load (such as a tracker's late flush help) would be visible and come
  // after the load's log, and the read must then wait for that log. So the measurement is repeated
  // until the load was alone.
  const [during, begun] = await eventually("a read beside a load that was the only writer", async () => {
    const visible = await newestVisible(system);
    const begun = await ask(east, safe);
    if (begun.state !== "durable") return undefined;
    const load = cluster.query(
      EAST,
      "INSERT INTO bulk SELECT repeat('x', 1000) FROM generate_series(1, 20000) UNION ALL SELECT pg_sleep(3)::text",
    );
    try {
      await eventually("the load has written", async () => {
        const [row] = await cluster.query(
          EAST,
          "SELECT pg_current_wal_insert_lsn() - '0/0' > $1::numeric + 10000000 AS much",
          [begun.position.offset],
        );
        return row?.["much"] === true;
      });
      const during = await ask(east, safe);
      if ((await newestVisible(system)) !== visible) return undefined;
      return [during, begun];
    } finally {
      await load;
    }
  });
  assert.deepEqual([during.state, during.position], ["durable", begun.position]);
});

/** What a new snapshot can see: every commit changes it, and an open transaction does not. */
async function newestVisible(system: System): Promise<unknown> {
  const [row] = await system.cluster.query(EAST, "SELECT pg_current_snapshot()::text AS seen");
  return row?.["seen"];
}
