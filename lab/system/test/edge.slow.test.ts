// Goal: the whole product works behind its edge. Method: three regions on real PostgreSQL, a real
// Envoy in front of two of them, and three gateways in one region. The SDK and raw calls use the
// edge while the test stops a gateway, kills one, kills all gateways of a region, and then the
// region.
import assert from "node:assert/strict";
import { request } from "node:http";
import { after, before, describe, test } from "node:test";
import type { Problem } from "@highwater/protocol";
import { whyNoEnvoy } from "@highwater/lab-tools/envoy";
import { Highwater, sql } from "@highwater/sdk";
import { type RegionEdge, System } from "../src/index.ts";
import { commit, createTable, eventually, keysOn, newId, put, stateOf } from "../src/testing.ts";

const [EAST, WEST] = ["us-east", "us-west"] as const;
const BODY_LIMIT = 4_194_304;
const LIMIT_MS = 60_000;
/** Shorter than streams are watched, so that no other answer would last that long. */
const ANSWER_MS = 10_000;
const STREAM_MS = Number(process.env["STREAM_TEST_MS"] ?? "12000");

interface EdgeResponse {
  readonly status: number;
  readonly session: string;
  readonly body: Partial<Problem> & { readonly state?: string };
}

async function call(url: string, body: object, session = ""): Promise<EdgeResponse> {
  const answer = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...(session !== "" && { "highwater-session": session }) },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(LIMIT_MS),
  });
  return {
    status: answer.status,
    session: answer.headers.get("highwater-session") ?? "",
    body: (await answer.json()) as EdgeResponse["body"],
  };
}

/**
 * The answer to a request that announces so large a body. A refusal ends the connection, so no body
 * is sent.
 */
function announceBody(url: string, bytes: number): Promise<Pick<EdgeResponse, "status" | "body">> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "content-length": bytes };
    const asked = request(url, { method: "POST", headers, timeout: LIMIT_MS }, (answer) => {
      let text = "";
      answer.on("data", (piece: Buffer) => (text += piece.toString()));
      answer.on("end", () => {
        resolve({ status: answer.statusCode ?? 0, body: JSON.parse(text) as EdgeResponse["body"] });
        asked.destroy();
      });
    });
    asked.on("error", reject);
    asked.flushHeaders();
  });
}

interface Open {
  readonly id: string;
  readonly session: string;
  readonly gateway: string;
}

async function open(edge: string): Promise<Open> {
  const id = newId();
  const { status, session, body } = await call(`${edge}/v1/transactions/begin`, { id });
  assert.equal(status, 200, JSON.stringify(body));
  return { id, session, gateway: session.slice(0, session.indexOf(".")) };
}

describe("the product behind its edge", { skip: whyNoEnvoy() }, () => {
  let system: System;
  let east: RegionEdge;
  let west: RegionEdge;

  before(async () => {
    system = await System.start({ env: { GATEWAY_IDLE_TIMEOUT_MS: "60000" } });
    await system.addGateway(EAST);
    await system.addGateway(EAST);
    east = await system.startEdge(EAST, { limits: { answerMs: ANSWER_MS } });
    west = await system.startEdge(WEST);
    await createTable(system, EAST);
  });
  after(async () => {
    await system.close();
  });
  const on = (transaction: Open, name: string, body: object): Promise<EdgeResponse> =>
    call(`${east.url}/v1/transactions/${transaction.id}/${name}`, body, transaction.session);

  test("the SDK works through it: one-shot, interactive, durable, states", async () => {
    await using hw = new Highwater({ url: east.url });
    const done = await hw.transaction([sql`INSERT INTO kv VALUES ('sdk', 1) RETURNING value`], {
      ack: "durable",
    });
    assert.equal(done.state, "durable");
    await Promise.all(
      Array.from({ length: 12 }, (_, n) =>
        hw.transact(
          async (tx) => {
            await tx.query(sql`INSERT INTO kv VALUES (${`sdk-${String(n)}`}, ${n})`);
            await tx.query(sql`UPDATE kv SET value = value + 1 WHERE key = ${`sdk-${String(n)}`}`);
          },
          { ack: "durable", level: "region", timeoutMs: LIMIT_MS },
        ),
      ),
    );
    // The edge may choose a gateway that has not received the mark yet.
    assert.equal((await hw.status(done.id, { waitMs: LIMIT_MS })).state, "durable");
    const keys = await keysOn(system, EAST);
    assert.equal([...keys].filter((key) => key.startsWith("sdk")).length, 13);
  });

  test("the edge's own refusals look like the gateway's, and internal paths are hidden", async () => {
    const body = { id: newId(), statements: [{ sql: "x".repeat(BODY_LIMIT) }] };
    const [mine, theirs] = await Promise.all([
      call(`${east.url}/v1/transactions`, body),
      announceBody(`${system.gateway(EAST).url}/v1/transactions`, BODY_LIMIT + 1),
    ]);
    assert.equal(mine.status, 413);
    assert.deepEqual([mine.status, mine.body], [theirs.status, theirs.body]);
    for (const path of ["/metrics", "/healthz", "/readyz", "/internal/announcements", "/nowhere"]) {
      const hidden = await call(east.url + path, {});
      const nowhere = await call(`${system.gateway(EAST).url}/nowhere`, {});
      // Only the gateway says which paths there are.
      const { detail, ...others } = nowhere.body as Readonly<Record<string, unknown>>;
      assert.match(String(detail), /^There is no such path here/);
      assert.deepEqual(hidden.body, others, path);
    }
  });

  test("when a gateway shuts down, its open transactions continue and no other request fails", async () => {
    const third = system.gateways(EAST)[2];
    assert.ok(third);
    const name = third.name.replace("gateway-", "");
    const transaction = await eventually("it has a transaction", async () => {
      const opened = await open(east.url);
      if (opened.gateway === name) return opened;
      await on(opened, "rollback", { seq: 1 });
      return undefined;
    });
    const stopped = third.stop(LIMIT_MS);
    await eventually("it takes nothing new", async () => (await fetch(`${third.url}/readyz`)).status === 503);
    // Raw calls, so that only the edge repeats them.
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        call(`${east.url}/v1/transactions`, { id: newId(), statements: [put(`stopping-${String(n)}`)] }),
      ),
    );
    for (const answer of answers) assert.equal(answer.status, 200, JSON.stringify(answer.body));
    const { status, body } = await on(transaction, "commit", { seq: 1, statements: [put("stopped")] });
    assert.deepEqual([status, body.state], [200, "committed"], JSON.stringify(body));
    await stopped;
    assert.ok((await keysOn(system, EAST)).has("stopped"));
  });

  test("open transactions stay with their gateway; when one gateway is killed, the others' continue and every answer is true", async () => {
    const opened: Open[] = [];
    const running = system.gateways(EAST).filter((gateway) => gateway.running);
    const gateways = running.map(({ name }) => name.replace("gateway-", ""));
    await eventually("both gateways have two", async () => {
      const transaction = await open(east.url);
      const had = opened.filter(({ gateway }) => gateway === transaction.gateway).length;
      if (had < 2) opened.push(transaction);
      else await on(transaction, "rollback", { seq: 1 });
      return opened.length === 2 * gateways.length;
    });
    for (const transaction of opened) {
      const { status, body } = await on(transaction, "statements", {
        seq: 1,
        statements: [put(transaction.id)],
      });
      assert.equal(status, 200, JSON.stringify(body));
    }
    const [, second] = running;
    assert.ok(second);
    await using hw = new Highwater({ url: east.url });
    // One after another, across the moment of the kill: all must commit.
    const during = (async () => {
      for (let n = 0; n < 60; n++)
        await hw.transaction([sql`INSERT INTO kv VALUES (${`during-${String(n)}`}, 1)`]);
    })();
    await second.kill();
    const lost = opened.filter(({ gateway }) => gateway === gateways[1]);
    const kept = opened.filter(({ gateway }) => gateway === gateways[0]);
    const [stated, committed] = lost;
    assert.ok(stated && committed);
    const statement = await on(stated, "statements", { seq: 2, statements: [put(`${stated.id}-2`)] });
    assert.deepEqual(
      [statement.status, statement.body.code, statement.body.outcome, statement.body.retry],
      [503, "gateway_lost", "not_applied", "transaction"],
    );
    const ended = await on(committed, "commit", { seq: 2 });
    assert.deepEqual(
      [ended.status, ended.body.code, ended.body.outcome, ended.body.retry],
      [503, "commit_unconfirmed", "unknown", "resolve_outcome"],
    );
    assert.equal((await stateOf(east.url, committed.id)).body.state, "unknown");
    // Any gateway can settle it, and then every gateway knows.
    const settled = await on(committed, "rollback", { seq: 3 });
    assert.deepEqual([settled.status, settled.body.state], [200, "aborted"]);
    await eventually("the state is settled", async () => {
      return (await stateOf(east.url, committed.id)).body.state === "aborted";
    });
    for (const transaction of kept) {
      const { status, body } = await on(transaction, "commit", { seq: 2 });
      assert.deepEqual([status, body.state], [200, "committed"], JSON.stringify(body));
    }
    await during;
    const keys = await keysOn(system, EAST);
    for (const { id } of kept) assert.ok(keys.has(id));
    for (const { id } of lost) assert.ok(!keys.has(id));
    assert.equal([...keys].filter((key) => key.startsWith("during-")).length, 60);
  });

  test("a stream of marks goes through it for longer than any other answer may take", async () => {
    const gone = new AbortController();
    const answer = await fetch(`${east.url}/v1/durability/stream`, { signal: gone.signal });
    assert.equal(answer.status, 200);
    assert.ok(answer.body);
    let text = "";
    let isOver = false;
    const reading = (async () => {
      const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
        if (done) break;
        text += value;
      }
      isOver = true;
    })().catch((cause: unknown) => {
      isOver = !gone.signal.aborted;
      if (isOver) throw cause;
    });
    const until = performance.now() + STREAM_MS;
    for (let n = 0; performance.now() < until; n++) {
      const { position } = await commit(east.url, [put(`streamed-${String(n)}`)], {
        ack: "durable",
        level: "region",
      });
      // The stream also carries the mark that made it durable.
      await eventually("the mark has come", async () => {
        const marks = [...text.matchAll(/"region":"([0-9]+)"/g)].map(([, offset]) => BigInt(offset ?? "0"));
        return marks.some((offset) => offset >= BigInt(position.offset));
      });
      await new Promise((resolve) => setTimeout(resolve, STREAM_MS / 5));
    }
    assert.ok(!isOver, "no one has ended it");
    gone.abort();
    await reading;
  });

  test("without a gateway in its region the edge uses the next region's, and without the region its client the next edge", async () => {
    await system.gateway(EAST).kill();
    await using hw = new Highwater({ url: [east.url, west.url] });
    const served = await hw.transaction([sql`INSERT INTO kv VALUES ('from the west', 1)`], {
      ack: "durable",
    });
    assert.equal(served.state, "durable");
    const { session } = await open(east.url);
    assert.match(session, /^us-west\./);
    await system.killRegion(EAST);
    await system.cluster.promote(WEST);
    const after = await hw.transaction([sql`INSERT INTO kv VALUES ('after the east', 1)`], {
      timeoutMs: LIMIT_MS,
    });
    assert.ok((await keysOn(system, WEST)).has("after the east"), after.id);
  });
});
