// The OpenAPI document of the gateway, from its operations and the schemas of the wire. docs/reference/openapi.json is this.
import { type ErrorCode, ERRORS, HighwaterError } from "@highwater/protocol";
import { neonError } from "../neon/error.ts";
import { components, type Json, schemaOf } from "./components.ts";
import { HEALTH_OPERATIONS } from "./health.ts";
import { INTERACTIVE_OPERATIONS } from "./interactive.ts";
import { NEON_OPERATIONS } from "./neon.ts";
import { type Operation, type Parameter, type ResponseHeader, type Success } from "./operation.ts";
import { TRANSACTION_OPERATIONS } from "./transactions.ts";

export const OPERATIONS: readonly Operation[] = [
  ...TRANSACTION_OPERATIONS,
  ...INTERACTIVE_OPERATIONS,
  ...NEON_OPERATIONS,
  ...HEALTH_OPERATIONS,
];

const TAGS: Readonly<Record<string, string>> = {
  transactions: "One request, one transaction; and what became of it.",
  "interactive transactions": "Begin, statements, commit or rollback, call by call.",
  "Neon wire": "For drivers and ORMs that are written for Neon's serverless HTTP wire.",
  operation: "For probes and operators. Not to be shown to the public.",
};

export function makeDocument(): Json {
  return {
    openapi: "3.1.0",
    info: {
      title: "Highwater transaction gateway",
      version: "1",
      summary: "Transactions that are answered at commit, and promises of durability.",
      description:
        "Generated from packages/protocol/src/schemas.ts; `make gen` writes it. docs/reference/http.md explains it.",
    },
    servers: [{ url: "/" }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    paths: pathsOf(OPERATIONS),
    components: {
      schemas: components,
      securitySchemes: {
        bearer: {
          type: "http",
          scheme: "bearer",
          description: "An API key (`hwk_…`) or a JSON Web Token; GATEWAY_AUTH says which are accepted.",
        },
        connectionString: {
          type: "apiKey",
          in: "header",
          name: "Neon-Connection-String",
          description: "The same credential, as the password of a connection string.",
        },
      },
    },
  };
}

function pathsOf(operations: readonly Operation[]): Json {
  const paths: Record<string, Record<string, Json>> = {};
  for (const operation of operations) (paths[operation.path] ??= {})[operation.method] = describe(operation);
  return paths;
}

function describe(operation: Operation): Json {
  const { id, tag, summary, description, security, parameters, request, examples } = operation;
  return {
    operationId: id,
    tags: [tag],
    ...{ summary, description },
    security: security.map((scheme) => ({ [scheme]: [] })),
    ...(parameters.length === 0
      ? {}
      : { parameters: parameters.map((parameter) => parameterOf(parameter, operation)) }),
    ...(request === undefined
      ? {}
      : {
          requestBody: {
            required: true,
            content: {
              "application/json": {
                schema: schemaOf(request),
                examples: Object.fromEntries(
                  examples.map(({ name, summary: about, body }) => [name, { summary: about, value: body }]),
                ),
              },
            },
          },
        }),
    responses: { ...successesOf(operation), ...errorsOf(operation) },
  };
}

function parameterOf({ schema, ...parameter }: Parameter, { examples }: Operation): Json {
  const values = examples.flatMap(({ name, query }) => {
    const value = parameter.in === "query" ? query?.[parameter.name] : undefined;
    return value === undefined
      ? []
      : [[name, { value: "type" in schema && schema.type === "number" ? Number(value) : value }]];
  });
  return {
    ...parameter,
    schema: schemaOf(schema),
    ...(values.length === 0 ? {} : { examples: Object.fromEntries(values) as unknown }),
  };
}

function successesOf({ successes }: Operation): Json {
  return Object.fromEntries(
    Object.entries(successes).map(([status, success]) => [
      status,
      {
        description: success.description,
        ...headersOf(success.headers ?? []),
        content: contentOf(success),
        ...(success.links === undefined ? {} : { links: success.links }),
      },
    ]),
  );
}

function contentOf({ schema, example }: Success): Json {
  if (schema === undefined) return { "text/plain": { schema: { type: "string" } } };
  return {
    "application/json": { schema: schemaOf(schema), ...(example === undefined ? {} : { example }) },
  };
}

function headersOf(headers: readonly ResponseHeader[]): Json {
  if (headers.length === 0) return {};
  return {
    headers: Object.fromEntries(
      headers.map(({ name, schema, ...header }) => [name, { ...header, schema: schemaOf(schema) }]),
    ),
  };
}

function errorsOf({ errors, errorShape }: Operation): Json {
  const byStatus = new Map<number, Set<ErrorCode>>();
  for (const code of errors) {
    const status = statusOf(code, errorShape);
    byStatus.set(status, (byStatus.get(status) ?? new Set()).add(code));
  }
  return Object.fromEntries(
    [...byStatus].map(([status, codes]) => [String(status), errorOf(status, [...codes].sort(), errorShape)]),
  );
}

function statusOf(code: ErrorCode, shape: Operation["errorShape"]): number {
  return shape === "problem" ? ERRORS[code].status : neonError(new HighwaterError(code), null).status;
}

function errorOf(status: number, codes: readonly ErrorCode[], shape: Operation["errorShape"]): Json {
  const waits = codes.some(
    (code) => ERRORS[code].retry === "wait" || ERRORS[code].retry === "resolve_outcome",
  );
  const headers: Json = {
    ...(waits
      ? {
          "Retry-After": {
            description: "Seconds. The body has milliseconds.",
            schema: { type: "integer", minimum: 1 },
          },
        }
      : {}),
    ...(status === 401
      ? { "WWW-Authenticate": { required: true, description: "`Bearer`.", schema: { type: "string" } } }
      : {}),
  };
  return {
    description: codes.map((code) => `\`${code}\`: ${ERRORS[code].title}`).join("\n\n"),
    ...(Object.keys(headers).length === 0 ? {} : { headers }),
    content:
      shape === "problem"
        ? {
            "application/problem+json": {
              schema: {
                $ref: "#/components/schemas/Problem",
                properties: { status: { const: status }, code: { enum: codes } },
              },
            },
          }
        : { "application/json": { schema: { $ref: "#/components/schemas/NeonError" } } },
  };
}
