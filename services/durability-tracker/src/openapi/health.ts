// The calls for operators and probes.
import { healthOperations } from "@highwater/service";
import { SAMPLE } from "./sample.ts";

export const HEALTH_OPERATIONS = healthOperations({
  service: "tracker",
  ready: {
    summary: "Ask whether the tracker follows an authoritative primary",
    description: "200 while the tracker decides verdicts and is not shutting down.",
  },
  epoch: SAMPLE.epoch,
  metricsExample: { name: "ask", summary: "Ask" },
});
