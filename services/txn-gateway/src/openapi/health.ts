// The calls for operators and probes.
import { healthOperations } from "@highwater/service";

export const HEALTH_OPERATIONS = healthOperations({
  service: "gateway",
  ready: {
    summary: "Ask whether transactions can commit",
    description: "200 while the gateway knows an authoritative primary and is not shutting down.",
  },
  epoch: "7d0f3b1e-9c1a-4a57-8a3d-5b0f6f2f9d11",
  metricsExample: { name: "scrape", summary: "Scrape" },
});
