// Goal: one key cannot exhaust a gateway's memory: neither with large values, nor with answers that it does not read.
// Method: a gateway process of its own over a real primary; the kernel says how much memory it has had at most (VmHWM).
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { type Cluster, startCluster } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { type Problem, type Statement, type TransactionResponse } from "@highwater/protocol";
import { newId } from "../support/fakes.ts";
import { gatewayEnv } from "../support/gateway.ts";

const MAIN = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const GIBIBYTE_KB = 1_048_576;
const LIMIT_MS = 240_000;

let cluster: Cluster;
let child: ChildProcess;
let url: string;

before(async () => {
  cluster = await startCluster({ nodes: [{ id: "a", region: "us-east" }] });
  const nodes = [
    { id: "a", region: "us-east", zone: "z", url: await cluster.connectionString("a") },
  ] as const;
  const env = gatewayEnv("memory", nodes, {
    env: {
      GATEWAY_POOL_SIZE: "4",
      GATEWAY_READ_TIMEOUT_MS: "8000",
      GATEWAY_STATEMENT_TIMEOUT_MS: "180000",
      GATEWAY_TOTAL_TIMEOUT_MS: "200000",
    },
  });
  child = spawn(process.execPath, ["--max-old-space-size=640", "--max-semi-space-size=64", MAIN], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  assert.ok(child.stdout !== null);
  const [line] = (await once(createInterface(child.stdout), "line")) as [string];
  ({ url } = JSON.parse(line) as { url: string });
  await eventually("it is ready", async () => (await fetch(`${url}/readyz`)).status === 200);
  assert.equal((await run([{ sql: "CREATE TABLE kept (id int)" }])).status, 200);
});

after(async () => {
  child.kill("SIGTERM");
  await once(child, "exit");
  await cluster.close();
});

/** At most one GiB so far, whatever came before. */
async function staysSmall(): Promise<void> {
  assert.equal(child.exitCode, null, "the gateway lives");
  const status = await readFile(`/proc/${String(child.pid)}/status`, "utf8");
  const peakKb = Number(/^VmHWM:\s+([0-9]+) kB$/m.exec(status)?.[1]);
  assert.ok(peakKb < GIBIBYTE_KB, `${String(peakKb)} kB at most`);
}

interface Answered {
  readonly status: number;
  readonly body: TransactionResponse & Problem;
}

async function run(statements: readonly Statement[], more: object = {}): Promise<Answered> {
  const response = await post("/v1/transactions", transaction(statements, more));
  return { status: response.status, body: (await response.json()) as Answered["body"] };
}

const transaction = (statements: readonly Statement[], more: object = {}): object => ({
  ...{ id: newId(), statements, isolation: "read committed" },
  ...more,
});

function post(path: string, body: object): Promise<Response> {
  return fetch(`${url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(LIMIT_MS),
  });
}

/** A client that sends a request and reads nothing of the answer. */
function postUnread(path: string, body: object): Socket {
  const text = JSON.stringify(body);
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => undefined);
  socket.pause();
  socket.write(
    `POST ${path} HTTP/1.1\r\nhost: ${hostname}\r\ncontent-type: application/json\r\ncontent-length: ${String(text.length)}\r\n\r\n${text}`,
  );
  return socket;
}

async function heldBytes(): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(/^highwater_gateway_result_memory_bytes(?:\{[^}]*\})? ([0-9.e+]+)$/m.exec(text)?.[1]);
}

const repeated = (count: number): Statement => ({ sql: `SELECT repeat('x', ${String(count)}) AS x` });

describe("a gateway with 1 GiB of memory", () => {
  it("refuses reads of values that are over the limit of results, eight at once", async () => {
    const reads = Array.from({ length: 8 }, () => run([repeated(400_000_000)], { readOnly: true }));
    const answered = await Promise.all(reads);
    const cut = answered.filter(({ status }) => status === 422);
    assert.ok(cut.length >= 4, "as many as there are sessions");
    for (const { body } of cut) {
      assert.equal(body.code, "result_too_large", JSON.stringify(body));
      assert.deepEqual(body.limit, { name: "maxResultBytes", value: 67_108_864 });
    }
    for (const { status, body } of answered)
      assert.ok(status === 422 || body.code === "overloaded", "the others had no session in time");
    await staysSmall();
  });

  it("commits writes whose results are over the limit, and says that they are truncated", async () => {
    const returning = "INSERT INTO kept VALUES (1) RETURNING id, repeat('x', 400000000)";
    const writes = Array.from({ length: 2 }, () => run([{ sql: returning }, { sql: "SELECT 7" }]));
    for (const { status, body } of await Promise.all(writes)) {
      assert.deepEqual([status, body.state], [200, "committed"], JSON.stringify(body).slice(0, 500));
      assert.deepEqual(body.results?.[0]?.rows, []);
      assert.equal(body.results[0]?.truncated, true);
      assert.equal(body.results[0].rowCount, 1);
    }
    const { body } = await run([{ sql: "SELECT count(*) FROM kept" }]);
    assert.deepEqual(body.results?.[0]?.rows, [["2"]]);
    await staysSmall();
  });

  it("sends large results whole to clients that read them", async () => {
    const count = 40_000_000;
    const { status, body } = await run([repeated(count)], { readOnly: true });
    assert.equal(status, 200, JSON.stringify(body).slice(0, 500));
    assert.ok(body.results?.[0]?.rows[0]?.[0] === "x".repeat(count));
    const escaped = await run([{ sql: "SELECT repeat(chr(1) || '\u{1f30a}', 2000000)" }], { readOnly: true });
    assert.ok(escaped.body.results?.[0]?.rows[0]?.[0] === "\u0001\u{1f30a}".repeat(2_000_000));
    await staysSmall();
  });

  it("survives results of very many short values", async () => {
    const columns = Array.from({ length: 400 }, (_, at) => `n AS c${String(at)}`).join(", ");
    const sql = `SELECT ${columns} FROM generate_series(1, 100000) AS n`;
    const reads = Array.from({ length: 4 }, () => run([{ sql }], { readOnly: true }));
    for (const { body } of await Promise.all(reads)) assert.match(body.code, /result_too_large|overloaded/);
    await staysSmall();
  });

  it("cuts errors and notices that are too long", async () => {
    const raise = (level: string): Statement => ({
      sql: `DO $$ BEGIN RAISE ${level} '%', repeat('x', 200000000); END $$`,
    });
    const refused = await run([raise("EXCEPTION")]);
    assert.deepEqual([refused.status, refused.body.code], [422, "statement_failed"]);
    assert.equal(refused.body.sqlstate, "P0001");
    assert.match(refused.body.detail ?? "", /^x{1000,70000}$/);
    assert.equal((await run([raise("NOTICE")])).status, 200);
    await staysSmall();
  });

  it("survives batches whose answers are never read, and cuts their connections off", async () => {
    const batch = { transactions: Array.from({ length: 256 }, () => transaction([repeated(60_000_000)])) };
    const sockets = Array.from({ length: 3 }, () => postUnread("/v1/transactions/batch", batch));
    const closed = sockets.map((socket) => once(socket.resume().pause(), "close"));
    await eventually("some are held", async () => (await heldBytes()) > 100_000_000, LIMIT_MS);
    await eventually("nothing is held", async () => (await heldBytes()) < 1_000_000, LIMIT_MS);
    await staysSmall();
    for (const socket of sockets) socket.destroy();
    await Promise.all(closed);
    const { status } = await run([{ sql: "SELECT 1" }]);
    assert.equal(status, 200, "others go on");
  });

  it("survives calls of interactive transactions whose answers are never read", async () => {
    const transactions = Array.from({ length: 4 }, () => transaction([repeated(50_000_000)]));
    const sockets = transactions.map((begin) => postUnread("/v1/transactions/begin", begin));
    await eventually("some are held", async () => (await heldBytes()) > 100_000_000, LIMIT_MS);
    for (const socket of sockets) socket.destroy();
    await eventually("nothing is held", async () => (await heldBytes()) === 0, LIMIT_MS);
    await staysSmall();
  });
});
