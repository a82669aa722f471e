// The calls for operators and probes. A proxy must not show them to the public.
import Type from "typebox";
import { Uuid } from "@highwater/protocol";
import { type Operation } from "@highwater/service";
import { SAMPLE } from "./sample.ts";

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
const examples = [{ name: "ask", summary: "Ask", given: "nothing", status: 200 }];

export const HEALTH_OPERATIONS: readonly Operation[] = [
  {
    ...{ ...shared, path: "/healthz", id: "getHealth", summary: "The process runs", examples },
    description: "It says nothing of the database.",
    successes: { 200: { description: "It runs.", schema: Health, example: { status: "ok" } } },
    errors: [],
  },
  {
    ...{
      ...shared,
      path: "/readyz",
      id: "getReadiness",
      summary: "It follows an authoritative primary",
      examples,
    },
    description: "Verdicts are decided, and the service is not shutting down.",
    successes: {
      200: {
        description: "Ready.",
        schema: Readiness,
        example: { status: "ready", primary: "a", epoch: SAMPLE.epoch },
      },
    },
    errors: ["primary_unavailable", "split_brain", "overloaded"],
  },
  {
    ...{ ...shared, path: "/metrics", id: "getMetrics", summary: "Metrics", examples },
    description: "In Prometheus's text format, version 0.0.4.",
    successes: { 200: { description: "All metrics of this tracker." } },
    errors: [],
  },
];
