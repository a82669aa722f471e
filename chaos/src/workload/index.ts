// The workload of a chaos run: several client processes that use the product as applications do and record all that they are
// told, and at the end the settling of everything that is open. Writes the history's scenario, too, since it knows the bank.
import { type FinalState } from "@highwater/checker";
import { type Progress, type Workload, type WorkloadOptions } from "../parts.ts";
import { ClientProcess } from "./client-process.ts";
import { readFinalState } from "./final-state.ts";
import { Journal } from "./journal.ts";
import { epochsOf } from "./listener.ts";
import { type ClientOptions, type NamedTracker } from "./messages.ts";
import { readRecorded } from "./recorded.ts";
import { ACCOUNTS, BALANCE } from "./schema.ts";
import { askFinalVerdicts, resolveUnknowns } from "./settle.ts";
import { createTables } from "./setup.ts";

/** Resolves when the tables are there for good and the clients are at work. */
export async function startWorkload(options: WorkloadOptions): Promise<Workload> {
  const { target, seed, dir, levels } = options;
  const [home] = target.regions;
  const level = levels.at(-1);
  if (home === undefined || level === undefined) throw new Error("a run needs a region and a level");
  const journal = new Journal(dir, "workload");
  journal.write({
    ...{ type: "scenario", format: 1, seed, levels },
    bank: { accounts: ACCOUNTS, balance: BALANCE },
  });
  await createTables({ endpoints: await target.endpoints(home), level, journal });
  const starting = (await clientOptions(options)).map((client) => ClientProcess.start(client));
  const clients = (await Promise.allSettled(starting)).flatMap((client) =>
    client.status === "fulfilled" ? [client.value] : [],
  );
  const workload = new RunningWorkload(options, journal, clients);
  if (clients.length < starting.length) {
    await workload.close();
    await Promise.all(starting);
  }
  return workload;
}

/** One process for each region, and one more in the first. */
async function clientOptions({ target, seed, dir, levels, rate }: WorkloadOptions): Promise<ClientOptions[]> {
  const [home = "", ...others] = target.regions;
  const places = [home, home, ...others];
  const trackers = trackersOf(target);
  return Promise.all(
    places.map(async (region, ordinal) => ({
      ...{ name: `${region}-${String(ordinal + 1)}`, ordinal, seed, dir, levels, trackers },
      rate: rate / places.length,
      endpoints: await target.endpoints(region),
      listenTo: trackers.filter((_, at) => at % places.length === ordinal),
    })),
  );
}

function trackersOf(target: WorkloadOptions["target"]): NamedTracker[] {
  return Object.entries(target.trackers).map(([name, url]) => ({ name, url }));
}

class RunningWorkload implements Workload {
  readonly #options: WorkloadOptions;
  readonly #journal: Journal;
  readonly #clients: readonly ClientProcess[];

  constructor(options: WorkloadOptions, journal: Journal, clients: readonly ClientProcess[]) {
    this.#options = options;
    this.#journal = journal;
    this.#clients = clients;
  }

  get progress(): Progress {
    const sum = (of: (progress: Progress) => number): number =>
      this.#clients.reduce((total, client) => total + of(client.progress), 0);
    return {
      invoked: sum(({ invoked }) => invoked),
      committed: sum(({ committed }) => committed),
      unknown: sum(({ unknown }) => unknown),
      lost: sum(({ lost }) => lost),
    };
  }

  async stop(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.stop()));
  }

  async settle(primary: string): Promise<FinalState> {
    const { target, dir, levels } = this.#options;
    await Promise.all(this.#clients.map((client) => client.finish()));
    const recorded = await readRecorded(dir);
    const trackers = trackersOf(target);
    const endpoints = await target.endpoints(target.regions[0] ?? "");
    const settling = { journal: this.#journal, recorded, endpoints, trackers, levels };
    const found = await resolveUnknowns(settling);
    await askFinalVerdicts(settling, [...recorded.tokens.values(), ...found]);
    const heard = (await Promise.all(trackers.map((tracker) => epochsOf(tracker)))).flat();
    const epochs = new Map([...recorded.epochs, ...heard].map((epoch) => [epoch.id, epoch]));
    const final = await readFinalState(target, primary, [...epochs.values()]);
    this.#journal.write(final);
    return final;
  }

  async close(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.close()));
    this.#journal.close();
  }
}
