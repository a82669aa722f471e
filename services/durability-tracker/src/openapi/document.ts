// The OpenAPI document of the tracker. docs/reference/tracker-openapi.json is this.
import { ERROR_OPERATIONS, type Json, makeOpenApi, type Operation } from "@highwater/service";
import { DURABILITY_OPERATIONS } from "./durability.ts";
import { HEALTH_OPERATIONS } from "./health.ts";
import { LOST_OPERATIONS } from "./lost.ts";
import { OPERATOR_OPERATIONS } from "./operators.ts";
import { SCHEMAS } from "./schemas.ts";
import { WEBHOOK_MESSAGES, WEBHOOK_OPERATIONS } from "./webhooks.ts";

export const OPERATIONS: readonly Operation[] = [
  ...DURABILITY_OPERATIONS,
  ...LOST_OPERATIONS,
  ...WEBHOOK_OPERATIONS,
  ...OPERATOR_OPERATIONS,
  ...ERROR_OPERATIONS,
  ...HEALTH_OPERATIONS,
];

export function makeDocument(): Json {
  return makeOpenApi({
    info: {
      title: "Highwater durability tracker",
      version: "1",
      summary: "Reports which transactions are durable, and which are lost.",
      description: "Generated from packages/protocol/src; `make gen` writes this document.",
    },
    tags: {
      durability: "Marks, verdicts, events, and what is at risk.",
      lost: "What was lost, and the contents of kept transactions.",
      webhooks: "Endpoints that receive events, and the deliveries to them.",
      operators: "Keys and limits of all owners.",
      gateways: "Calls of gateways.",
      errors: "The meaning of each error, and the next step.",
      operation: "For probes and operators. Do not expose these calls to the public.",
    },
    operations: OPERATIONS,
    messages: WEBHOOK_MESSAGES,
    schemas: SCHEMAS,
    securitySchemes: {
      bearer: {
        type: "http",
        scheme: "bearer",
        description: "An API key (`hwk_…`) or a JSON Web Token; TRACKER_AUTH says which are accepted.",
      },
      service: {
        type: "http",
        scheme: "bearer",
        description: "HIGHWATER_INTERNAL_SECRET, which all gateways and trackers share.",
      },
    },
  });
}
