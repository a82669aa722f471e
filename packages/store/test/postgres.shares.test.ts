// Goal: one principal cannot take all sessions of a role, or all places in its queue, from the other users of the role. Method:
// a real server, and statements of one principal that hold their sessions for as long as the test wants.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { eventually } from "@highwater/lab-tools/process";
import { type EpochId, type HighwaterError } from "@highwater/protocol";
import { type Execution } from "../src/port.ts";
import { type PostgresStore } from "../src/postgres/adapter.ts";
import { connect, OneServer, specOf } from "./postgres-cluster.ts";

const POOL = 4;
const HELD = 3;
const LOCK = 86;

let server: OneServer;
let store: PostgresStore;
let epoch: EpochId;

before(async () => {
  server = await OneServer.start({ poolSize: POOL, poolQueue: 20 });
  ({ store, epoch } = server);
});

after(() => server.close());

const run = (principal: string, sql: string): Promise<Execution> =>
  store.execute(server.node.id, { ...specOf(epoch, [{ sql }]), principal });

const waiting = async (): Promise<number> => {
  const [row] = await server.sql(
    `SELECT count(*)::int AS n FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = ${String(LOCK)}`,
  );
  return Number(row?.["n"]);
};

const codeOf = (outcome: PromiseSettledResult<unknown>): string =>
  outcome.status === "fulfilled" ? "done" : (outcome.reason as HighwaterError).code;

it("what is slow of one leaves sessions to the others, and gets 503 above its share", async () => {
  await run("greedy", "SELECT 1");
  await run("modest", "SELECT 1");
  const holder = await connect(server.node.url);
  try {
    await holder.query("SELECT pg_advisory_lock($1)", [LOCK]);
    const lock = `SELECT pg_advisory_xact_lock_shared(${String(LOCK)})`;
    const greedy = Promise.allSettled(Array.from({ length: 16 }, () => run("greedy", lock)));
    await eventually("it has its share of sessions", async () => (await waiting()) === HELD);
    for (let at = 0; at < 5; at++)
      assert.equal((await run("modest", `SELECT ${String(at)}`)).kind, "committed", "others go on");
    assert.equal(await waiting(), HELD, "and it still waits in all of its sessions");
    await assert.rejects(run("greedy", "SELECT 'slow?'"), (cause: HighwaterError) => {
      assert.equal(cause.code, "overloaded");
      assert.deepEqual(cause.details.limit, { name: "sessionShare", value: HELD });
      return true;
    });
    await holder.query("SELECT pg_advisory_unlock($1)", [LOCK]);
    const codes = (await greedy).map(codeOf);
    assert.ok(codes.filter((code) => code === "done").length >= HELD, codes.join());
    for (const code of codes) assert.match(code, /^(?:done|overloaded)$/);
    assert.equal((await run("greedy", "SELECT 'again'")).kind, "committed");
  } finally {
    await holder.end();
  }
});
