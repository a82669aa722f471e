// A subject: the TypeScript SDK, the same without shared requests, or what a program would write by
// hand with `fetch` alone.
// Usage: typescript-process.ts bare|sdk|unshared, with orders on standard input.
import { createInterface } from "node:readline";
import { Bare } from "./bare.ts";
import type { Client } from "./client.ts";
import { type Order, PATHS, type Reply, type ServiceState, type Way } from "./protocol.ts";
import { Sdk } from "./sdk.ts";

const way = process.argv[2] as Way;
const clients = new Map<string, Client>();
let pending: Promise<unknown>[] = [];

function clientOf(url: string): Client {
  let client = clients.get(url);
  if (client === undefined)
    clients.set(url, (client = way === "bare" ? new Bare(url) : new Sdk(url, way === "sdk")));
  return client;
}

/** Of a real gateway's rows, or always the same one of the fixed service. */
const ROWS = 10_000;

async function commit({ url, seconds, concurrency }: Order & { kind: "commit" }): Promise<Reply> {
  const client = clientOf(url);
  let [committed, conflicts] = [0, 0];
  const [startedMs, cpu] = [performance.now(), process.cpuUsage()];
  const untilMs = startedMs + 1_000 * seconds;
  const loop = async (): Promise<void> => {
    while (performance.now() < untilMs) {
      const row = 1 + Math.floor(ROWS * Math.random());
      while (!(await client.commit(row))) conflicts += 1;
      committed += 1;
    }
  };
  await Promise.all(Array.from({ length: concurrency }, loop));
  const elapsedMs = performance.now() - startedMs;
  return { kind: "committed", committed, conflicts, elapsedMs, cpuMs: cpuSince(cpu) };
}

function cpuSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

async function heapBytes(): Promise<number> {
  // Twice, with a turn between: what the first one finalizes is the second one's to free.
  for (let times = 0; times < 2; times++) {
    globalThis.gc?.();
    await new Promise((resolve) => setImmediate(resolve));
  }
  return process.memoryUsage().heapUsed;
}

async function pend({ url, count }: Order & { kind: "pend" }): Promise<Reply> {
  const client = clientOf(url);
  await client.connect();
  const tokens = (await (await fetch(`${url}${PATHS.tokens}?count=${String(count)}`)).json()) as string[];
  const before = await heapBytes();
  // The tokens themselves are not part of it; both ways hold them.
  pending = tokens.map((token) => client.durable(token));
  const after = await heapBytes();
  return { kind: "pending", bytesEach: (after - before) / count };
}

async function settle({ url }: Order & { kind: "settle" }): Promise<Reply> {
  const cpu = process.cpuUsage();
  let doneNs = 0n;
  const done = Promise.all(pending).then(() => {
    doneNs = process.hrtime.bigint();
  });
  const { markedAtNs } = (await (
    await fetch(`${url}${PATHS.mark}`, { method: "POST" })
  ).json()) as ServiceState;
  await done;
  const cpuMs = cpuSince(cpu);
  pending = [];
  return { kind: "settled", elapsedMs: Number(doneNs - BigInt(markedAtNs)) / 1e6, cpuMs };
}

function carryOut(order: Order): Promise<Reply> {
  switch (order.kind) {
    case "commit":
      return commit(order);
    case "pend":
      return pend(order);
    case "settle":
      return settle(order);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const reply = await carryOut(JSON.parse(line) as Order).catch((cause: unknown): Reply => ({
    kind: "failed",
    fault: cause instanceof Error ? (cause.stack ?? cause.message) : String(cause),
  }));
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}
process.exit(0);
