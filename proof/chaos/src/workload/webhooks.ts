// The owners' endpoints for webhooks. They are made before the first transaction. At the end the
// run waits until each loss is delivered.
import { setTimeout as pause } from "node:timers/promises";
import { type EpochId, type TxnId } from "@highwater/checker";
import { nowMs } from "../clock.ts";
import { type Owner, type WorkloadOptions } from "../parts.ts";
import { authorization } from "./credential.ts";
import { type Journal } from "./journal.ts";
import { Random } from "./random.ts";
import { Receiver } from "./receiver.ts";

/** The endpoints of every owner. Events for all durable transactions would be too many. */
const ASKED = [
  {
    name: "losses",
    events: ["transaction.lost", "promise.broken", "transactions.unlisted", "webhook.disabled"],
    filter: {},
  },
  { name: "durable", events: ["transaction.durable", "promise.broken"], filter: { share: "7" } },
] as const;

const MAKE_LIMIT_MS = 60_000;
const ARRIVE_LIMIT_MS = 60_000;
const CALL_LIMIT_MS = 5_000;
const PAUSE_MS = 200;

interface Endpoint {
  readonly id: string;
  readonly owner: Owner;
  readonly hasLosses: boolean;
}

export interface LostTransaction {
  readonly txn: TxnId;
  readonly attempt: EpochId | null;
  readonly owner: string | undefined;
}

export class Webhooks {
  readonly #options: WorkloadOptions;
  readonly #receiver: Receiver;
  readonly #endpoints: Endpoint[] = [];

  private constructor(options: WorkloadOptions, receiver: Receiver) {
    this.#options = options;
    this.#receiver = receiver;
  }

  /** Resolves when every endpoint exists. From then on the receiver misbehaves. */
  static async start(options: WorkloadOptions, journal: Journal): Promise<Webhooks> {
    const { seed, levels, target } = options;
    const random = new Random(`${String(seed)}/receiver`);
    const receiver = await Receiver.start({ journal, random, levels });
    const webhooks = new Webhooks(options, receiver);
    try {
      for (const owner of target.owners ?? [])
        for (const asked of ASKED) await webhooks.#make(owner, asked, journal);
    } catch (error) {
      await receiver.close();
      throw error;
    }
    receiver.misbehave();
    return webhooks;
  }

  behave(): Promise<void> {
    return this.#receiver.behave();
  }

  /**
   * Waits until every loss is delivered and the queue is empty. If the limit ends the wait, the
   * checker reports what is missing.
   */
  async settle(lost: readonly LostTransaction[]): Promise<void> {
    const untilMs = performance.now() + ARRIVE_LIMIT_MS;
    while (performance.now() < untilMs) {
      if (!lost.some((one) => this.#isAwaited(one)) && (await this.#isIdle())) return;
      await pause(PAUSE_MS);
    }
  }

  close(): Promise<void> {
    return this.#receiver.close();
  }

  #isAwaited({ txn, attempt, owner }: LostTransaction): boolean {
    return this.#endpoints.some(
      (endpoint) =>
        endpoint.hasLosses &&
        endpoint.owner.name === owner &&
        attempt !== null &&
        !this.#receiver.hasTakenLoss(endpoint.id, txn, attempt),
    );
  }

  async #isIdle(): Promise<boolean> {
    for (const { id, owner } of this.#endpoints) {
      const list = await this.#call(owner, "GET", `/${id}/deliveries?status=pending&limit=1`);
      if ((list?.["deliveries"] as readonly unknown[] | undefined)?.length !== 0) return false;
    }
    return true;
  }

  async #make(
    owner: Owner,
    { name, events, filter }: (typeof ASKED)[number],
    journal: Journal,
  ): Promise<void> {
    const untilMs = performance.now() + MAKE_LIMIT_MS;
    for (let attempt = 1; ; attempt++) {
      // A new path, because an unanswered attempt may have made an endpoint.
      const path = `${owner.name}-${name}-${String(attempt)}`;
      const made = await this.#call(owner, "POST", "", { url: this.#receiver.urlOf(path), events, filter });
      if (made !== undefined) {
        const { id, secret } = made as { id: string; secret: string };
        this.#receiver.serve(path, { id, secret });
        journal.write({
          type: "subscription",
          atMs: nowMs(),
          endpoint: id,
          owner: owner.name,
          events,
          filter,
        });
        this.#endpoints.push({ id, owner, hasLosses: name === "losses" });
        return;
      }
      // A tracker opens the queue shortly after it begins to serve.
      if (performance.now() > untilMs)
        throw new Error(`no endpoint for webhooks can be made for ${owner.name}`);
      await pause(PAUSE_MS);
    }
  }

  /** The first answer of any tracker; undefined if none answers. */
  async #call(
    owner: Owner,
    method: "GET" | "POST",
    path: string,
    body?: unknown,
  ): Promise<Readonly<Record<string, unknown>> | undefined> {
    for (const tracker of Object.values(this.#options.target.trackers)) {
      const response = await fetch(`${tracker}/v1/webhooks${path}`, {
        method,
        headers: { "content-type": "application/json", ...authorization(owner.apiKey) },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(CALL_LIMIT_MS),
      }).catch(() => undefined);
      const text = await response?.text().catch(() => undefined);
      if (response === undefined || text === undefined || response.status >= 500) continue;
      if (!response.ok) throw new Error(`${method} /v1/webhooks${path}: ${text}`);
      return JSON.parse(text) as Readonly<Record<string, unknown>>;
    }
    return undefined;
  }
}
