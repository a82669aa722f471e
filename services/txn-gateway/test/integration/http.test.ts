// Goal: whatever comes over HTTP, the answer is a problem of the catalogue with the right status, and never a guess at what was
// meant. Method: requests that no client library would send, to a real gateway on a real primary, some as bytes on a socket.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { connect } from "node:net";
import { after, before, describe, it } from "node:test";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { type Problem, type TransactionResponse } from "@highwater/protocol";
import { newId } from "../support/fakes.ts";
import { problemOf, TestGateway } from "../support/gateway.ts";

let cluster: Cluster;
let gateway: TestGateway;

before(async () => {
  cluster = await startCluster({ nodes: [{ id: "a", region: "us-east" }] });
  gateway = await TestGateway.start(cluster);
  await gateway.ready();
});

after(async () => {
  await gateway.close();
  await cluster.close();
});

interface Refused {
  readonly problem: Problem;
  readonly headers: Headers;
}

async function refused(path: string, init: RequestInit): Promise<Refused> {
  const response = await fetch(`${gateway.url}${path}`, init);
  assert.match(response.headers.get("content-type") ?? "", /^application\/problem\+json/);
  const body: unknown = await response.json();
  const problem = problemOf({ status: response.status, headers: response.headers, body });
  return { problem, headers: response.headers };
}

const JSON_TYPE = { "content-type": "application/json" };
const oneShot = (sql = "SELECT 1", params: unknown[] = []): string =>
  JSON.stringify({ id: newId(), statements: [{ sql, params }] });

/** What comes back for bytes that are written as they are. */
async function raw(request: string): Promise<{ head: string; problem: Problem }> {
  const socket = connect(Number(new URL(gateway.url).port), "127.0.0.1");
  socket.write(request);
  let answer = "";
  for await (const chunk of socket) answer += String(chunk);
  const [head = "", body = ""] = answer.split("\r\n\r\n", 2);
  return { head, problem: JSON.parse(body) as Problem };
}

it("the page's first program runs in a shell as it is printed, and again", async () => {
  const page = await readFile(new URL("../../../../docs/reference/http.md", import.meta.url), "utf8");
  const [, program = ""] = /^```sh\n(uuidv7.*?)^```/ms.exec(page) ?? [];
  const here = program.replace("localhost:4600", new URL(gateway.url).host);
  for (const balance of ["90", "80"]) {
    const { stdout } = await promisify(execFile)("sh", ["-c", here]);
    const { state, results } = JSON.parse(stdout) as TransactionResponse;
    assert.deepEqual([state, results?.at(-1)?.rows], ["committed", [[balance]]]);
  }
});

describe("paths and methods", () => {
  it("404 for what there is not, also with a slash too many", async () => {
    for (const path of ["/", "/v1", "//v1/transactions", "/v1//transactions", "/V1/transactions"]) {
      for (const init of [{}, { method: "POST", headers: { "content-type": "text/plain" }, body: "x" }]) {
        const { problem } = await refused(path, init);
        assert.deepEqual([problem.status, problem.code], [404, "not_found"], path);
      }
    }
    const { problem } = await refused(`/v1/transactions/${newId()}/commit/`, { method: "POST" });
    assert.equal(problem.code, "not_found");
    // Nothing is no id.
    assert.equal((await refused("/v1/transactions/", {})).problem.code, "not_found");
  });

  it("405 for a method that there is not, and which there are", async () => {
    const id = newId();
    const cases: [string, string, string][] = [
      ["GET", "/v1/transactions", "POST"],
      ["OPTIONS", "/v1/transactions", "POST"],
      ["DELETE", "/v1/transactions?x=/a", "POST"],
      // Begin is under a path that could be an id's.
      ["PUT", "/v1/transactions/begin", "POST"],
      ["GET", "/v1/transactions/begin?wait=1", "POST"],
      ["POST", `/v1/transactions/${id}`, "GET, HEAD"],
      ["GET", `/v1/transactions/${id}/statements`, "POST"],
      ["PATCH", `/v1/transactions/${id}/commit`, "POST"],
      ["GET", `/v1/transactions/${id}/rollback`, "POST"],
      ["OPTIONS", "/sql", "POST"],
      ["POST", "/healthz", "GET, HEAD"],
    ];
    for (const [method, path, allow] of cases) {
      const { problem, headers } = await refused(path, { method });
      assert.deepEqual([problem.status, problem.code], [405, "method_not_allowed"], `${method} ${path}`);
      assert.equal(headers.get("allow"), allow);
    }
  });

  it("HEAD is GET without a body", async () => {
    for (const [path, status] of [
      ["/healthz", 200],
      [`/v1/transactions/${newId()}`, 200],
      ["/v1/transactions/none", 400],
      ["/nothing", 404],
      ["/v1/transactions", 405],
    ] as const) {
      const response = await fetch(`${gateway.url}${path}`, { method: "HEAD" });
      assert.equal(response.status, status, path);
      assert.equal(await response.text(), "");
    }
  });
});

describe("ids", () => {
  it("upper case is the same id, and lower case is what is answered", async () => {
    const id = newId();
    const body = JSON.stringify({
      id: id.toUpperCase(),
      statements: [{ sql: "CREATE TABLE upper_case (n int)" }],
    });
    const { status, body: answer } = await gateway.send(body);
    assert.equal(status, 200);
    assert.equal((answer as TransactionResponse).id, id);
    const again = (await gateway.send(body.replace(id.toUpperCase(), id))).body as TransactionResponse;
    assert.equal(again.replayed, true);
    assert.equal((await gateway.state(id.toUpperCase())).id, id);
  });

  it("what is no UUIDv7 is refused as such, wherever it stands", async () => {
    for (const id of ["order-7", crypto.randomUUID(), `${newId()}%20`, "%00"]) {
      const { problem } = await refused(`/v1/transactions/${id}`, {});
      assert.deepEqual([problem.status, problem.code], [400, "invalid_id"], id);
    }
    const broken = await refused("/v1/transactions/%ff", {});
    assert.equal(broken.problem.code, "invalid_request");
    const long = await refused(`/v1/transactions/${"a".repeat(1_000)}`, {});
    assert.ok([400, 404].includes(long.problem.status));
  });
});

describe("bodies", () => {
  const post = (init: RequestInit): Promise<Refused> =>
    refused("/v1/transactions", { method: "POST", ...init });

  it("empty, or none, or not JSON", async () => {
    for (const init of [
      {},
      { headers: JSON_TYPE },
      { headers: JSON_TYPE, body: "" },
      { headers: JSON_TYPE, body: " " },
      { headers: JSON_TYPE, body: "null" },
      { headers: JSON_TYPE, body: "[]" },
      { headers: JSON_TYPE, body: "{}" },
      { headers: JSON_TYPE, body: '{"a":1}{' },
      { headers: JSON_TYPE, body: '{"__proto__": {"id": 1}}' },
      { headers: JSON_TYPE, body: '{"constructor": {"prototype": 1}}' },
    ]) {
      const { problem } = await post(init);
      assert.deepEqual([problem.status, problem.code], [400, "invalid_request"], JSON.stringify(init));
    }
  });

  it("another type", async () => {
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "application/jsonx",
      "nonsense",
      "",
    ]) {
      const { problem } = await post({
        headers: { "content-type": type },
        body: new TextEncoder().encode(oneShot()),
      });
      assert.deepEqual([problem.status, problem.code], [415, "unsupported_media_type"], type);
    }
    const declared = await gateway.send(oneShot(), { "content-type": "Application/JSON; charset=UTF-8" });
    assert.equal(declared.status, 200);
  });

  it("compressed", async () => {
    for (const coding of ["gzip", "deflate", "br", "GZIP"]) {
      const headers = { ...JSON_TYPE, "content-encoding": coding };
      const { problem } = await post({ headers, body: gzipSync(oneShot()) });
      assert.deepEqual([problem.status, problem.code], [415, "unsupported_media_type"], coding);
    }
    assert.equal((await gateway.send(oneShot(), { "content-encoding": "identity" })).status, 200);
  });

  it("bytes in another encoding are refused, and not stored as something else", async () => {
    const latin1 = Buffer.from(oneShot("SELECT $1::text", ["Zürich"]), "latin1");
    const { problem } = await post({
      headers: { ...JSON_TYPE, "content-type": "application/json; charset=latin1" },
      body: latin1,
    });
    assert.deepEqual([problem.code, problem.detail], ["invalid_request", "The body is not UTF-8."]);
    const utf16 = await post({ headers: JSON_TYPE, body: Buffer.from(oneShot(), "utf16le") });
    assert.equal(utf16.problem.status, 400);
    const whole = await gateway.commit({
      statements: [{ sql: "SELECT $1::text", params: ["Zürich \u{1f30a}"] }],
    });
    assert.deepEqual(whole.body.results?.[0]?.rows, [["Zürich \u{1f30a}"]]);
  });
});

describe("bytes on a socket", () => {
  it("headers over the limit, a length that is none, two lengths", async () => {
    const large = await raw(`GET /healthz HTTP/1.1\r\nhost: a\r\nx: ${"y".repeat(20_000)}\r\n\r\n`);
    assert.match(large.head, /^HTTP\/1\.1 400 /);
    assert.match(large.head, /content-type: application\/problem\+json/);
    assert.match(large.problem.detail ?? "", /headers/);
    for (const lengths of ["content-length: x", "content-length: 2\r\ncontent-length: 3"]) {
      const { head, problem } = await raw(
        `POST /v1/transactions HTTP/1.1\r\nhost: a\r\n${lengths}\r\n\r\n{}`,
      );
      assert.match(head, /^HTTP\/1\.1 400 /);
      assert.equal(problem.code, "invalid_request");
    }
  });

  it("an unknown method, and an invalid address", async () => {
    const end = "HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n";
    assert.equal((await raw(`BREW /v1/transactions ${end}`)).problem.status, 400);
    const known = await raw(`PROPFIND /v1/transactions ${end}`);
    assert.deepEqual([known.problem.status, known.problem.code], [405, "method_not_allowed"]);
    assert.equal((await raw(`GET /v1/transactions/%zz ${end}`)).problem.status, 400);
    assert.equal((await raw(`GET * ${end}`)).problem.status, 404);
  });
});
