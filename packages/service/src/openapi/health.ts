// Documents the calls for operators and probes. Every service has them. A proxy must not expose
// them to the public.
import Type from "typebox";
import { Uuid } from "@highwater/protocol";
import { type Operation } from "./operation.ts";

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

export interface HealthTexts {
  /** The service's name in a sentence. */
  readonly service: string;
  /** The description of readiness. */
  readonly ready: { readonly summary: string; readonly description: string };
  /** An epoch for the example. */
  readonly epoch: string;
  /** The name of the example of metrics. */
  readonly metricsExample: { readonly name: string; readonly summary: string };
}

export function healthOperations(texts: HealthTexts): readonly Operation[] {
  const { service, ready, epoch, metricsExample } = texts;
  const example = (name: string, summary: string): Operation["examples"] => [
    { name, summary, given: "nothing", status: 200 },
  ];
  return [
    {
      ...shared,
      path: "/healthz",
      id: "getHealth",
      summary: "Ask whether the process runs",
      description: "Does not check the database.",
      successes: { 200: { description: "The process runs.", schema: Health, example: { status: "ok" } } },
      errors: [],
      examples: example("ask", "Ask"),
    },
    {
      ...shared,
      path: "/readyz",
      id: "getReadiness",
      ...ready,
      successes: {
        200: {
          description: "The service is ready.",
          schema: Readiness,
          example: { status: "ready", primary: "a", epoch },
        },
      },
      errors: ["primary_unavailable", "split_brain", "overloaded"],
      examples: example("ask", "Ask"),
    },
    {
      ...shared,
      path: "/metrics",
      id: "getMetrics",
      summary: "Get metrics",
      description: "Returns the metrics in the Prometheus text format, version 0.0.4.",
      successes: { 200: { description: `All metrics of this ${service}.` } },
      errors: [],
      examples: example(metricsExample.name, metricsExample.summary),
    },
  ];
}
