// `make resume`: measures how soon the service commits after a new primary accepts writes. The
// primary's region is killed and another node promoted; one client writes to the new primary
// directly, another through the gateway beside it.
import { setTimeout as pause } from "node:timers/promises";
import { makeUuidV7 } from "@highwater/protocol";
import { System } from "./index.ts";

const [EAST, WEST] = ["us-east", "us-west"] as const;
const ROUNDS = Number(process.argv[2] ?? 5);
const BAR_MS = 1_000;
const POLL_MS = 5;
const LIMIT_MS = 30_000;

const newId = (): string => makeUuidV7(Date.now(), crypto.getRandomValues(new Uint8Array(10)));

/** When an attempt first succeeded. */
async function firstSuccess(attempt: () => Promise<boolean>): Promise<number> {
  const untilMs = performance.now() + LIMIT_MS;
  while (performance.now() < untilMs) {
    if (await attempt().catch(() => false)) return performance.now();
    await pause(POLL_MS);
  }
  throw new Error(`nothing was committed within ${String(LIMIT_MS)} ms`);
}

async function throughGateway(url: string): Promise<boolean> {
  const response = await fetch(`${url}/v1/transactions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ id: newId(), statements: [{ sql: "INSERT INTO sample VALUES (1)" }] }),
    signal: AbortSignal.timeout(LIMIT_MS),
  });
  await response.text();
  return response.status === 200;
}

async function round(): Promise<number> {
  await using system = await System.start();
  const { cluster } = system;
  await cluster.query(EAST, "CREATE TABLE sample (n int)");
  await cluster.query(EAST, "GRANT ALL ON sample TO app");
  if (!(await throughGateway(system.gateway(WEST).url))) throw new Error("the system does not commit");
  await cluster.waitForStreaming();
  await system.killRegion(EAST);
  const direct = firstSuccess(async () => {
    await cluster.query(WEST, "INSERT INTO sample VALUES (2)");
    return true;
  });
  const service = firstSuccess(() => throughGateway(system.gateway(WEST).url));
  const promoting = cluster.promote(WEST);
  const [directMs, serviceMs] = await Promise.all([direct, service]);
  await promoting;
  return Math.round(serviceMs - directMs);
}

const delays: number[] = [];
for (let n = 0; n < ROUNDS; n++) {
  delays.push(await round());
  console.log(
    `round ${String(n + 1)}: the service commits ${String(delays.at(-1))} ms after its new primary does`,
  );
}
delays.sort((a, b) => a - b);
const result = {
  rounds: ROUNDS,
  median_ms: delays[Math.floor(delays.length / 2)],
  max_ms: delays.at(-1),
  within_1_s: (delays.at(-1) ?? Number.POSITIVE_INFINITY) <= BAR_MS,
};
console.log(JSON.stringify(result));
process.exit(result.within_1_s ? 0 : 1);
