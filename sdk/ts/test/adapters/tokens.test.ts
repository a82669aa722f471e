// Goal: an application on the PostgreSQL wire gets the promise of its last transaction from its own driver, and never the
// promise of another transaction. Method: the real system of three regions; pg and postgres.js connect to a gateway's wire.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Site } from "@highwater/conformance/site";
import { verdict } from "@highwater/lab-system/testing";
import pg from "pg";
import postgres from "postgres";
import { tokenOf, watchTokens } from "../../src/adapters/tokens.ts";
import { Highwater, TransactionLostError, UnknownOutcomeError } from "../../src/index.ts";
import { PATIENT } from "./support.ts";

let site: Site;
let hw: Highwater;
const ends = new AsyncDisposableStack();
/** For the driver's own options; with `max` 1, all statements have the same connection. */
const ACK_COMMIT = { "highwater.ack": "commit" };

const address = (): string => site.system.pgUrl(site.region("primary"));

before(async () => {
  site = ends.use(await Site.start());
  const { endpoints } = await site.describe();
  hw = new Highwater({ endpoints, ...PATIENT });
  ends.defer(() => hw.close());
  const table = { sql: "CREATE TABLE note (text text)" };
  await hw.transaction(table, { ack: "durable", level: "global", maxWaitMs: 60_000, timeoutMs: 90_000 });
});

after(() => ends.disposeAsync());

async function connect(config: pg.ClientConfig = {}) {
  const client = watchTokens(new pg.Client({ connectionString: address(), ...config }));
  client.on("error", () => undefined);
  await client.connect();
  return { client, [Symbol.asyncDispose]: () => client.end() };
}

const isRefused = (code: string) => (cause: { code?: string; outcome?: string }) =>
  cause.code === code && cause.outcome === "not_applied";

test("pg: a commit in a block and one by itself have their own promises, which become durable", async () => {
  await using at = await connect({ options: "-c highwater.ack=commit" });
  const { client } = at;
  const session = hw.session();
  await client.query("BEGIN");
  await client.query("INSERT INTO note VALUES ('in a block')");
  await client.query("COMMIT");
  const first = tokenOf(hw, client, { session });
  await client.query({ text: "INSERT INTO note VALUES ($1)", values: ["by itself"] });
  const second = tokenOf(hw, client, { level: "global" });
  assert.notEqual(first.token, second.token);
  assert.equal((await first.durable({ timeoutMs: 60_000 })).id, first.id);
  assert.equal((await second.durable({ timeoutMs: 60_000 })).level, "global");
  await session.durable({ timeoutMs: 60_000 });
  assert.ok(session.token.includes(first.token));
  assert.equal((await hw.status(first.id)).state, "durable");
});

test("pg: without a token it says why, and an earlier one is not read for a later transaction", async () => {
  await using at = await connect();
  const { client } = at;
  assert.throws(() => tokenOf(hw, client), isRefused("no_token"));
  await client.query("INSERT INTO note VALUES ('safe')");
  assert.throws(() => tokenOf(hw, client), isRefused("no_token"));
  await client.query("SET highwater.ack = 'commit'");
  await client.query("INSERT INTO note VALUES ('fast')");
  assert.ok(tokenOf(hw, client).token.startsWith("hw2_"));
  await client.query("SELECT count(*) FROM note");
  assert.throws(() => tokenOf(hw, client), isRefused("no_token"));
  await client.query("INSERT INTO note VALUES ('fast again')");
  await client.query("SET highwater.ack = 'durable'");
  await client.query("INSERT INTO note VALUES ('safe again')");
  assert.throws(() => tokenOf(hw, client), isRefused("no_token"));
  const stranger = new pg.Client({ connectionString: address() });
  assert.throws(() => tokenOf(hw, stranger), isRefused("not_watched"));
});

test("pg: connections of a pool each have their own; those that pipeline are refused", async () => {
  const config = { connectionString: address(), options: "-c highwater.ack=commit", max: 4 };
  const pool = watchTokens(new pg.Pool(config));
  const ids = await Promise.all(
    Array.from({ length: 20 }, async (_, at) => {
      const client = await pool.connect();
      await client.query("INSERT INTO note VALUES ($1)", [`pool ${String(at)}`]);
      const { id } = await tokenOf(hw, client).durable({ timeoutMs: 60_000 });
      client.release();
      return id;
    }),
  );
  assert.equal(new Set(ids).size, 20);
  await pool.end();
  await using at = await connect({ options: "-c highwater.ack=commit", pipeline: true });
  const insert = (): Promise<unknown> => at.client.query("INSERT INTO note VALUES ('pipelined')");
  await Promise.all([insert(), insert()]);
  assert.throws(() => tokenOf(hw, at.client), isRefused("no_token"));
});

test("postgres.js: a client of one connection has tokens, and forgets them with its connection", async () => {
  assert.throws(() => watchTokens(postgres(address())), isRefused("invalid_options"));
  const sql = watchTokens(postgres(address(), { max: 1, connection: ACK_COMMIT }));
  await sql.begin(async (tx) => {
    await tx`INSERT INTO note VALUES ('by postgres.js')`;
  });
  const { token } = tokenOf(hw, sql);
  await sql`INSERT INTO note VALUES ('alone')`;
  const alone = tokenOf(hw, sql);
  assert.notEqual(alone.token, token);
  await alone.durable({ timeoutMs: 60_000 });
  const [{ pid } = { pid: 0 }] = await sql<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`;
  await sql`INSERT INTO note VALUES ('before the end')`;
  assert.ok(tokenOf(hw, sql).token.startsWith("hw2_"));
  await site.query(`SELECT pg_terminate_backend(${String(pid)})`);
  const answers = async (): Promise<boolean> => {
    const [row] = await sql<{ other: boolean }[]>`SELECT pg_backend_pid() <> ${pid} AS other`;
    return row?.other === true;
  };
  while (!(await answers().catch(() => false))) await new Promise((resolve) => setTimeout(resolve, 20));
  assert.throws(() => tokenOf(hw, sql), isRefused("no_token"));
  await sql.end();
});

test("a token through the loss of a region: durable stays, a lost one calls its listener, one without a receipt is unknown", async () => {
  await using at = await connect({ options: "-c highwater.ack=commit" });
  await using impatient = await connect({ options: "-c highwater.max_wait=1000" });
  await at.client.query("INSERT INTO note VALUES ('kept')");
  const kept = tokenOf(hw, at.client);
  await kept.durable({ level: "global", timeoutMs: 60_000 });
  await site.hold();
  await at.client.query("INSERT INTO note VALUES ('lost')");
  const lost = tokenOf(hw, at.client);
  const received: string[] = [];
  lost.onLost(({ id, verdict }) => received.push(`${id} ${verdict}`));
  await impatient.client.query("INSERT INTO note VALUES ('early')");
  const early = tokenOf(hw, impatient.client);
  early.onLost(({ verdict }) => received.push(`early ${verdict}`));
  await site.failover();
  await assert.rejects(lost.durable({ timeoutMs: 60_000 }), TransactionLostError);
  await assert.rejects(early.durable({ timeoutMs: 60_000 }), UnknownOutcomeError);
  for (const region of site.regions.filter((each) => site.system.tracker(each).running))
    assert.equal((await verdict(site.system.tracker(region).url, early.token)).verdict, "unknown", region);
  while (received.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  assert.deepEqual(received, [`${lost.id} lost`]);
  assert.equal(kept.verdict({ level: "global" })?.verdict, "durable");
  const rows = await site.query("SELECT text FROM note WHERE text IN ('kept', 'lost', 'early')");
  assert.deepEqual(rows, [{ text: "kept" }]);
});
