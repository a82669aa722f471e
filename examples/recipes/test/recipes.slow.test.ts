// Goal: behind a gate no reader is shown an order that a failover discards, and without one readers are. Method: each recipe
// with and without its gate, in the region that is lost. Readers ask for the newest orders all the time, while the region's
// links are cut, while it dies and afterwards; at the end what they were shown is compared with the new primary.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import net, { type AddressInfo } from "node:net";
import { pipeline } from "node:stream";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { System } from "@highwater/lab-system";
import { eventually } from "@highwater/lab-tools/process";
import { Highwater, newTransactionId } from "@highwater/sdk";
import { OutputGate } from "@highwater/sdk/gate";
import { buildExpress } from "../express/app.ts";
import { buildFastify } from "../fastify/app.ts";
import { createTable, type Order, placeOrder } from "../orders.ts";
import { handle } from "../worker/worker.ts";
import { buildNext, nextCommand } from "./next.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
const HOST = "127.0.0.1";
const RESPONSES_MIN = 2_000;
/** Readers of each application at a time. */
const READERS = 12;
const GATE_MS = 400;
const CUT_MS = 6_000;
const LIMIT_MS = 600_000;
const PYTHON = fileURLToPath(new URL("../../../.venv/bin/python", import.meta.url));
const path = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));

/** One recipe as it is served, and what its readers were shown. */
class Application {
  readonly name: string;
  readonly isGated: boolean;
  readonly #url: string;
  /** By response with status 200: the ids in it. */
  readonly shown: (readonly string[])[] = [];
  readonly statuses = new Map<number, number>();

  constructor(name: string, isGated: boolean, url: string) {
    this.name = name;
    this.isGated = isGated;
    this.#url = url;
  }

  get responses(): number {
    return [...this.statuses.values()].reduce((sum, each) => sum + each, 0);
  }

  async read(): Promise<number> {
    const response = await fetch(`${this.#url}/orders`);
    const text = await response.text();
    this.statuses.set(response.status, (this.statuses.get(response.status) ?? 0) + 1);
    if (response.status === 200) this.shown.push((JSON.parse(text) as Order[]).map(({ id }) => id));
    // Whatever else it says, an order is not in it.
    else assert.doesNotMatch(text, /"item"/);
    return response.status;
  }

  async readUntil(isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      await this.read().catch(() => pause(50));
      // Leaves the processors to those that have not answered often enough.
      if (this.responses > RESPONSES_MIN) await pause(100);
    }
  }
}

type Served = readonly [url: string, close: () => unknown];

async function listen(serve: (request: IncomingMessage, response: ServerResponse) => void): Promise<Served> {
  const server = createServer(serve).listen(0, HOST);
  await once(server, "listening");
  const close = (): void => {
    server.closeAllConnections();
    server.close();
  };
  return [`http://${HOST}:${String((server.address() as AddressInfo).port)}`, close];
}

/** A recipe that is a program of its own. It says where it listens. */
async function serveProgram(
  [program, ...args]: readonly [string, ...string[]],
  env: NodeJS.ProcessEnv,
): Promise<Served> {
  const child: ChildProcess = spawn(program, args, {
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      ...process.env,
      ...env,
      PYTHONPATH: path("../../../sdk/python/src"),
      PYTHONDONTWRITEBYTECODE: "1",
      NEXT_TELEMETRY_DISABLED: "1",
    },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream?.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const url = (): string | undefined =>
    /(?:running on|Local:) +(http:\/\/127\.0\.0\.1:\d+)/.exec(output)?.[1];
  await eventually(`${program} listens`, () => url() !== undefined || child.exitCode !== null, 60_000);
  assert.ok(url() !== undefined, output);
  return [url() ?? "", () => child.kill("SIGKILL")];
}

/** One address that leads to the first gateway that takes the connection, as an edge is. */
async function anyOf(urls: readonly string[]): Promise<Served> {
  const [first = ""] = urls;
  const server = net.createServer((client) => {
    client.on("error", () => undefined);
    const connect = ([port, ...others]: readonly number[]): void => {
      if (port === undefined) return void client.destroy();
      const next = (): void => {
        connect(others);
      };
      const backend = net.connect(port, HOST, () => {
        backend.off("error", next);
        pipeline(client, backend, client, () => undefined);
      });
      backend.once("error", next);
    };
    connect(urls.map((url) => Number(new URL(url).port)));
  });
  server.listen(0, HOST);
  await once(server, "listening");
  const url = new URL(first);
  url.port = String((server.address() as AddressInfo).port);
  return [url.href, () => server.close()];
}

test("behind a gate no reader is shown an order that is lost", async () => {
  await buildNext();
  await using system = await System.start();
  const { cluster } = system;
  await using ends = new AsyncDisposableStack();
  const endpoints = await system.endpoints(EAST);
  const client = (): Highwater => ends.use(new Highwater({ endpoints }));
  const writer = client();
  await createTable(writer);

  const [DATABASE_URL, closeEdge] = await anyOf([EAST, WEST].map((region) => system.pgUrl(region)));
  ends.defer(async () => void (await closeEdge()));
  const applications: Application[] = [];
  for (const isGated of [false, true]) {
    const add = (name: string, [url, close]: Served): void => {
      ends.defer(async () => void (await close()));
      applications.push(new Application(name, isGated, url));
    };
    const gated = (hw: Highwater): OutputGate | undefined =>
      isGated ? new OutputGate(hw, { timeoutMs: GATE_MS }) : undefined;
    const [forExpress, forFastify] = [client(), client()];
    add("express", await listen(buildExpress(forExpress, gated(forExpress))));
    const fastify = await buildFastify(forFastify, gated(forFastify));
    add("fastify", [
      await fastify.listen({ port: 0, host: HOST }),
      () => fastify.server.closeAllConnections(),
    ]);
    ends.defer(() => fastify.close());
    const GATE = isGated ? String(GATE_MS / 1_000) : "";
    const uvicorn = ["-m", "uvicorn", "--app-dir", path("../fastapi"), "--port", "0", "main:app"];
    const addresses = {
      GATEWAYS: endpoints.map(({ gateway }) => gateway).join(","),
      TRACKERS: endpoints.map(({ tracker }) => tracker).join(","),
    };
    add("fastapi", await serveProgram([PYTHON, ...uvicorn], { ...addresses, GATE }));
    add("next", await serveProgram(nextCommand("start", "-p", "0", "-H", HOST), { ...addresses, GATE }));
    const onWire = { DATABASE_URL, GATE };
    add("django", await serveProgram([PYTHON, path("../django/main.py")], onWire));
    add("prisma", await serveProgram([process.execPath, path("../prisma/main.mjs")], onWire));
  }

  let [isWriting, isOver] = [true, false];
  const writing = (async () => {
    while (isWriting) {
      await placeOrder(writer, "lamp").catch(() => pause(50));
      await pause(20);
    }
  })();
  const reading = applications.flatMap((each) =>
    Array.from({ length: READERS }, () => each.readUntil(() => isOver)),
  );
  await eventually(
    "each shows orders",
    () => applications.every(({ shown }) => shown.length > 100),
    LIMIT_MS,
  );

  // The region's links are cut: it goes on, and what it commits will be lost.
  await Promise.all([WEST, EUROPE].map((region) => cluster.link(EAST, region).cut()));
  await Promise.all([WEST, EUROPE].map((region) => cluster.link(region, EAST).cut()));
  const message = { id: newTransactionId(), item: "by a worker" };
  const ended: string[] = [];
  const deliver = (): Promise<void> =>
    handle(writer, {
      ...message,
      acknowledge: () => ended.push("acknowledged"),
      giveBack: () => ended.push("given back"),
    });
  const first = deliver();
  await pause(CUT_MS);
  assert.deepEqual(ended, []);
  isWriting = false;
  await system.killRegion(EAST);
  await cluster.healAll();
  const primary = await cluster.mostAdvancedReplica();
  await cluster.promote(primary);
  await Promise.all([first, writing]);
  assert.deepEqual(ended, ["given back"]);
  await deliver();
  assert.deepEqual(ended, ["given back", "acknowledged"]);

  const seen = new Map(applications.map((each) => [each, each.shown.length]));
  await eventually(
    () => {
      const counts = applications.map((each) => {
        const since = each.shown.length - (seen.get(each) ?? 0);
        return `${each.name} ${String(each.isGated)}: ${String(since)} of ${String(each.responses)}`;
      });
      return `each shows orders of the new primary, and has answered often enough: ${counts.join(", ")}`;
    },
    () =>
      applications.every(
        (each) => each.responses >= RESPONSES_MIN && each.shown.length > (seen.get(each) ?? 0) + 10,
      ),
    LIMIT_MS,
  );
  isOver = true;
  await Promise.all(reading);

  const rows = await cluster.query(primary, "SELECT id FROM recipe_order");
  const kept = new Set(rows.map(({ id }) => String(id)));
  assert.ok(kept.has(message.id));
  for (const { name, isGated, shown, responses, statuses } of applications) {
    const wrong = shown.filter((ids) => ids.some((id) => !kept.has(id))).length;
    const counts = [...statuses].map(([status, count]) => `${String(count)} of status ${String(status)}`);
    const about = `${name}, ${isGated ? "gated" : "not gated"}: ${String(wrong)} of ${String(responses)} showed what was lost`;
    console.log(`${about} (${counts.join(", ")})`);
    if (isGated) assert.equal(wrong, 0, about);
    else assert.ok(wrong > 0, about);
  }
});
