// Attacks with one key that uses up memory, sessions or streams.
import { readFile } from "node:fs/promises";
import { described, newId } from "../caller.ts";
import { type Recipe } from "../recipe.ts";
import { type Target } from "../target.ts";

const MEMORY_MAX_MIB = 1_024;
const STREAMS = 400;

async function residentMib(pid: number): Promise<number> {
  const status = await readFile(`/proc/${String(pid)}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) / 1_024;
}

/** Runs an attack and returns how large the first gateway grew meanwhile. */
async function growth(target: Target, work: Promise<unknown>): Promise<string | null> {
  const { pid } = target.system.gateway(target.system.regions[0] ?? "");
  let highest = 0;
  const timer = setInterval(() => {
    residentMib(pid ?? 0).then(
      (mib) => (highest = Math.max(highest, mib)),
      () => undefined,
    );
  }, 50);
  await work.catch(() => undefined);
  clearInterval(timer);
  return highest < MEMORY_MAX_MIB ? null : `the gateway grew to ${highest.toFixed(0)} MiB`;
}

export const EXHAUSTION: readonly Recipe[] = [
  {
    item: "4",
    title: "eight results of 400 MB at once",
    run: (target) =>
      growth(
        target,
        Promise.all(
          Array.from({ length: 8 }, () =>
            target.reader.read(["SELECT repeat('x', 400000000)"]).catch(() => null),
          ),
        ),
      ),
  },
  {
    item: "4",
    title: "a batch of large results that its client does not read",
    run: async (target) => {
      const stop = new AbortController();
      const url = target.system.gateway(target.system.regions[0] ?? "").url;
      const transactions = Array.from({ length: 256 }, () => ({
        id: newId(),
        readOnly: true,
        statements: [{ sql: "SELECT repeat('x', 60000000)" }],
      }));
      const unread = fetch(`${url}/v1/transactions/batch`, {
        method: "POST",
        headers: { authorization: `Bearer ${target.reader.key}`, "content-type": "application/json" },
        body: JSON.stringify({ transactions }),
        signal: stop.signal,
      }).catch(() => null);
      const hit = await growth(target, new Promise((resolve) => setTimeout(resolve, 20_000)));
      stop.abort();
      await unread;
      return hit;
    },
  },
  {
    item: "6",
    title: "one tenant fills every place with slow transactions",
    run: async (target) => {
      const slow = Array.from({ length: 8 }, () =>
        target.writer
          .send("gateway", "/v1/transactions/batch", {
            transactions: Array.from({ length: 256 }, () => ({
              id: newId(),
              readOnly: true,
              statements: [{ sql: "SELECT pg_sleep(0.5)" }],
            })),
          })
          .catch(() => null),
      );
      await new Promise((resolve) => setTimeout(resolve, 500));
      let hit: string | null = null;
      for (let attempt = 0; attempt < 5 && hit === null; attempt++) {
        const answer = await target.other.run(["SELECT 1"], { ack: "durable", maxWaitMs: 20_000 });
        if (answer.status !== 200) hit = `another tenant is answered ${described(answer)}`;
      }
      await Promise.all(slow);
      return hit;
    },
  },
  {
    item: "6",
    title: "one read key opens streams without end",
    run: async (target) => {
      const stop = new AbortController();
      const url = target.system.tracker(target.system.regions[0] ?? "").url;
      const open = await Promise.all(
        Array.from({ length: STREAMS }, () =>
          fetch(`${url}/v1/durability/stream`, {
            headers: { authorization: `Bearer ${target.reader.key}` },
            signal: stop.signal,
          }).then(
            ({ status }) => status,
            () => 0,
          ),
        ),
      );
      const refused = open.filter((status) => status !== 200).length;
      stop.abort();
      return refused > 0 ? null : `all of ${String(STREAMS)} streams of one key were opened`;
    },
  },
];
