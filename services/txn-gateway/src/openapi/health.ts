// The calls for operators and probes. A proxy must not show them to the public.
import Type from "typebox";
import { Uuid } from "@highwater/protocol";
import { type Operation } from "@highwater/service";

const closed = { additionalProperties: false } as const;
const Health = Type.Object({ status: Type.Literal("ok") }, closed);
const Readiness = Type.Object(
  {
    status: Type.Literal("ready"),
    primary: Type.String({ description: "The node that is the primary." }),
    epoch: Uuid,
  },
  closed,
);

const shared = {
  method: "get",
  tag: "operation",
  security: [],
  parameters: [],
  errorShape: "problem",
} as const;

export const HEALTH_OPERATIONS: readonly Operation[] = [
  {
    ...shared,
    path: "/healthz",
    id: "getHealth",
    summary: "The process runs",
    description: "It says nothing of the database.",
    successes: { 200: { description: "It runs.", schema: Health, example: { status: "ok" } } },
    errors: [],
    examples: [{ name: "ask", summary: "Ask", given: "nothing", status: 200 }],
  },
  {
    ...shared,
    path: "/readyz",
    id: "getReadiness",
    summary: "Transactions can commit",
    description: "There is an authoritative primary, and the service is not shutting down.",
    successes: {
      200: {
        description: "Ready.",
        schema: Readiness,
        example: { status: "ready", primary: "a", epoch: "7d0f3b1e-9c1a-4a57-8a3d-5b0f6f2f9d11" },
      },
    },
    errors: ["primary_unavailable", "split_brain", "overloaded"],
    examples: [{ name: "ask", summary: "Ask", given: "nothing", status: 200 }],
  },
  {
    ...shared,
    path: "/metrics",
    id: "getMetrics",
    summary: "Metrics",
    description: "In Prometheus's text format, version 0.0.4.",
    successes: { 200: { description: "All metrics of this gateway." } },
    errors: [],
    examples: [{ name: "scrape", summary: "Scrape", given: "nothing", status: 200 }],
  },
];
