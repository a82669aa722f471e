// The generator's own process: carries out one order of its parent at a time.
import { serveOrders } from "../asked-process.ts";
import { DirectClient } from "./direct-client.ts";
import type { Order, Reply, Target } from "./generator.ts";
import { HttpClient } from "./http-client.ts";
import { runSegment } from "./segment.ts";
import { chooseRow, type Client } from "./workload.ts";

/**
 * Transactions of each client before any clock starts: connections are open then, and statements
 * known to the server.
 */
const FIRST = 2;

let clients: Client[] = [];

async function openOne(target: Target): Promise<Client> {
  return target.kind === "gateway" ? HttpClient.open(target) : DirectClient.open(target);
}

async function open(target: Target, count: number): Promise<number> {
  let committed = 0;
  for (let i = 0; i < count; i++) clients.push(await openOne(target));
  for (let i = 0; i < FIRST; i++) {
    const ended = await Promise.all(clients.map((client) => client.transact(chooseRow())));
    committed += ended.filter((done) => done).length;
  }
  return committed;
}

async function close(): Promise<void> {
  const old = clients;
  clients = [];
  await Promise.all(old.map((client) => client.close()));
}

async function carryOut(order: Order): Promise<Reply> {
  switch (order.kind) {
    case "open":
      return { kind: "opened", committed: await open(order.target, order.clients) };
    case "run":
      return { kind: "ran", segment: await runSegment(clients, order.durationMs) };
    case "close":
      await close();
      return { kind: "closed" };
  }
}

serveOrders(carryOut);
