// All client processes of a run: one for each region, and another one in the first region. That one
// is killed from time to time, as applications are, and another process with a new name replaces
// it.
import { setTimeout as pause } from "node:timers/promises";
import { type Endpoint, type Progress, type WorkloadOptions } from "../parts.ts";
import { ClientProcess } from "./client-process.ts";
import { type ClientOptions, type NamedTracker } from "./messages.ts";
import { Random } from "./random.ts";

const CRASH_AFTER_MS = 6_000;
const CRASH_WITHIN_MS = 30_000;

export function trackersOf(target: WorkloadOptions["target"]): NamedTracker[] {
  return Object.entries(target.trackers).map(([name, url]) => ({ name, url }));
}

/**
 * The options of each process. The last process is the one that is killed; every listener also runs
 * in another one.
 */
export async function clientOptionsOf(options: WorkloadOptions): Promise<ClientOptions[]> {
  const { target, seed, dir, levels, rate } = options;
  const { owners = [] } = target;
  const [home = "", ...others] = target.regions;
  const regions = [home, ...others, home];
  const trackers = trackersOf(target);
  return Promise.all(
    regions.map(async (region, ordinal) => ({
      name: `${region}-${String(ordinal + 1)}`,
      ordinal,
      seed,
      dir,
      levels,
      trackers,
      owner: owners[ordinal % owners.length],
      listenAs: owners,
      retentionMs: target.retentionMs,
      keeps: target.keeps === true,
      rate: rate / regions.length,
      endpoints: beginningWith(
        regions.slice(0, ordinal).filter((other) => other === region).length,
        await target.endpoints(region),
      ),
      listenTo: trackers.filter((_, at) => at % (regions.length - 1) === ordinal),
    })),
  );
}

/**
 * Processes of one region begin with different gateways of it. `at`: how many were there before
 * this one.
 */
export function beginningWith(at: number, endpoints: readonly Endpoint[]): Endpoint[] {
  const near = endpoints.filter(({ region }) => region === endpoints[0]?.region);
  const first = at % Math.max(1, near.length);
  return [...near.slice(first), ...near.slice(0, first), ...endpoints.slice(near.length)];
}

export class Clients {
  readonly #options: WorkloadOptions;
  readonly #clientOptions: readonly ClientOptions[];
  readonly #living = new Set<ClientProcess>();
  readonly #dead: Progress[] = [];
  readonly #stopping = new AbortController();
  #crashing: Promise<void> = Promise.resolve();
  #started = 0;

  constructor(options: WorkloadOptions, clients: readonly ClientOptions[]) {
    this.#options = options;
    this.#clientOptions = clients;
  }

  get progress(): Progress {
    const all = [...this.#dead, ...[...this.#living].map((client) => client.progress)];
    const sum = (of: (progress: Progress) => number): number =>
      all.reduce((total, progress) => total + of(progress), 0);
    return {
      invoked: sum(({ invoked }) => invoked),
      committed: sum(({ committed }) => committed),
      unknown: sum(({ unknown }) => unknown),
      lost: sum(({ lost }) => lost),
    };
  }

  async start(): Promise<void> {
    // Waits for all of them, so that none starts after a failure of another.
    const starting = await Promise.allSettled(
      this.#clientOptions.map((clientOptions) => this.#startOne(clientOptions)),
    );
    for (const started of starting) if (started.status === "rejected") throw started.reason;
    const last = [...this.#living].find((client) => client.name === this.#clientOptions.at(-1)?.name);
    if (last === undefined) throw new Error("there are no clients");
    this.#crashing = this.#crashNowAndThen(last);
    // The code that stops the clients gets the error.
    this.#crashing.catch(() => undefined);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#crashing;
    await Promise.all([...this.#living].map((client) => client.stop()));
  }

  async finish(): Promise<void> {
    await Promise.all([...this.#living].map((client) => client.finish()));
  }

  async close(): Promise<void> {
    this.#stopping.abort();
    await this.#crashing.catch(() => undefined);
    await Promise.all([...this.#living].map((client) => client.close()));
  }

  async #startOne(clientOptions: ClientOptions): Promise<ClientProcess> {
    const ordinal = this.#started++;
    const client = await ClientProcess.start({ ...clientOptions, ordinal });
    this.#living.add(client);
    return client;
  }

  async #crashNowAndThen(first: ClientProcess): Promise<void> {
    const { signal } = this.#stopping;
    const clientOptions = this.#clientOptions.at(-1);
    if (clientOptions === undefined) return;
    const random = new Random(`${String(this.#options.seed)}/crashes`);
    let victim = first;
    for (let crashes = 1; ; crashes++) {
      const untilNextMs = CRASH_AFTER_MS + random.below(CRASH_WITHIN_MS);
      await pause(untilNextMs, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return;
      await victim.close();
      this.#living.delete(victim);
      this.#dead.push(victim.progress);
      victim = await this.#startOne({ ...clientOptions, name: `${clientOptions.name}.${String(crashes)}` });
    }
  }
}
