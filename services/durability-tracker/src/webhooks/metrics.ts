// Metrics of webhooks. Labels come from fixed sets and contain no endpoint and no URL.
import { MetricSet, WEBHOOKS } from "@highwater/service";
import { type Census } from "./endpoints.ts";
import { type Attempt } from "./exchange.ts";

const STATUSES = ["pending", "failed", "held"] as const;

export class WebhookMetrics extends MetricSet {
  readonly #attempts = this.counter(WEBHOOKS.attempts);
  readonly #attemptTime = this.histogram(WEBHOOKS.attemptTime);
  readonly #deliveryAge = this.histogram(WEBHOOKS.deliveryAge);
  readonly #enqueued = this.counter(WEBHOOKS.enqueued);
  #census: Census | null = null;

  constructor() {
    super();
    this.read(WEBHOOKS.endpoints, () => {
      if (this.#census === null) return [];
      const { endpoints, disabled } = this.#census;
      return [
        { labels: { disabled: "no" }, value: endpoints - disabled },
        { labels: { disabled: "yes" }, value: disabled },
      ];
    });
    this.read(WEBHOOKS.deliveries, () => {
      const census = this.#census;
      if (census === null) return [];
      return STATUSES.map((status) => ({ labels: { status }, value: census[status] }));
    });
    this.read(WEBHOOKS.oldestPending, () => this.#census && this.#census.oldestPendingMs / 1_000);
  }

  attempted({ outcome, durationMs }: Attempt): void {
    this.#attempts.add(outcome);
    this.#attemptTime.at(outcome).observe(durationMs / 1_000);
  }

  settled(result: "delivered" | "failed" | "held", ageMs: number): void {
    this.#deliveryAge.at(result).observe(ageMs / 1_000);
  }

  enqueued(messages: number): void {
    this.#enqueued.addMany(messages);
  }

  counted(census: Census): void {
    this.#census = census;
  }
}
