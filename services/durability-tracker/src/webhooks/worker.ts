// Takes jobs from the queue and sends their deliveries. All trackers do this at once, over the same
// queue.
import { type Clock, sleep } from "@highwater/runtime";
import { type Log } from "@highwater/service";
import { type DeliveryStatus } from "@highwater/protocol";
import { type Database } from "./database.ts";
import * as deliveries from "./deliveries.ts";
import { readSiblings } from "./endpoints.ts";
import { type Attempt, exchange, type ExchangeOptions } from "./exchange.ts";
import { type Jobs, newJobId, type TakenJob } from "./jobs.ts";
import { nextAttempt } from "./schedule.ts";
import { shareOut } from "./shares.ts";
import { signatureHeaders } from "./signature.ts";

export interface WorkerSettings {
  readonly delaysMs: readonly number[];
  readonly disableAfterMs: number;
  /** Exchanges at once. */
  readonly concurrency: number;
  /**
   * The same to one endpoint, by all trackers together: one that hangs shall not keep the others
   * waiting.
   */
  readonly concurrencyPerEndpoint: number;
  /** Pause between two looks at an empty queue. */
  readonly pollMs: number;
}

export interface WorkerDeps {
  readonly database: Database;
  readonly jobs: Jobs;
  readonly exchange: ExchangeOptions;
  readonly clock: Clock;
  readonly rng: () => number;
  readonly log: Log;
  readonly onAttempt: (attempt: Attempt) => void;
  /** A delivery of such an age is over. */
  readonly onSettled: (result: "delivered" | "failed" | "held", ageMs: number) => void;
  /** An endpoint may have been disabled: its owner has to be informed. */
  readonly onFailure: () => void;
}

/** Behind the limit of an exchange: for what is written about it. */
export const CLAIM_MARGIN_MS = 5_000;
/** Somebody is sending it already; not sooner again than that. */
const BUSY_DELAY_MS = 1_000;

export class Worker {
  readonly #settings: WorkerSettings;
  readonly #deps: WorkerDeps;
  readonly #stopping = new AbortController();
  /** The endpoint of each. */
  readonly #inFlight = new Map<TakenJob, string>();
  #wake: () => void = () => undefined;

  constructor(settings: WorkerSettings, deps: WorkerDeps) {
    this.#settings = settings;
    this.#deps = deps;
  }

  /** Ends when it is stopped. */
  async run(): Promise<void> {
    const { signal } = this.#stopping;
    let isFailing = false;
    while (!signal.aborted) {
      const room = this.#settings.concurrency - this.#inFlight.size;
      let taken = 0;
      if (room > 0) {
        try {
          taken = await this.#takeSome(room);
          isFailing = false;
        } catch (cause) {
          if (!isFailing && !signal.aborted) this.#deps.log.warn("webhook_jobs_not_taken", { cause });
          isFailing = true;
        }
      }
      // Less than there was room for is no sign of an empty queue: the jobs of one endpoint or
      // owner may hide another's.
      if (taken === 0) await this.#pause();
    }
  }

  /** Looks at the queue at once. */
  wake(): void {
    this.#wake();
  }

  stop(): void {
    this.#stopping.abort();
    this.#wake();
  }

  /** Those of an owner that has its share stay in the queue, for any tracker. */
  async #takeSome(room: number): Promise<number> {
    const { database, jobs } = this.#deps;
    const endpoints = [...this.#inFlight.values()];
    const ownerOf = endpoints.length === 0 ? new Map() : await readSiblings(database, endpoints);
    const { most, except } = shareOut({ room, endpoints, ownerOf });
    const taken = await jobs.take(most, this.#settings.concurrencyPerEndpoint, except);
    for (const job of taken) void this.#work(job);
    return taken.length;
  }

  async #pause(): Promise<void> {
    const woken = new AbortController();
    this.#wake = () => {
      woken.abort();
    };
    await sleep(this.#deps.clock, this.#settings.pollMs, woken.signal);
  }

  async #work(job: TakenJob): Promise<void> {
    const { log } = this.#deps;
    this.#inFlight.set(job, job.endpoint);
    try {
      await this.#attempt(job);
    } catch (cause) {
      // The job expires and is taken again, here or elsewhere.
      if (!this.#stopping.signal.aborted)
        log.warn("webhook_attempt_not_recorded", { cause, delivery: job.delivery });
    } finally {
      this.#inFlight.delete(job);
      this.#wake();
    }
  }

  async #attempt(job: TakenJob): Promise<void> {
    const { database, clock, exchange: options, onAttempt } = this.#deps;
    const startedMs = clock.monotonicMs();
    const forMs = options.timeoutMs + CLAIM_MARGIN_MS;
    const claimed = await deliveries.claim(database, { delivery: job.delivery, job: job.id, forMs });
    if (claimed === null) {
      await this.#putBack(job);
      return;
    }
    const { url, body, secrets, failures, type } = claimed;
    // A process that was stopped for a while has no right any more to what it had claimed.
    if (clock.monotonicMs() - startedMs > CLAIM_MARGIN_MS || this.#stopping.signal.aborted) return;
    const headers = signatureHeaders(secrets, { id: job.delivery, body }, clock.wallMs());
    const attempt = await exchange({ url, headers, body }, options);
    onAttempt(attempt);
    await this.#note(job, attempt, { failures: failures + 1, type });
  }

  /**
   * The attempt, what it means for the delivery and the endpoint, and the next job, all or nothing.
   */
  async #note(
    job: TakenJob,
    attempt: Attempt,
    { failures, type }: { readonly failures: number; readonly type: string },
  ): Promise<void> {
    const { database, jobs, rng, log, onFailure, onSettled } = this.#deps;
    const { delaysMs, disableAfterMs } = this.#settings;
    const isDelivered = attempt.outcome === "delivered";
    // A test is an answer to somebody who is waiting for it: it is not repeated.
    const delayMs =
      isDelivered || type === "webhook.test"
        ? null
        : nextAttempt({ failures, retryAfterMs: attempt.retryAfterMs, delaysMs, random: rng() });
    let ageMs = 0;
    const status = await database.transaction(async (client) => {
      const isDisabled = await deliveries.noteOutcome(client, job.endpoint, attempt, disableAfterMs);
      const isOurs = await jobs.complete(client, job);
      const about = { delivery: job.delivery, isInTime: isOurs };
      if (!(await deliveries.recordAttempt(client, about, attempt))) return "forgotten";
      // Somebody else has the job by now, and will find a delivery that is not pending.
      if (!isOurs && !isDelivered) return "overtaken";
      const next = delayMs === null || isDisabled ? null : { job: newJobId(), delayMs };
      const becomes = statusAfter({ isDelivered, isTest: type === "webhook.test", isDisabled, next });
      const settlement = { delivery: job.delivery, job: job.id, status: becomes, next };
      const settledAgeMs = await deliveries.settle(client, settlement);
      if (settledAgeMs === null) return "overtaken";
      ageMs = settledAgeMs;
      if (next !== null)
        await jobs.enqueue(client, [
          { id: next.job, delivery: job.delivery, endpoint: job.endpoint, delayMs: next.delayMs },
        ]);
      return becomes;
    });
    if (status === "delivered" || status === "failed" || status === "held") onSettled(status, ageMs);
    if (!isDelivered) onFailure();
    const { outcome, status: answered, durationMs } = attempt;
    const { delivery, endpoint } = job;
    log.info("webhook_sent", { delivery, endpoint, outcome, answered, durationMs, failures, status });
  }

  /** A job that may not send, or not now. */
  async #putBack(job: TakenJob): Promise<void> {
    const { database, jobs } = this.#deps;
    await database.transaction(async (client) => {
      if (!(await jobs.complete(client, job))) return;
      const about = { delivery: job.delivery, job: job.id };
      const decision = await deliveries.decideUnclaimed(client, about);
      if (decision === "hold") await deliveries.hold(client, job.delivery);
      if (decision !== "wait") return;
      const next = { id: newJobId(), delayMs: BUSY_DELAY_MS };
      await deliveries.postpone(client, { ...about, job: next.id, delayMs: next.delayMs });
      await jobs.enqueue(client, [{ ...next, delivery: job.delivery, endpoint: job.endpoint }]);
    });
  }
}

function statusAfter(now: {
  readonly isDelivered: boolean;
  readonly isTest: boolean;
  readonly isDisabled: boolean;
  readonly next: object | null;
}): DeliveryStatus {
  if (now.isDelivered) return "delivered";
  if (now.next !== null) return "pending";
  return now.isDisabled && !now.isTest ? "held" : "failed";
}
