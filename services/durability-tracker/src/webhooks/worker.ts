// Takes jobs from the queue and sends their deliveries. All trackers do this at the same time, from
// the same queue.
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
  /** How many exchanges run at once. */
  readonly concurrency: number;
  /**
   * The limit for one endpoint, over all trackers, so that one that hangs does not keep the others
   * waiting.
   */
  readonly concurrencyPerEndpoint: number;
  /** Pause before another look at an empty queue. */
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
  /** A delivery has ended at this age. */
  readonly onSettled: (result: "delivered" | "failed" | "held", ageMs: number) => void;
  /** An endpoint may have been disabled, so its owner has to be informed. */
  readonly onFailure: () => void;
}

/** Time after the limit of an exchange, to record its result. */
export const CLAIM_MARGIN_MS = 5_000;
/** Another worker is sending it: the wait before the next look. */
const BUSY_DELAY_MS = 1_000;

export class Worker {
  readonly #settings: WorkerSettings;
  readonly #deps: WorkerDeps;
  readonly #stopping = new AbortController();
  /** By job: its endpoint. */
  readonly #inFlight = new Map<TakenJob, string>();
  #wake: () => void = () => undefined;

  constructor(settings: WorkerSettings, deps: WorkerDeps) {
    this.#settings = settings;
    this.#deps = deps;
  }

  /** Runs until it is stopped. */
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
      // Fewer jobs than there was room for do not mean an empty queue: the limits of one endpoint
      // or owner may hide others.
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

  /** The jobs of an owner that has reached its share stay in the queue, for any tracker. */
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
      // The job expires, and this or another tracker takes it again.
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
    // A process that was paused may have lost its claim.
    if (clock.monotonicMs() - startedMs > CLAIM_MARGIN_MS || this.#stopping.signal.aborted) return;
    const headers = signatureHeaders(secrets, { id: job.delivery, body }, clock.wallMs());
    const attempt = await exchange({ url, headers, body }, options);
    onAttempt(attempt);
    await this.#note(job, attempt, { failures: failures + 1, type });
  }

  /**
   * Records the attempt, its effect on delivery and endpoint, and the next job in one transaction.
   */
  async #note(
    job: TakenJob,
    attempt: Attempt,
    { failures, type }: { readonly failures: number; readonly type: string },
  ): Promise<void> {
    const { database, jobs, rng, log, onFailure, onSettled } = this.#deps;
    const { delaysMs, disableAfterMs } = this.#settings;
    const isDelivered = attempt.outcome === "delivered";
    // A test is not repeated, because its caller is waiting for the result.
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
      // Another worker has the job now, and will find that the delivery is no longer pending.
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

  /** Handles a job that may not send, or not now. */
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
