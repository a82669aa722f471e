// The generator's own process: carries out one order of its parent at a time.
import { serveOrders } from "../../asked-process.ts";
import type { Order, Reply } from "./generator.ts";
import type { Worker } from "./job.ts";
import { seeded } from "./random.ts";
import { runLoop } from "./run-group.ts";
import { type GroupStats, Window } from "./window.ts";
import { type Group, openWorkers } from "./worker.ts";

interface Open {
  readonly group: Group;
  readonly workers: readonly Worker[];
  readonly seed: number;
  /** The open window; it counts the steps inside of jobs. */
  window: Window;
}

/** Far apart, so that clients of different groups never start with the same seed. */
const SEEDS_PER_GROUP = 10_000;

let opened: Open[] = [];

async function open({ groups, addresses, seed }: Extract<Order, { kind: "open" }>): Promise<Reply> {
  for (const [at, group] of groups.entries()) {
    const first = seed * groups.length * SEEDS_PER_GROUP + at * SEEDS_PER_GROUP;
    const entry: Open = { group, workers: [], seed: first, window: new Window(0, 0) };
    const note = (kind: string, elapsedMs: number): void => {
      entry.window.done(kind, performance.now(), elapsedMs);
    };
    const workers = await openWorkers(group, addresses, (client) => seeded(first + 1 + client), note);
    opened.push(Object.assign(entry, { workers }));
  }
  return { kind: "opened" };
}

async function run({ warmUpMs, durationMs }: Extract<Order, { kind: "run" }>): Promise<Reply> {
  const fromMs = performance.now() + warmUpMs;
  const untilMs = fromMs + durationMs;
  const groups = await Promise.all(
    opened.map(async (entry): Promise<[string, GroupStats]> => {
      const { group, workers, seed } = entry;
      const window = (entry.window = new Window(fromMs, untilMs));
      const { retries, perSecond } = group;
      const loop = { workers, window, untilMs, retries, perSecond, random: seeded(seed) };
      const committedInAll = await runLoop(loop);
      return [group.name, { kinds: window.stats(), committedInAll }];
    }),
  );
  return { kind: "ran", groups: Object.fromEntries(groups) };
}

async function close(): Promise<Reply> {
  const old = opened;
  opened = [];
  // Clients that share a connection close it more than once.
  await Promise.allSettled(old.flatMap(({ workers }) => workers.map((worker) => worker.close())));
  return { kind: "closed" };
}

serveOrders((order: Order): Promise<Reply> => {
  switch (order.kind) {
    case "open":
      return open(order);
    case "run":
      return run(order);
    case "close":
      return close();
  }
});
