// What is exposed and how near each limit is, for /metrics.
import { type Metrics } from "../metrics.ts";
import { type Exposure } from "./exposure.ts";

const PREFIX = "highwater_gateway_exposure";

export function registerExposureGauges(metrics: Pick<Metrics, "gauge">, exposure: Exposure): void {
  metrics.gauge(
    `${PREFIX}_transactions`,
    "Transactions of this gateway that may be lost, by their state.",
    () => [
      { labels: { state: "pending" }, value: exposure.pending },
      { labels: { state: "reserved" }, value: exposure.reserved },
    ],
  );
  metrics.gauge(`${PREFIX}_bytes`, "Of log that is not at the exposure level yet.", () => [
    { labels: {}, value: Number(exposure.bytes) },
  ]);
  metrics.gauge(
    `${PREFIX}_oldest_seconds`,
    "Age of the oldest of the pending ones; 0 when there is none.",
    () => [{ labels: {}, value: (exposure.oldestMs ?? 0) / 1_000 }],
  );
  metrics.gauge(`${PREFIX}_used`, "What each limit counts now; of keys, the one that has the most.", () =>
    exposure.samples().map(({ name, used }) => ({ labels: { limit: name }, value: used })),
  );
  metrics.gauge(`${PREFIX}_bound`, "Where this gateway refuses fast transactions, by limit.", () =>
    exposure.samples().map(({ name, bound }) => ({ labels: { limit: name }, value: bound })),
  );
}
