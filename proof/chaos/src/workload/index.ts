// The workload of a chaos run. Several client processes use the product as applications do and
// record everything that they learn; at the end every open transaction is settled. Also writes the
// history's scenario, because it knows the bank.
import { type FinalState } from "@highwater/checker";
import { type Progress, type Workload, type WorkloadOptions } from "../parts.ts";
import { Clients, clientOptionsOf, trackersOf } from "./clients.ts";
import { useApiKey } from "./credential.ts";
import { readFinalState } from "./final-state.ts";
import { Journal } from "./journal.ts";
import { epochsOf } from "./listener.ts";
import { Operator } from "./operator.ts";
import { readRecorded } from "./recorded.ts";
import { ACCOUNTS, BALANCE } from "./schema.ts";
import { askFinalVerdicts, resolveUnknowns } from "./settle.ts";
import { createTables } from "./setup.ts";
import { idIn } from "./tokens.ts";
import { Webhooks } from "./webhooks.ts";

/** Resolves when the tables are safe and the clients work. */
export async function startWorkload(options: WorkloadOptions): Promise<Workload> {
  const { target, seed, dir, levels } = options;
  const [home] = target.regions;
  const level = levels.at(-1);
  if (home === undefined || level === undefined) throw new Error("a run needs a region and a level");
  const [first] = target.owners ?? [];
  useApiKey(first?.apiKey);
  const journal = new Journal(dir, "workload", first?.name);
  journal.write({
    type: "scenario",
    format: 1,
    seed,
    levels,
    retentionMs: target.retentionMs,
    bank: { accounts: ACCOUNTS, balance: BALANCE },
    ...(target.keeps === true && { replays: true }),
  });
  const webhooks = target.owners === undefined ? null : await Webhooks.start(options, journal);
  const operator =
    target.keeps === true
      ? new Operator({
          journal,
          seed,
          levels,
          endpoints: await target.endpoints(home),
          trackers: trackersOf(target),
        })
      : null;
  const clients = new Clients(options, await clientOptionsOf(options));
  try {
    // After the endpoints, so that these are as safe as the tables.
    await createTables({ endpoints: await target.endpoints(home), level, journal });
    await clients.start();
    operator?.start();
  } catch (error) {
    await clients.close();
    await webhooks?.close();
    throw error;
  }
  return new RunningWorkload(options, { journal, clients, webhooks, operator });
}

interface Parts {
  readonly journal: Journal;
  readonly clients: Clients;
  readonly webhooks: Webhooks | null;
  readonly operator: Operator | null;
}

class RunningWorkload implements Workload {
  readonly #options: WorkloadOptions;
  readonly #journal: Journal;
  readonly #clients: Clients;
  readonly #webhooks: Webhooks | null;
  readonly #operator: Operator | null;

  constructor(options: WorkloadOptions, { journal, clients, webhooks, operator }: Parts) {
    this.#options = options;
    this.#journal = journal;
    this.#clients = clients;
    this.#webhooks = webhooks;
    this.#operator = operator;
  }

  get progress(): Progress {
    return this.#clients.progress;
  }

  async stop(): Promise<void> {
    await Promise.all([this.#clients.stop(), this.#operator?.stop()]);
  }

  async settle(primary: string): Promise<FinalState> {
    const { target, dir, levels } = this.#options;
    await this.#webhooks?.behave();
    await this.#clients.finish();
    await this.#operator?.finish();
    const recorded = await readRecorded(dir);
    const trackers = trackersOf(target);
    const endpoints = await target.endpoints(target.regions[0] ?? "");
    const { owners = [] } = target;
    const settling = { journal: this.#journal, recorded, endpoints, trackers, levels, owners };
    const found = await resolveUnknowns(settling);
    // A killed client may have noted a token before it could record the answer.
    const tokens = new Map([...found, ...recorded.tokens.values()].map((note) => [note.txn, note]));
    const lost = await askFinalVerdicts(settling, [...tokens.values()]);
    await this.#webhooks?.settle(
      lost.map(({ txn, token, attempt }) => ({
        txn: idIn(token) ?? txn,
        attempt,
        owner: recorded.invocations.get(txn)?.owner,
      })),
    );
    const reported = (await Promise.all(trackers.map((tracker) => epochsOf(tracker)))).flat();
    const epochs = new Map([...recorded.epochs, ...reported].map((epoch) => [epoch.id, epoch]));
    const final = await readFinalState(target, primary, [...epochs.values()]);
    this.#journal.write(final);
    return final;
  }

  async close(): Promise<void> {
    await Promise.all([this.#clients.close(), this.#operator?.stop()]);
    await this.#webhooks?.close();
    this.#journal.close();
  }
}
