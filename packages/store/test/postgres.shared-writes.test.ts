// Goal: transactions that share a session and a write stay independent of each other. Method: more transactions at once than
// there are sessions, with statements quick enough to share a write, while some of them fail, block, or lose their server.
import assert from "node:assert/strict";
import { after, before, beforeEach, it } from "node:test";
import { eventually } from "@highwater/lab-tools/process";
import { type EpochId, type HighwaterError, type NodeSpec, type TxnId } from "@highwater/protocol";
import { type Execution } from "../src/port.ts";
import { type PostgresStore } from "../src/postgres/adapter.ts";
import { connect, keyOf, newId, OneServer, specOf } from "./postgres-cluster.ts";

const POOL = 4;
const MANY = 200;
const WARM = 12;
const INSERT = "INSERT INTO kv VALUES ($1, $2)";
const BUMP = "UPDATE counter SET n = n + 1 WHERE id = $1";

let server: OneServer;
let node: NodeSpec;
let store: PostgresStore;
let epoch: EpochId;
let sql: OneServer["sql"];

before(async () => {
  // On a busy machine the last of many waits for its turn for longer than usual.
  server = await OneServer.start({ poolSize: POOL, connectTimeoutMs: 60_000 });
  ({ node, store, epoch, sql } = server);
  await sql("CREATE TABLE counter (id int PRIMARY KEY, n int NOT NULL)");
  await sql("INSERT INTO counter SELECT id, 0 FROM generate_series(1, 100) id");
});

after(() => server.close());

beforeEach(async () => {
  await sql("TRUNCATE kv");
  for (let n = 0; n < WARM; n++) {
    await insert(`warm-${String(n)}`);
    await bump(1);
  }
  await sql("TRUNCATE kv");
  await sql("UPDATE counter SET n = 0");
});

const insert = (key: string, id = newId()): Promise<Execution> =>
  store.execute(node.id, specOf(epoch, [{ sql: INSERT, params: [key, "1"] }], { id }));

const bump = (row: number, id = newId()): Promise<Execution> =>
  store.execute(node.id, specOf(epoch, [{ sql: BUMP, params: [row] }], { id }));

async function sessions(): Promise<number> {
  const [row] = await sql(
    "SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name = 'highwater:one'",
  );
  return Number(row?.["n"]);
}

it("one that fails takes no other with it, and every one is answered for itself", async () => {
  const keys = Array.from({ length: MANY }, (_, n) => (n % 7 === 3 ? "same" : `key-${String(n)}`));
  const outcomes = await Promise.allSettled(keys.map((key) => insert(key)));
  const refused = outcomes.filter((outcome) => outcome.status === "rejected");
  for (const { reason } of refused) {
    const error = reason as HighwaterError;
    assert.deepEqual([error.code, error.details.statement], ["constraint_violation", 0]);
  }
  const rows = await sql("SELECT key FROM kv");
  const committed = keys.filter((_, at) => outcomes[at]?.status === "fulfilled");
  assert.deepEqual(rows.map(({ key }) => String(key)).sort(), [...committed].sort());
  assert.equal(committed.filter((key) => key === "same").length, 1);
  assert.equal(refused.length, keys.filter((key) => key === "same").length - 1);
  assert.ok((await sessions()) <= POOL);
});

it("each has a position between the log's end before and behind them all", async () => {
  const before = (await store.positions(node.id))?.applied ?? 0n;
  const done = await Promise.all(Array.from({ length: MANY }, (_, n) => bump(1 + (n % 100))));
  const behind = (await store.positions(node.id))?.applied ?? 0n;
  for (const execution of done) {
    assert.ok(execution.kind === "committed");
    assert.ok(execution.offset > before && execution.offset <= behind, String(execution.offset));
  }
  const [row] = await sql("SELECT sum(n)::int AS n FROM counter");
  assert.equal(row?.["n"], MANY);
});

it("the same id twice in one write commits once", async () => {
  const ids = Array.from({ length: MANY / 2 }, () => newId());
  const twice = await Promise.all([...ids, ...ids].map((id) => bump(7, id)));
  assert.equal(twice.filter(({ kind }) => kind === "committed").length, ids.length);
  const [row] = await sql("SELECT n FROM counter WHERE id = 7");
  assert.equal(row?.["n"], ids.length);
});

it("the schema changes under them: they are planned anew, and run once", async () => {
  const first = Promise.all(Array.from({ length: MANY }, (_, n) => insert(`before-${String(n)}`)));
  const changed = sql("ALTER TABLE kv ADD COLUMN more text");
  const second = Promise.all(Array.from({ length: MANY }, (_, n) => insert(`after-${String(n)}`)));
  await Promise.all([first, changed, second]);
  const [row] = await sql("SELECT count(*)::int AS n FROM kv");
  assert.equal(row?.["n"], 2 * MANY);
  await sql("ALTER TABLE kv DROP COLUMN more");
});

it("what has been quick and now waits for a lock does not hold up the others for long", async () => {
  const holder = await connect(node.url);
  try {
    await holder.query("BEGIN");
    await holder.query("UPDATE counter SET n = n WHERE id <= 2");
    // As many as there are sessions for what is quick.
    const blocked = Promise.all([bump(1), bump(2)]);
    await eventually("they wait", async () => {
      const waiting = "SELECT count(*)::int AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
      const [row] = await sql(waiting);
      return row?.["n"] === 2;
    });
    // Behind them in the queue, on the sessions that are left, while the locks are still held.
    const others = await Promise.all(Array.from({ length: MANY }, (_, n) => bump(3 + (n % 90))));
    assert.ok(others.every(({ kind }) => kind === "committed"));
    await holder.query("ROLLBACK");
    assert.ok((await blocked).every(({ kind }) => kind === "committed"));
  } finally {
    await holder.end();
  }
});

it("their server process dies: an outcome that cannot be known is unknown, and settling finds it", async () => {
  const ids: TxnId[] = Array.from({ length: MANY }, () => newId());
  const running = Promise.allSettled(ids.map((id) => bump(3, id)));
  const ended = await sql(
    "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'highwater:one'",
  );
  const outcomes = await running;
  await eventually("their sessions are gone", async () => {
    const left = await sql("SELECT FROM pg_stat_activity WHERE pid = ANY ($1)", [
      ended.map(({ pid }) => pid),
    ]);
    return left.length === 0;
  });
  const unknown = ids.filter((_, at) => {
    const outcome = outcomes[at];
    return outcome?.status === "rejected" && (outcome.reason as HighwaterError).outcome === "unknown";
  });
  const request = {
    epoch,
    keys: unknown.map((id) => keyOf(id)),
    tombstone: "aborted",
    patienceMs: 100,
  } as const;
  const { receipts } = await store.settle(node.id, request);
  const committed =
    outcomes.filter((outcome) => outcome.status === "fulfilled").length +
    receipts.filter(({ kind }) => kind === "commit").length;
  const [row] = await sql("SELECT n FROM counter WHERE id = 3");
  assert.equal(row?.["n"], committed);
  // And the pool is whole again.
  const after = await Promise.all(Array.from({ length: MANY }, (_, n) => bump(4 + (n % 90))));
  assert.ok(after.every(({ kind }) => kind === "committed"));
});
