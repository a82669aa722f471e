// The tracker's interface to webhooks: follows the epochs, enqueues recorded events, and sends the
// deliveries.
import { type ClientBase } from "pg";
import { type NodeSpec } from "@highwater/protocol";
import { type Clock, sleep } from "@highwater/runtime";
import { type Log } from "@highwater/service";
import { type NewEvent, type FreshEvent } from "@highwater/store";
import { type ReadExpiryTime } from "../shell/expiry-clock.ts";
import { type PrimaryEpoch } from "../events/event-log.ts";
import { type Resolve } from "./address.ts";
import { type Session, WebhookAdmin } from "./admin.ts";
import { Chores } from "./chores.ts";
import { Database, unreachable } from "./database.ts";
import { type DurableWish } from "./endpoints.ts";
import { enqueueEvents } from "./enqueue.ts";
import { Jobs } from "./jobs.ts";
import { passes } from "./message.ts";
import { WebhookMetrics } from "./metrics.ts";
import { type WebhookSettings } from "./settings.ts";
import { CLAIM_MARGIN_MS, Worker } from "./worker.ts";

export type Wants = (owner: bigint, metadata: Readonly<Record<string, string>> | null) => boolean;

export interface WebhooksDeps {
  readonly nodes: readonly NodeSpec[];
  readonly clock: Clock;
  readonly log: Log;
  /** A random number, evenly distributed in [0, 1). */
  readonly random: () => number;
  readonly resolve: Resolve;
  /** The name of this process in the server's list of connections. */
  readonly helper: string;
  readonly connectTimeoutMs: number;
  readonly callTimeoutMs: number;
  /** The primary and its epoch, while there is a current one. */
  readonly primaryEpoch: () => PrimaryEpoch | null;
  /** Resolves when the service's tables exist; otherwise rejects. */
  readonly prepare: (node: string) => Promise<void>;
  /** The time by which old deliveries expire. */
  readonly readTime: ReadExpiryTime;
  /** Resolves when any tracker has recorded the event. */
  readonly recordEvent: (primaryEpoch: PrimaryEpoch, event: NewEvent) => Promise<void>;
  /** Null: no endpoint subscribes to durable transactions. */
  readonly onWants?: (wants: Wants | null) => void;
  /** Trusted certificates besides the system's; for tests. */
  readonly ca?: string;
}

interface Open extends Session {
  readonly primaryEpoch: PrimaryEpoch;
  readonly worker: Worker;
  readonly chores: Chores;
}

/** How often to check whether another epoch has begun. */
const FOLLOW_MS = 1_000;
const REOPEN_MS = 1_000;
const CONNECTIONS = 4;
/** The hook runs inside the recording's transaction. Its jobs exist only after the commit. */
const COMMIT_MS = 25;
const SUPERVISE_SHARE = 4;

export class Webhooks {
  readonly admin: WebhookAdmin;
  readonly metrics = new WebhookMetrics();
  readonly #settings: WebhookSettings;
  readonly #deps: WebhooksDeps;
  readonly #stopping = new AbortController();
  #open: Open | null = null;
  #wishes = "[]";
  #following: Promise<void> | null = null;

  constructor(settings: WebhookSettings, deps: WebhooksDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.admin = new WebhookAdmin({
      clock: deps.clock,
      resolve: deps.resolve,
      allow: settings.webhookAllow,
      endpointsPerOwner: settings.webhookEndpoints,
      session: () => this.#currentSession(),
      onEnqueued: () => {
        this.#open?.worker.wake();
        this.#open?.chores.wake();
      },
    });
  }

  start(): void {
    this.#following ??= this.#follow();
  }

  async close(): Promise<void> {
    this.#stopping.abort();
    await this.#following;
    await this.#end();
  }

  /**
   * Makes the deliveries in the transaction that records the events. Rejects when there are some
   * and the queue is not open yet: the events are then recorded again a little later.
   */
  readonly onRecorded = async (client: ClientBase, events: readonly FreshEvent[]): Promise<void> => {
    const made = await enqueueEvents(client, events, () => this.#session().jobs);
    if (made === 0) return;
    this.metrics.enqueued(made);
    this.#deps.clock.after(COMMIT_MS, () => this.#open?.worker.wake());
  };

  #session(): Open {
    if (this.#open === null) throw unreachable();
    return this.#open;
  }

  /** Refuses an earlier epoch's session: it will be closed soon, which would cut a call. */
  #currentSession(): Session {
    const open = this.#session();
    if (!isSame(open.primaryEpoch, this.#deps.primaryEpoch())) throw unreachable();
    return open;
  }

  async #follow(): Promise<void> {
    const { clock, log, primaryEpoch } = this.#deps;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      const now = primaryEpoch();
      if (this.#open !== null && !isSame(this.#open.primaryEpoch, now)) await this.#end();
      let pauseMs = FOLLOW_MS;
      if (now !== null && this.#open === null) {
        try {
          await this.#begin(now);
        } catch (cause) {
          if (!signal.aborted) log.warn("webhook_queue_not_opened", { cause, node: now.node });
          pauseMs = REOPEN_MS;
        }
      }
      await sleep(clock, pauseMs, signal);
    }
  }

  async #begin(primaryEpoch: PrimaryEpoch): Promise<void> {
    const { nodes, prepare, helper, log, connectTimeoutMs, callTimeoutMs } = this.#deps;
    const node = nodes.find(({ id }) => id === primaryEpoch.node);
    if (node === undefined) throw new Error(`node ${primaryEpoch.node} is not configured`);
    await prepare(node.id);
    const onError = (cause: unknown): void => {
      if (this.#open?.primaryEpoch === primaryEpoch) log.warn("webhook_queue_failed", { cause });
    };
    const database = new Database({
      url: node.url,
      connectTimeoutMs,
      callTimeoutMs,
      connections: CONNECTIONS,
      onError,
      name: `highwater:${helper}:webhooks`,
    });
    try {
      const expireSeconds = this.#settings.webhookExpireS;
      const superviseSeconds = Math.max(1, Math.floor(expireSeconds / SUPERVISE_SHARE));
      const jobs = await Jobs.open(database, { expireSeconds, superviseSeconds, onError });
      this.#open = { primaryEpoch, database, jobs, ...this.#workers(primaryEpoch, { database, jobs }) };
    } catch (cause) {
      database.close();
      throw cause;
    }
    void this.#open.worker.run();
    void this.#open.chores.run();
  }

  #workers(primaryEpoch: PrimaryEpoch, { database, jobs }: Session): Pick<Open, "worker" | "chores"> {
    const { clock, log, random, resolve, readTime, recordEvent, ca } = this.#deps;
    const settings = this.#settings;
    const chores = new Chores({
      database,
      jobs,
      clock,
      log,
      readTime,
      keepMs: settings.webhookKeepMs,
      claimMs: settings.webhookTimeoutMs + CLAIM_MARGIN_MS,
      recordEvent: (event) => recordEvent(primaryEpoch, event),
      onWishes: (wishes) => {
        this.#wish(wishes);
      },
      onCensus: (census) => {
        this.metrics.counted(census);
      },
    });
    const worker = new Worker(
      {
        delaysMs: settings.webhookDelaysMs,
        disableAfterMs: settings.webhookDisableAfterMs,
        concurrency: settings.webhookConcurrency,
        concurrencyPerEndpoint: settings.webhookConcurrencyPerEndpoint,
        pollMs: settings.webhookPollMs,
      },
      {
        database,
        jobs,
        clock,
        log,
        rng: random,
        exchange: {
          clock,
          resolve,
          allow: settings.webhookAllow,
          timeoutMs: settings.webhookTimeoutMs,
          ...(ca !== undefined && { ca }),
        },
        onAttempt: (attempt) => {
          this.metrics.attempted(attempt);
        },
        onSettled: (result, ageMs) => {
          this.metrics.settled(result, ageMs);
        },
        onFailure: () => {
          chores.wake();
        },
      },
    );
    return { worker, chores };
  }

  /** Read every second, and seldom different. */
  #wish(wishes: readonly DurableWish[]): void {
    const text = JSON.stringify(wishes.map(({ owner, filter }) => [String(owner), filter]));
    if (text === this.#wishes) return;
    this.#wishes = text;
    this.#deps.onWants?.(wantsOf(wishes));
  }

  /** Running exchanges end by themselves. Another attempt finds out their results. */
  async #end(): Promise<void> {
    const open = this.#open;
    this.#open = null;
    if (open === null) return;
    open.worker.stop();
    open.chores.stop();
    // Closes the connections first: the library would wait for a server that is dead.
    open.database.close();
    await open.jobs.close();
  }
}

function isSame(a: PrimaryEpoch, b: PrimaryEpoch | null): boolean {
  return b !== null && a.node === b.node && a.epoch === b.epoch;
}

function wantsOf(wishes: readonly DurableWish[]): Wants | null {
  if (wishes.length === 0) return null;
  const byOwner = Map.groupBy(wishes, ({ owner }) => owner);
  return (owner, metadata) =>
    byOwner.get(owner)?.some(({ filter }) => passes(filter, metadata ?? undefined)) === true;
}
