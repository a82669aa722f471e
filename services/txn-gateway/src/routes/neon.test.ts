// The route without a database: what reaches `run` and what becomes of its answers, over real sockets where that matters.
import assert from "node:assert/strict";
import { request as httpRequest } from "node:http";
import { type AddressInfo } from "node:net";
import { afterEach, test } from "node:test";
import Fastify, { type FastifyInstance } from "fastify";
import { HighwaterError, type TransactionResponse } from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import { EPOCH_A, FakeClock, MemoryLog, newId } from "../../test/support/fakes.ts";
import { Admission, AnonymousAuthenticator, Callers } from "@highwater/service";
import { testDeploymentKeys } from "@highwater/service/testing";
import { type ResultHold, ResultMemory } from "../answers/result-memory.ts";
import { type NeonError } from "../neon/error.ts";
import { type Accepted } from "../txn/request.ts";
import { type NeonContext, neonRoutes } from "./neon.ts";

const log = new MemoryLog();
const memory = new ResultMemory(1_000_000);
const UNLIMITED = { ratePerSecond: null, burst: null, concurrency: null };
const admission = new Admission({ clock: new FakeClock(), defaults: UNLIMITED });
const callers = new Callers({
  ...{ authenticator: new AnonymousAuthenticator(), admission, clock: new FakeClock() },
  onRefused: () => undefined,
});
const apps: FastifyInstance[] = [];

afterEach(async () => {
  await Promise.all(apps.splice(0).map((app) => app.close()));
});

function committed(
  request: Accepted,
  more: Partial<TransactionResponse> = {},
): { body: TransactionResponse; hold: ResultHold } {
  const body: TransactionResponse = {
    id: request.id,
    state: "committed",
    token: "hw2_token",
    position: { epoch: EPOCH_A, offset: "7" },
    results: [{ command: "SELECT", rowCount: 1, fields: [{ name: "n", oid: 23 }], rows: [["1"]] }],
    marks: null,
    announced: true,
    ...more,
  };
  return { body, hold: memory.hold(0n) };
}

function build(parts: Partial<NeonContext>): FastifyInstance {
  const app = Fastify({ bodyLimit: 1_000 });
  app.removeContentTypeParser("text/plain");
  neonRoutes(app, {
    run: async (request) => committed(request),
    enter: (authorization, response) => callers.enter(authorization, response),
    rules: { levels: ["region"], maxWaitMs: 30_000, tokens: testDeploymentKeys() },
    newId: () => newId(),
    pace: { clock: realClock, stallMs: 1_000 },
    log,
    ...parts,
  });
  apps.push(app);
  return app;
}

interface NeonHttpResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: NeonError & Readonly<Record<string, unknown>>;
}

async function post(
  app: FastifyInstance,
  payload: string | undefined = '{"query":"SELECT 1"}',
  headers: Record<string, string> = { "content-type": "text/plain;charset=UTF-8" },
): Promise<NeonHttpResponse> {
  const answer = await app.inject({ method: "POST", url: "/sql", headers, payload });
  return { status: answer.statusCode, headers: answer.headers, body: answer.json() };
}

test("the body is JSON under any content type, and under none", async () => {
  const app = build({});
  for (const type of ["text/plain;charset=UTF-8", "application/json", "application/sql", undefined]) {
    const answered = await post(app, undefined, type === undefined ? {} : { "content-type": type });
    assert.equal(answered.status, 200, type);
    assert.deepEqual(answered.body["rows"], [{ n: 1 }]);
    assert.deepEqual(
      [answered.headers["highwater-token"], answered.headers["highwater-state"]],
      ["hw2_token", "committed"],
    );
  }
});

test("other routes keep their parsers and the shape of their errors", async () => {
  const app = build({});
  app.post("/other", () => ({ fine: true }));
  const other = await app.inject({
    method: "POST",
    url: "/other",
    headers: { "content-type": "text/plain" },
    payload: "x",
  });
  assert.equal(other.statusCode, 415);
});

test("of who is not admitted not even the body is read", async () => {
  const app = build({
    enter: async (authorization) => {
      throw new HighwaterError("unauthenticated", { detail: `no: ${String(authorization !== undefined)}` });
    },
  });
  const answered = await post(app, "{", { "neon-connection-string": "postgres://app:secret@host/db" });
  assert.deepEqual([answered.status, answered.body.message, answered.body.code], [400, "no: true", "28000"]);
  assert.equal(answered.body.highwater.code, "unauthenticated");
});

test("malformed bodies and bodies over the limit, in the wire's shape", async () => {
  const app = build({});
  const malformed = await post(app, '{"query":');
  assert.deepEqual([malformed.status, malformed.body.message], [400, "The body is not JSON."]);
  assert.equal((await post(app, "")).status, 400);
  const large = await post(app, JSON.stringify({ query: "x".repeat(2_000) }));
  assert.deepEqual([large.status, large.body.highwater.code], [413, "body_too_large"]);
  assert.equal(large.body.message, "The request body exceeds bodyLimitBytes (1000).");
});

test("a refusal names the id that the service had chosen, and says when to come again", async () => {
  let id = "";
  const app = build({
    run: async (request) => {
      id = request.id;
      throw new HighwaterError("overloaded", { retryAfterMs: 2_500 });
    },
  });
  const answered = await post(app);
  assert.deepEqual([answered.status, answered.headers["retry-after"]], [503, "3"]);
  assert.deepEqual(
    [answered.body.highwater.transactionId, answered.body.highwater.retryAfterMs],
    [id, 2_500],
  );
});

test("a fault is logged, says nothing of itself, and still names the id", async () => {
  const app = build({
    run: async () => {
      throw new TypeError("x is not a function");
    },
  });
  const before = log.events.length;
  const answered = await post(app);
  assert.equal(answered.status, 500);
  assert.deepEqual([answered.body.highwater.code, answered.body.highwater.outcome], ["internal", "unknown"]);
  assert.ok(answered.body.highwater.transactionId !== null);
  assert.doesNotMatch(JSON.stringify(answered.body), /not a function/);
  assert.deepEqual(log.events.slice(before), ["request_failed"]);
});

test("a replay and a result over the limit are errors that have the token", async () => {
  const replay = build({ run: async (request) => committed(request, { results: null, replayed: true }) });
  const cut = build({
    run: async (request) => {
      const { body, hold } = committed(request);
      const results = (body.results ?? []).map((result) => ({ ...result, truncated: true as const }));
      return { body: { ...body, results }, hold };
    },
  });
  for (const app of [replay, cut]) {
    const answered = await post(app);
    assert.deepEqual([answered.status, answered.body.highwater.outcome], [400, "applied"]);
    assert.equal(answered.body.transaction?.token, "hw2_token");
    assert.equal(answered.headers["highwater-token"], "hw2_token");
  }
});

test("a client that goes away is noticed; one that stays is not taken for gone", async () => {
  let gone = (): void => undefined;
  const wentAway = new Promise<void>((resolve) => {
    gone = resolve;
  });
  let arrived = (): void => undefined;
  const hasArrived = new Promise<void>((resolve) => {
    arrived = resolve;
  });
  const app = build({
    run: async (request, { signal }) => {
      assert.ok(signal !== undefined);
      if (request.statements[0]?.sql === "SELECT stay") {
        // The whole request has been read by now; only its end must not look like the client's.
        for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
        assert.equal(signal.aborted, false);
        return committed(request);
      }
      signal.addEventListener("abort", gone);
      arrived();
      await wentAway;
      throw new HighwaterError("cancelled");
    },
  });
  await app.listen({ port: 0, host: "127.0.0.1" });
  const { port } = app.server.address() as AddressInfo;
  const stays = await fetch(`http://127.0.0.1:${String(port)}/sql`, {
    method: "POST",
    body: '{"query":"SELECT stay"}',
  });
  assert.equal(stays.status, 200);
  const leaving = httpRequest({ port, method: "POST", path: "/sql" });
  leaving.on("error", () => undefined);
  leaving.end('{"query":"SELECT leave"}');
  await hasArrived;
  leaving.destroy();
  await wentAway;
});
