// The OpenAPI document of the gateway, from its operations and the schemas of the wire.
// docs/reference/openapi.json is this.
import { HighwaterError } from "@highwater/protocol";
import { ERROR_OPERATIONS, type Json, makeOpenApi, type Operation } from "@highwater/service";
import { neonError } from "../neon/error.ts";
import { BATCH_OPERATION } from "./batch.ts";
import { SCHEMAS } from "./components.ts";
import { HEALTH_OPERATIONS } from "./health.ts";
import { INTERACTIVE_OPERATIONS } from "./interactive.ts";
import { REPLAY_OPERATION } from "./lost.ts";
import { NEON_OPERATIONS } from "./neon.ts";
import { PEER_OPERATIONS } from "./peers.ts";
import { TICKET_OPERATIONS } from "./tickets.ts";
import { TRANSACTION_OPERATIONS } from "./transactions.ts";

export const OPERATIONS: readonly Operation[] = [
  ...TRANSACTION_OPERATIONS,
  BATCH_OPERATION,
  ...INTERACTIVE_OPERATIONS,
  ...TICKET_OPERATIONS,
  REPLAY_OPERATION,
  ...NEON_OPERATIONS,
  ...PEER_OPERATIONS,
  ...ERROR_OPERATIONS,
  ...HEALTH_OPERATIONS,
];

const TAGS: Readonly<Record<string, string>> = {
  transactions: "Transactions in one request, and the state of a transaction.",
  "interactive transactions": "Transactions in several requests: begin, statements, commit or rollback.",
  tickets: "For transactions that an application commits on its own connection to the primary.",
  lost: "For what a failover discarded; trackers list it.",
  "Neon wire": "For drivers and ORMs that speak Neon's serverless HTTP wire.",
  gateways: "For calls between gateways.",
  errors: "The meaning of each error, and the next step.",
  operation: "For probes and operators. Do not expose these calls to the public.",
};

export function makeDocument(): Json {
  return makeOpenApi({
    info: {
      title: "Highwater transaction gateway",
      version: "1",
      summary: "Runs transactions, and answers at commit or at durability.",
      description:
        "Generated from the schemas in packages/protocol/src; `make gen` writes this document. docs/reference/http.md explains the calls. The ids, tokens and headers of the examples are of the past: put in a UUIDv7 of now, and what the service has answered you.",
    },
    tags: TAGS,
    operations: OPERATIONS,
    schemas: SCHEMAS,
    securitySchemes: {
      bearer: {
        type: "http",
        scheme: "bearer",
        description: "An API key (`hwk_…`) or a JSON Web Token; GATEWAY_AUTH says which are accepted.",
      },
      service: {
        type: "http",
        scheme: "bearer",
        description: "Made from HIGHWATER_INTERNAL_SECRET, which the services of a deployment share.",
      },
      connectionString: {
        type: "apiKey",
        in: "header",
        name: "Neon-Connection-String",
        description: "An API key or JSON Web Token, as the password of a connection string.",
      },
    },
    errorShapes: {
      neon: { statusOf: (code) => neonError(new HighwaterError(code), null).status, schema: "NeonError" },
    },
  });
}
