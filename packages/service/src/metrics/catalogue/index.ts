// Every metric of both services; no other can be exposed. docs/reference/metrics.md is generated
// from it.
import { type Metric } from "../definition.ts";
import { GATEWAY } from "./gateway.ts";
import { PROCESS } from "./process.ts";
import { TRACKER, WEBHOOKS } from "./tracker.ts";

export { GATEWAY } from "./gateway.ts";
export { PROCESS } from "./process.ts";
export { TRACKER, WEBHOOKS } from "./tracker.ts";

export const CATALOGUE: readonly { readonly title: string; readonly metrics: readonly Metric[] }[] = [
  { title: "Both services", metrics: Object.values<Metric>(PROCESS) },
  { title: "The gateway", metrics: Object.values<Metric>(GATEWAY) },
  { title: "The tracker", metrics: Object.values<Metric>(TRACKER) },
  { title: "Webhooks, of the tracker", metrics: Object.values<Metric>(WEBHOOKS) },
];
