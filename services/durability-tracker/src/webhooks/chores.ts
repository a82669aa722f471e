// The periodic work during an epoch: reads which endpoints want durable transactions, informs
// owners of disabled endpoints, measures the queue, speeds up deliveries that a wrong clock has
// delayed, and removes old deliveries and those of deleted endpoints.
import { type WebhookDisabledData } from "@highwater/protocol";
import { type Clock, sleep } from "@highwater/runtime";
import { type Log } from "@highwater/service";
import { type NewEvent } from "@highwater/store";
import { type ReadExpiryTime } from "../shell/expiry-clock.ts";
import { type Database } from "./database.ts";
import { expireDeliveries, hastenSome, removeSome } from "./deliveries.ts";
import {
  type Census,
  dropDeleted,
  dropOldSecrets,
  type DurableWish,
  markNotified,
  pickDeleted,
  readDurableWishes,
  readUnnotified,
  takeCensus,
} from "./endpoints.ts";
import { type Jobs } from "./jobs.ts";

export interface ChoresDeps {
  readonly database: Database;
  readonly jobs: Jobs;
  readonly clock: Clock;
  readonly log: Log;
  /** Resolves when any tracker has recorded the event. */
  readonly recordEvent: (event: NewEvent) => Promise<void>;
  readonly onWishes: (wishes: readonly DurableWish[]) => void;
  readonly onCensus: (census: Census) => void;
  readonly keepMs: number;
  /** How long a worker's claim on a delivery lasts. */
  readonly claimMs: number;
  readonly readTime: ReadExpiryTime;
}

const WISHES_MS = 1_000;
/** Counted in rounds of WISHES_MS. */
const CENSUS_ROUNDS = 10;
const EXPIRE_ROUNDS = 60;
const EXPIRE_BATCH = 1_000;
const HASTEN_BATCH = 1_000;
/** Per round, so that a large removal does not keep owners of other endpoints waiting. */
const CLEAR_BATCH = 1_000;

export class Chores {
  readonly #deps: ChoresDeps;
  readonly #stopping = new AbortController();
  #wake: () => void = () => undefined;

  constructor(deps: ChoresDeps) {
    this.#deps = deps;
  }

  /** Runs until it is stopped. A chore that fails is repeated in a later round. */
  async run(): Promise<void> {
    const { clock, log } = this.#deps;
    const { signal } = this.#stopping;
    let isFailing = false;
    for (let round = 0; !signal.aborted; round++) {
      try {
        await this.#round(round);
        isFailing = false;
      } catch (cause) {
        if (!isFailing && !signal.aborted) log.warn("webhook_chores_failed", { cause });
        isFailing = true;
      }
      const woken = new AbortController();
      this.#wake = () => {
        woken.abort();
      };
      await sleep(clock, WISHES_MS, AbortSignal.any([signal, woken.signal]));
    }
  }

  /** An endpoint has changed, or an attempt has failed. */
  wake(): void {
    this.#wake();
  }

  stop(): void {
    this.#stopping.abort();
  }

  async #round(round: number): Promise<void> {
    const { database, onCensus, onWishes } = this.#deps;
    onWishes(await readDurableWishes(database));
    await this.#notifyOwners();
    await this.#clearDeleted();
    if (round % CENSUS_ROUNDS === 0) {
      await this.#hasten();
      onCensus(await takeCensus(database));
    }
    if (round % EXPIRE_ROUNDS !== 0) return;
    await this.#expire();
    await dropOldSecrets(database);
  }

  async #hasten(): Promise<void> {
    const { database, jobs, claimMs, log } = this.#deps;
    const hastened = await database.transaction(async (client) => {
      const found = await hastenSome(client, { claimMs, limit: HASTEN_BATCH });
      await jobs.enqueue(
        client,
        found.map(({ job, ...about }) => ({ id: job, ...about, delayMs: 0 })),
      );
      return found.length;
    });
    if (hastened > 0) log.warn("webhooks_hastened", { deliveries: hastened });
  }

  /** Removes the deliveries of deleted endpoints, in small transactions. */
  async #clearDeleted(): Promise<void> {
    const { database, jobs } = this.#deps;
    const clearSome = (limit: number): Promise<number | null> =>
      database.transaction(async (client) => {
        const endpoint = await pickDeleted(client);
        if (endpoint === null) return null;
        const removed = await removeSome(client, jobs, { endpoint, limit });
        if (removed < limit) await dropDeleted(client, endpoint);
        return removed;
      });
    for (let left = CLEAR_BATCH; left > 0 && !this.#stopping.signal.aborted;) {
      const removed = await clearSome(left);
      if (removed === null) return;
      left -= Math.max(1, removed);
    }
  }

  /** Removes all expired deliveries, in batches: a minute may bring too many for one statement. */
  async #expire(): Promise<void> {
    const { database, keepMs, readTime } = this.#deps;
    const timeMs = await readTime();
    if (timeMs === null) return;
    for (let dropped = EXPIRE_BATCH; dropped === EXPIRE_BATCH && !this.#stopping.signal.aborted;)
      dropped = await expireDeliveries(database, timeMs - keepMs, EXPIRE_BATCH);
  }

  /**
   * First records the event, then notes that it was sent. If the tracker dies in between, another
   * tracker repeats it, and the key makes both one event.
   */
  async #notifyOwners(): Promise<void> {
    const { database, log, recordEvent } = this.#deps;
    for (const endpoint of await readUnnotified(database)) {
      const { id, owner, why, failingSince, moment } = endpoint;
      const data: WebhookDisabledData = { endpoint: id, why, failingSince };
      await recordEvent({
        key: `webhook/${id}/${moment}`,
        type: "webhook.disabled",
        owner,
        data: { ...data },
      });
      await markNotified(database, endpoint);
      log.warn("webhook_endpoint_disabled", { endpoint: id, why, failingSince });
    }
  }
}
