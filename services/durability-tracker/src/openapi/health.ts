// The calls for operators and probes.
import { healthOperations } from "@highwater/service";
import { SAMPLE } from "./sample.ts";

export const HEALTH_OPERATIONS = healthOperations({
  service: "tracker",
  ready: {
    summary: "It follows an authoritative primary",
    description: "Verdicts are decided, and the service is not shutting down.",
  },
  epoch: SAMPLE.epoch,
  metricsExample: { name: "ask", summary: "Ask" },
});
