// The OpenAPI document of the gateway, from its operations and the schemas of the wire.
// docs/reference/openapi.json is this.
import { HighwaterError } from "@highwater/protocol";
import { ERROR_OPERATIONS, type Json, makeOpenApi, type Operation } from "@highwater/service";
import { neonError } from "../neon/error.ts";
import { BATCH_OPERATION } from "./batch.ts";
import { SCHEMAS } from "./components.ts";
import { HEALTH_OPERATIONS } from "./health.ts";
import { INTERACTIVE_OPERATIONS } from "./interactive.ts";
import { NEON_OPERATIONS } from "./neon.ts";
import { PEER_OPERATIONS } from "./peers.ts";
import { TICKET_OPERATIONS } from "./tickets.ts";
import { TRANSACTION_OPERATIONS } from "./transactions.ts";

export const OPERATIONS: readonly Operation[] = [
  ...TRANSACTION_OPERATIONS,
  BATCH_OPERATION,
  ...INTERACTIVE_OPERATIONS,
  ...TICKET_OPERATIONS,
  ...NEON_OPERATIONS,
  ...PEER_OPERATIONS,
  ...ERROR_OPERATIONS,
  ...HEALTH_OPERATIONS,
];

const TAGS: Readonly<Record<string, string>> = {
  transactions: "One request, one transaction; and what became of it.",
  "interactive transactions": "Begin, statements, commit or rollback, call by call.",
  tickets: "For transactions that an application commits on its own connection to the primary.",
  "Neon wire": "For drivers and ORMs that are written for Neon's serverless HTTP wire.",
  gateways: "For gateways among each other.",
  errors: "What each error means, and what to do.",
  operation: "For probes and operators. Not to be shown to the public.",
};

export function makeDocument(): Json {
  return makeOpenApi({
    info: {
      title: "Highwater transaction gateway",
      version: "1",
      summary: "Transactions that are answered at commit, and promises of durability.",
      description:
        "Generated from packages/protocol/src/schemas.ts; `make gen` writes it. docs/reference/http.md explains it.",
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
        description: "The same credential, as the password of a connection string.",
      },
    },
    errorShapes: {
      neon: { statusOf: (code) => neonError(new HighwaterError(code), null).status, schema: "NeonError" },
    },
  });
}
