// What webhooks count. Labels come from fixed sets: no endpoint, no URL.
import { MetricSet } from "@highwater/service";
import { type Census } from "./endpoints.ts";
import { type Attempt } from "./exchange.ts";

export class WebhookMetrics {
  readonly #set = new MetricSet();
  readonly #attempts = this.#set.counter(
    "highwater_webhook_attempts_total",
    "Attempts of this tracker at deliveries, by outcome.",
  );
  #enqueued = 0;
  #census: Census | null = null;

  constructor() {
    const one = (read: () => number | undefined) => () => {
      const value = read();
      return value === undefined ? [] : [{ labels: {}, value }];
    };
    this.#set.gauge(
      "highwater_webhook_messages_enqueued",
      "Messages that this tracker has enqueued since it started.",
      one(() => this.#enqueued),
    );
    this.#set.gauge("highwater_webhook_endpoints", "Endpoints, by whether they are disabled.", () =>
      this.#census === null
        ? []
        : [
            { labels: { disabled: "no" }, value: this.#census.endpoints - this.#census.disabled },
            { labels: { disabled: "yes" }, value: this.#census.disabled },
          ],
    );
    this.#set.gauge(
      "highwater_webhook_deliveries",
      "Deliveries in the store that have not been delivered, by status.",
      () =>
        this.#census === null
          ? []
          : (["pending", "failed", "held"] as const).map((status) => ({
              labels: { status },
              value: this.#census?.[status] ?? 0,
            })),
    );
  }

  attempted({ outcome }: Attempt): void {
    this.#attempts.add({ outcome });
  }

  enqueued(messages: number): void {
    this.#enqueued += messages;
  }

  counted(census: Census): void {
    this.#census = census;
  }

  render(): string {
    return this.#set.render();
  }
}
