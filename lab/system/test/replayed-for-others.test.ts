// Goal: no owner keeps another owner's lost transactions from coming back, whatever its role, its
// sessions and its functions do, and none sees another one's role.
// Method: the whole product as real processes, with API keys. A region is lost with transactions of
// several owners. Functions run when a statement of two of them is planned, and when those of two
// others run: on the new primary one sleeps and catches each cancellation, and one ends its own
// session. The tests share one system and run in order.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, it } from "node:test";
import type { ReplayOutcome, ReplayReport, TransactionResponse } from "@highwater/protocol";
import { ownRole, System } from "../src/index.ts";
import { eventually, KEEPING, newId, post, putAhead, starve } from "../src/testing.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
const HOLD_MS = 40_000;
const OWNERS = ["alice", "bob", "carol", "dave", "erin", "frank"] as const;
type Owner = (typeof OWNERS)[number];
const SCOPES = ["read", "write", "contents:read", "contents:replay"] as const;
const roleOf = (owner: Owner): string => ownRole({ name: owner, owner, scopes: SCOPES }).name;

const functionsOf = (timeline: string): string => `
CREATE FUNCTION is_new() RETURNS boolean LANGUAGE sql AS
  $$ SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8) <> '${timeline}' $$;
CREATE FUNCTION slow() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
  PERFORM set_config('statement_timeout', '0', false);
  WHILE is_new() LOOP
    BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN NULL; END;
  END LOOP;
  RETURN 1;
END $$;
CREATE FUNCTION ended() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
  IF is_new() THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
  RETURN 1;
END $$;
CREATE TABLE waiting (id uuid PRIMARY KEY, n int DEFAULT 1 CHECK (n = slow()));
CREATE TABLE ending (id uuid PRIMARY KEY, n int DEFAULT 1 CHECK (n = ended()));
GRANT ALL ON waiting, ending TO app`;

describe("a replay for one owner", () => {
  let system: System;
  const keys = new Map<Owner, string>();
  const lost: { owner: Owner; id: string; isOwed: boolean }[] = [];

  const rows = (sql: string, node: string = WEST) => system.cluster.query(node, sql);
  const bearer = (owner: Owner) => ({ authorization: `Bearer ${keys.get(owner) ?? ""}` });
  const idsOf = (owner: Owner, isOwed: boolean): string[] =>
    lost.filter((each) => each.owner === owner && each.isOwed === isOwed).map(({ id }) => id);
  const insertOf = (id: string) => ({
    sql: "INSERT INTO note (id, body) VALUES ($1, 'lost') RETURNING id",
    params: [id],
  });

  async function lose(owner: Owner, options: { keep: true } | { onLost: "replay" }, sql?: string) {
    const id = newId();
    const statements = sql?.startsWith("INSERT")
      ? [{ sql, params: [id] }]
      : [...(sql === undefined ? [] : [{ sql }]), insertOf(id)];
    const url = `${system.gateway(EAST).url}/v1/transactions`;
    const { body } = await post<TransactionResponse>(url, { id, statements, ...options }, bearer(owner));
    assert.equal(body.kept, true, JSON.stringify(body));
    lost.push({ owner, id, isOwed: "onLost" in options });
  }

  async function replay(owner: Owner, request: object): Promise<ReplayReport> {
    const url = `${system.gateway(WEST).url}/v1/lost/replay`;
    const { status, body } = await post<ReplayReport>(url, { independent: "all", ...request }, bearer(owner));
    assert.equal(status, 200, JSON.stringify(body));
    for (const other of OWNERS)
      if (other !== owner) assert.ok(!JSON.stringify(body).includes(roleOf(other)), JSON.stringify(body));
    return body;
  }

  async function onlyEndOf(owner: Owner): Promise<ReplayOutcome> {
    const { transactions } = await replay(owner, {});
    assert.equal(transactions.length, 1);
    return transactions[0] as ReplayOutcome;
  }

  const endsOf = ({ transactions }: ReplayReport, ids: readonly string[]): string[] =>
    ids.map((id) => transactions.find((each) => each.id === id)?.outcome ?? "");

  before(async () => {
    const auth = { GATEWAY_AUTH: "keys", TRACKER_AUTH: "keys", HIGHWATER_INTERNAL_SECRET: randomUUID() };
    const replays = {
      HIGHWATER_REPLAY_HOLD_MS: String(HOLD_MS),
      GATEWAY_REPLAY_INDEPENDENT: "all",
    };
    system = await System.start({ env: { ...KEEPING, ...auth, ...replays } });
    for (const owner of OWNERS)
      keys.set(owner, await system.createKey({ name: owner, owner, scopes: SCOPES }));
    await rows("CREATE TABLE note (id uuid PRIMARY KEY, body text)", EAST);
    await rows("GRANT ALL ON note TO app", EAST);
    const [at] = await rows("SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8) AS timeline", EAST);
    await rows(functionsOf(String(at?.["timeline"])), EAST);
    const safe = { ack: "durable", level: "global" };
    const url = `${system.gateway(EAST).url}/v1/transactions`;
    const id = newId();
    const { status } = await post(url, { id, statements: [insertOf(id)], ...safe }, bearer("alice"));
    assert.equal(status, 200);
    await putAhead(system, { heir: WEST, other: EUROPE });
    await starve(system, WEST);
    await lose("bob", { onLost: "replay" }, "SELECT slow()");
    await lose("carol", { onLost: "replay" }, "SELECT ended()");
    await lose("dave", { keep: true });
    await lose("erin", { onLost: "replay" }, "INSERT INTO waiting (id) VALUES ($1)");
    await lose("frank", { onLost: "replay" }, "INSERT INTO ending (id) VALUES ($1)");
    for (const options of [{ keep: true }, { onLost: "replay" }] as const)
      for (let n = 0; n < 2; n++) await lose("alice", options);
    await eventually("a tracker of another region has all contents", async () => {
      const metrics = await (await fetch(`${system.tracker(EUROPE).url}/metrics`)).text();
      return metrics.includes(`\nhighwater_contents_transactions ${String(lost.length)}\n`);
    });
    await system.killRegion(EAST);
    await system.cluster.promote(WEST);
  });

  after(() => system.close());

  it("before writes succeeds although another one's role sleeps, or ends its sessions", async () => {
    const hold = await eventually("the hold is over", async () => {
      const [found] = await rows(
        "SELECT ended_at, ended_at < until AS early FROM highwater.replay_hold WHERE ended_at IS NOT NULL OR until < now()",
      ).catch(() => []);
      return found;
    });
    assert.equal(hold["early"], true, "the writes of all were held until the bound");
    const found = await rows("SELECT root::text AS id FROM highwater.redo ORDER BY root");
    assert.deepEqual(
      found.map(({ id }) => id),
      idsOf("alice", true),
    );
  });

  it("runs one at a time, and each owner has one that runs or waits", async () => {
    const url = `${system.gateway(WEST).url}/v1/lost/replay`;
    const asked = (["alice", "alice", "dave", "dave"] as const).map((owner) =>
      post<{ code?: string }>(url, { independent: "none" }, bearer(owner)),
    );
    const answers = await Promise.all(asked);
    const found = answers.map(({ status, body }) => `${String(status)} ${body.code ?? ""}`);
    assert.deepEqual(found.sort(), ["200 ", "200 ", "503 overloaded", "503 overloaded"]);
  });

  it("by hand succeeds, and those that could not be examined say so to their owner", async () => {
    const mine = idsOf("alice", false);
    assert.deepEqual(endsOf(await replay("alice", {}), mine), ["replayed", "replayed"], "a dry run");
    for (const owner of ["bob", "carol"] as const) {
      const { outcome, reason, kind } = await onlyEndOf(owner);
      assert.deepEqual([outcome, reason], ["unrecoverable", "not_replayable"], owner);
      assert.match(kind ?? "", /^not_examined: ./, owner);
    }
    const ids = mine.slice(0, 1);
    assert.deepEqual(endsOf(await replay("alice", { ids, dryRun: false }), ids), ["replayed"]);
  });

  it("succeeds although another one's role has settings of its own, or cannot log in any more", async () => {
    await rows(`ALTER ROLE ${roleOf("bob")} SET work_mem = '8MB'`);
    await rows(`ALTER ROLE ${roleOf("dave")} NOLOGIN`);
    await rows(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${roleOf("dave")}'`);
    const ids = idsOf("alice", false).slice(1);
    assert.deepEqual(endsOf(await replay("alice", { ids }), ids), ["replayed"], "a dry run");
    assert.deepEqual(endsOf(await replay("alice", { ids, dryRun: false }), ids), ["replayed"]);
    const found = await rows("SELECT root::text AS id FROM highwater.redo ORDER BY root");
    assert.deepEqual(
      found.map(({ id }) => id),
      [...idsOf("alice", true), ...idsOf("alice", false)].sort(),
    );
    for (const [owner, why] of [
      ["bob", "has settings of its own"],
      ["dave", "does not let the role"],
    ] as const) {
      const { outcome, kind = "" } = await onlyEndOf(owner);
      assert.equal(outcome, "unrecoverable", owner);
      assert.ok(kind.startsWith("not_examined: ") && kind.includes(why), kind);
    }
    await rows(`ALTER ROLE ${roleOf("dave")} LOGIN`);
    assert.equal((await onlyEndOf("dave")).outcome, "replayed", "it was not final");
  });
});
