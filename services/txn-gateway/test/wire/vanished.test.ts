// Goal: a peer that stops reading, or whose host vanishes, keeps neither memory nor a transaction.
// Method: a client that asks for a large result in a transaction and reads nothing; and the
// kernel's own list of connections, which shows when it will ask a silent peer whether it lives.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { after, before, it } from "node:test";
import { eventually } from "@highwater/lab-system/testing";
import { query } from "./client.ts";
import { HOME, WireSystem } from "./system.ts";

const MEBIBYTE = 1_048_576;
/** Of the result, as the server would send it. */
const RESULT_MIB = 500;
const GROWTH_MIB_MAX = 64;
const NO_PROC = existsSync("/proc/net/tcp") ? false : "there is no list of connections to read";

let wire: WireSystem;
before(async () => {
  wire = await WireSystem.start({ GATEWAY_PG_READ_TIMEOUT_MS: "3000" });
});
after(() => wire[Symbol.asyncDispose]());

async function memoryMib(): Promise<number> {
  const { pid } = wire.system.gateway(HOME);
  const status = await readFile(`/proc/${String(pid)}/status`, "utf8");
  return Number(/VmRSS:\s+([0-9]+) kB/.exec(status)?.[1]) / 1_024;
}

async function sessionsOf(name: string): Promise<number> {
  const sql = `SELECT FROM pg_stat_activity WHERE application_name = '${name}'`;
  return (await wire.system.cluster.query(HOME, sql)).length;
}

it(
  "a client that stops reading loses its session, and its transaction is undone",
  { skip: NO_PROC },
  async () => {
    const client = await wire.open({ parameters: { application_name: "stalled" } });
    await client.query("BEGIN");
    await client.query("INSERT INTO kv VALUES ('of the stalled', 1)");
    const beforeMib = await memoryMib();
    client.socket.pause();
    const rows = `SELECT repeat('x', ${String(MEBIBYTE / 4)}) FROM generate_series(1, ${String(4 * RESULT_MIB)})`;
    client.send(query(rows));
    let mostMib = 0;
    await eventually("the session is ended", async () => {
      mostMib = Math.max(mostMib, await memoryMib());
      return (await sessionsOf("stalled")) === 0;
    });
    assert.ok(mostMib - beforeMib < GROWTH_MIB_MAX, `${String(mostMib - beforeMib)} MiB more`);
    const other = await wire.open();
    assert.deepEqual((await other.query("SELECT FROM kv WHERE key = 'of the stalled'")).rows, []);
    other.end();
    client.socket.destroy();
  },
);

it("a client that reads slowly keeps its session", async () => {
  const client = await wire.open();
  client.send(query("SELECT repeat('x', 100000) FROM generate_series(1, 200)"));
  const slow = setInterval(() => {
    client.socket.pause();
    setTimeout(() => client.socket.resume(), 200);
  }, 250);
  const frames = await client.until("Z");
  clearInterval(slow);
  assert.equal(frames.filter(({ type }) => type === "D").length, 200);
  client.socket.resume();
  assert.deepEqual((await client.query("SELECT 1")).rows, [["1"]]);
  client.end();
});

interface Connection {
  readonly local: number;
  readonly remote: number;
  /** Until the kernel asks the silent peer; null: it never does. */
  readonly asksInMs: number | null;
}

/** The connections over IPv4 of this machine. */
async function connections(): Promise<Connection[]> {
  const [, ...lines] = (await readFile("/proc/net/tcp", "utf8")).trimEnd().split("\n");
  return lines.map((line) => {
    const [, local = "", remote = "", , , timer = ""] = line.trim().split(/\s+/);
    const [kind = "", when = ""] = timer.split(":");
    const port = (address: string): number => Number.parseInt(address.split(":")[1] ?? "", 16);
    // The kernel counts in hundredths of a second.
    const asksInMs = kind === "02" ? 10 * Number.parseInt(when, 16) : null;
    return { local: port(local), remote: port(remote), asksInMs };
  });
}

it("the kernel asks both peers of a silent session within ten seconds", { skip: NO_PROC }, async () => {
  const client = await wire.open();
  const [[port] = []] = (await client.query("SELECT inet_client_port()")).rows;
  const gatewayPort = Number(new URL(wire.url).port);
  const legs: readonly ((one: Connection) => boolean)[] = [
    ({ local, remote }) => local === gatewayPort && remote === client.socket.localPort,
    ({ local }) => local === Number(port),
  ];
  for (const [at, isLeg] of legs.entries()) {
    const found = await eventually(`leg ${String(at)} is silent`, async () =>
      (await connections()).find((one) => isLeg(one) && one.asksInMs !== null),
    );
    assert.ok((found.asksInMs ?? 0) <= 11_000, `leg ${String(at)}: ${String(found.asksInMs)} ms`);
  }
  client.end();
});
