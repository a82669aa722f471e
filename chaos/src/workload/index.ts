// The workload of a chaos run: several client processes that use the product as applications do and record all that they are
// told, and at the end the settling of everything that is open. Writes the history's scenario, too, since it knows the bank.
import { type FinalState } from "@highwater/checker";
import { type Progress, type Workload, type WorkloadOptions } from "../parts.ts";
import { Clients, places, trackersOf } from "./clients.ts";
import { useApiKey } from "./credential.ts";
import { readFinalState } from "./final-state.ts";
import { Journal } from "./journal.ts";
import { epochsOf } from "./listener.ts";
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
  useApiKey(target.apiKey);
  const journal = new Journal(dir, "workload");
  journal.write({
    ...{ type: "scenario", format: 1, seed, levels, retentionMs: target.retentionMs },
    bank: { accounts: ACCOUNTS, balance: BALANCE },
  });
  await createTables({ endpoints: await target.endpoints(home), level, journal });
  const clients = new Clients(options, await places(options));
  try {
    await clients.start();
  } catch (error) {
    await clients.close();
    throw error;
  }
  return new RunningWorkload(options, journal, clients);
}

class RunningWorkload implements Workload {
  readonly #options: WorkloadOptions;
  readonly #journal: Journal;
  readonly #clients: Clients;

  constructor(options: WorkloadOptions, journal: Journal, clients: Clients) {
    this.#options = options;
    this.#journal = journal;
    this.#clients = clients;
  }

  get progress(): Progress {
    return this.#clients.progress;
  }

  stop(): Promise<void> {
    return this.#clients.stop();
  }

  async settle(primary: string): Promise<FinalState> {
    const { target, dir, levels } = this.#options;
    await this.#clients.finish();
    const recorded = await readRecorded(dir);
    const trackers = trackersOf(target);
    const endpoints = await target.endpoints(target.regions[0] ?? "");
    const settling = { journal: this.#journal, recorded, endpoints, trackers, levels };
    const found = await resolveUnknowns(settling);
    // A client that died may have noted a token before it could write down the answer.
    const tokens = new Map([...found, ...recorded.tokens.values()].map((note) => [note.txn, note]));
    await askFinalVerdicts(settling, [...tokens.values()]);
    const heard = (await Promise.all(trackers.map((tracker) => epochsOf(tracker)))).flat();
    const epochs = new Map([...recorded.epochs, ...heard].map((epoch) => [epoch.id, epoch]));
    const final = await readFinalState(target, primary, [...epochs.values()]);
    this.#journal.write(final);
    return final;
  }

  async close(): Promise<void> {
    await this.#clients.close();
    this.#journal.close();
  }
}
