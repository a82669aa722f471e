// The queue in the store: pg-boss, in its own schema, on the connections of one epoch. A job is one
// attempt. The delivery that it names has the message and the time of the next attempt.
import { randomUUID } from "node:crypto";
import { PgBoss } from "pg-boss";
import { type Database, type Executor } from "./database.ts";

const JOBS_SCHEMA = "highwater_jobs";
const QUEUE = "webhooks";
/** How long a job waits if there is no worker. */
const KEEP_WAITING_SECONDS = 3_650 * 86_400;
/** A worker that dies with a job must not make the delivery fail. */
const TAKEOVERS_MAX = 1_000_000;
/** The largest interval that the library allows, for its timers that we do not use. */
const RARELY_SECONDS = 3_600;

export interface NewJob {
  readonly id: string;
  readonly delivery: string;
  readonly endpoint: string;
  readonly delayMs: number;
}

/** A job that this process has taken. No other process gets it before it expires. */
export interface TakenJob {
  readonly id: string;
  readonly retryCount: number;
  readonly delivery: string;
  readonly endpoint: string;
}

export interface JobsOptions {
  /** After this time a job that was taken and not completed is given to another worker. */
  readonly expireSeconds: number;
  /**
   * How often expired jobs are looked for. Completed jobs are removed then, too, all in one
   * statement, so there must not be many.
   */
  readonly superviseSeconds: number;
  readonly onError: (cause: unknown) => void;
}

interface JobData {
  readonly delivery: string;
  readonly endpoint: string;
}

export const newJobId = (): string => randomUUID();

export class Jobs {
  readonly #boss: PgBoss;

  private constructor(boss: PgBoss) {
    this.#boss = boss;
  }

  /**
   * Makes or upgrades the queue's tables. The library does it under a lock, so two trackers may do
   * it at once.
   */
  static async open(database: Database, options: JobsOptions): Promise<Jobs> {
    const { expireSeconds, superviseSeconds, onError } = options;
    const boss = new PgBoss({
      db: database,
      schema: JOBS_SCHEMA,
      schedule: false,
      superviseIntervalSeconds: superviseSeconds,
      monitorIntervalSeconds: superviseSeconds,
      // The library's default is once a day.
      maintenanceIntervalSeconds: superviseSeconds,
      flowIntervalSeconds: RARELY_SECONDS,
      queueCacheIntervalSeconds: RARELY_SECONDS,
    });
    boss.on("error", onError);
    try {
      await boss.start();
      const settings = {
        expireInSeconds: expireSeconds,
        retentionSeconds: KEEP_WAITING_SECONDS,
        deleteAfterSeconds: superviseSeconds,
        retryLimit: TAKEOVERS_MAX,
        retryDelay: 0,
      };
      await boss.createQueue(QUEUE, settings);
      await boss.updateQueue(QUEUE, settings);
    } catch (cause) {
      await stop(boss);
      throw cause;
    }
    return new Jobs(boss);
  }

  /** Enqueues in the caller's transaction. */
  async enqueue(client: Executor, jobs: readonly NewJob[]): Promise<void> {
    if (jobs.length === 0) return;
    await this.#boss.insert(
      QUEUE,
      jobs.map(({ id, delivery, endpoint, delayMs }) => ({
        id,
        data: { delivery, endpoint } satisfies JobData,
        group: { id: endpoint },
        startAfter: delayMs / 1_000,
      })),
      { db: within(client) },
    );
  }

  /**
   * Takes jobs, oldest first. All trackers together take at most `perEndpoint` of one endpoint at a
   * time, and none of those in `except`.
   */
  async take(limit: number, perEndpoint: number, except: readonly string[]): Promise<TakenJob[]> {
    const options = { batchSize: limit, groupConcurrency: perEndpoint, ignoreGroups: [...except] };
    const jobs = await this.#boss.fetch<JobData>(QUEUE, options);
    return jobs.map(({ id, retryCount, data }) => ({ id, retryCount, ...data }));
  }

  /** Completes it in the caller's transaction. False: it has expired and another worker has it. */
  async complete(client: Executor, { id, retryCount }: TakenJob): Promise<boolean> {
    const answer: unknown = await this.#boss.complete(QUEUE, { id, retryCount }, null, {
      db: within(client),
    });
    return (answer as { affected: number }).affected === 1;
  }

  /** Removes them in the caller's transaction. */
  async remove(client: Executor, ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#boss.deleteJob(QUEUE, [...ids], { db: within(client) });
  }

  async close(): Promise<void> {
    await stop(this.#boss);
  }
}

function within(client: Executor): {
  executeSql: (text: string, values?: unknown[]) => Promise<{ rows: unknown[] }>;
} {
  return { executeSql: (text, values) => client.query(text, values) };
}

async function stop(boss: PgBoss): Promise<void> {
  await boss.stop({ close: false, graceful: false }).catch(() => undefined);
}
