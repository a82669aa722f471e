// What is exposed and how near each limit is, for /metrics.
import { GATEWAY } from "@highwater/service";
import { type Metrics } from "../metrics.ts";
import { type Exposure } from "./exposure.ts";

export function registerExposureGauges(metrics: Pick<Metrics, "read">, exposure: Exposure): void {
  metrics.read(GATEWAY.exposureTransactions, () => [
    { labels: { state: "pending" }, value: exposure.pending },
    { labels: { state: "reserved" }, value: exposure.reserved },
  ]);
  metrics.read(GATEWAY.exposureBytes, () => Number(exposure.bytes));
  metrics.read(GATEWAY.exposureOldest, () => (exposure.oldestMs ?? 0) / 1_000);
  metrics.read(GATEWAY.exposureUsed, () =>
    exposure.samples().map(({ name, used }) => ({ labels: { limit: name }, value: used })),
  );
  metrics.read(GATEWAY.exposureBound, () =>
    exposure.samples().map(({ name, bound }) => ({ labels: { limit: name }, value: bound })),
  );
}
