// Makes an OpenAPI document from operations and the schemas of the wire.
import { type ErrorCode, ERRORS, type TSchema } from "@highwater/protocol";
import { type Operation, type Parameter, type ResponseHeader, type Success } from "./operation.ts";
import { type Json, type Schemas } from "./schemas.ts";

/** A shape of errors other than problem+json. */
export interface ErrorShape {
  readonly statusOf: (code: ErrorCode) => number;
  /** Name of the schema of the body. */
  readonly schema: string;
}

/** A request that the service sends to its users. */
export interface Message {
  readonly name: string;
  readonly tag: string;
  readonly summary: string;
  readonly parameters: readonly Parameter[];
  readonly schema: TSchema;
  /** What an answer with status 2XX, and any other, does. */
  readonly accepted: string;
  readonly refused: string;
}

export interface DocumentOptions {
  readonly info: Json;
  /** Tags with their descriptions, by name. */
  readonly tags: Readonly<Record<string, string>>;
  readonly operations: readonly Operation[];
  readonly messages?: readonly Message[];
  readonly schemas: Schemas;
  readonly securitySchemes: Json;
  readonly errorShapes?: Readonly<Record<string, ErrorShape>>;
}

export function makeOpenApi(options: DocumentOptions): Json {
  const { info, tags, operations, messages = [], schemas, securitySchemes } = options;
  const paths: Record<string, Record<string, Json>> = {};
  const writer = new Writer(options);
  for (const operation of operations)
    (paths[operation.path] ??= {})[operation.method] = writer.describe(operation);
  return {
    openapi: "3.1.0",
    info: { ...info, license: { name: "Apache License 2.0", identifier: "Apache-2.0" } },
    servers: [{ url: "/" }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths,
    ...(messages.length > 0 && {
      webhooks: Object.fromEntries(messages.map((each) => [each.name, { post: messageOf(each, schemas) }])),
    }),
    components: { schemas: schemas.components, securitySchemes },
  };
}

function messageOf(
  { name, tag, summary, parameters, schema, accepted, refused }: Message,
  schemas: Schemas,
): Json {
  return {
    operationId: name,
    tags: [tag],
    summary,
    security: [],
    parameters: parameters.map((each) => ({ ...each, schema: schemas.of(each.schema) })),
    requestBody: { required: true, content: { "application/json": { schema: schemas.of(schema) } } },
    responses: { "2XX": { description: accepted }, default: { description: refused } },
  };
}

class Writer {
  readonly #schemas: Schemas;
  readonly #shapes: Readonly<Record<string, ErrorShape>>;

  constructor({ schemas, errorShapes = {} }: DocumentOptions) {
    this.#schemas = schemas;
    this.#shapes = errorShapes;
  }

  describe(operation: Operation): Json {
    const { id, tag, summary, description, security, parameters, request, examples } = operation;
    return {
      operationId: id,
      tags: [tag],
      summary,
      description,
      security: security.map((scheme) => ({ [scheme]: [] })),
      ...(parameters.length === 0
        ? {}
        : { parameters: parameters.map((parameter) => this.#parameterOf(parameter, operation)) }),
      ...(request === undefined
        ? {}
        : {
            requestBody: {
              required: operation.isRequestOptional !== true,
              content: {
                "application/json": {
                  schema: this.#schemas.of(request),
                  examples: Object.fromEntries(
                    examples.map(({ name, summary: about, body }) => [name, { summary: about, value: body }]),
                  ),
                },
              },
            },
          }),
      responses: { ...this.#successesOf(operation), ...this.#errorsOf(operation) },
    };
  }

  #parameterOf({ schema, ...parameter }: Parameter, { examples }: Operation): Json {
    const values = examples.flatMap(({ name, query }) => {
      const value = parameter.in === "query" ? query?.[parameter.name] : undefined;
      return value === undefined
        ? []
        : [[name, { value: "type" in schema && schema.type === "number" ? Number(value) : value }]];
    });
    return {
      ...parameter,
      schema: this.#schemas.of(schema),
      ...(values.length === 0 ? {} : { examples: Object.fromEntries(values) as unknown }),
    };
  }

  #successesOf({ successes }: Operation): Json {
    return Object.fromEntries(
      Object.entries(successes).map(([status, success]) => [
        status,
        {
          description: success.description,
          ...this.#headersOf(success.headers ?? []),
          ...this.#contentOf(success),
          ...(success.links === undefined ? {} : { links: success.links }),
        },
      ]),
    );
  }

  #contentOf({ schema, example, contentType = "text/plain", otherTypes = [] }: Success): Json {
    if (schema === null) return {};
    const text = { schema: { type: "string" } };
    if (schema === undefined) return { content: { [contentType]: text } };
    const json = { schema: this.#schemas.of(schema), ...(example === undefined ? {} : { example }) };
    const others = Object.fromEntries(otherTypes.map((type) => [type, text]));
    return { content: { "application/json": json, ...others } };
  }

  #headersOf(headers: readonly ResponseHeader[]): Json {
    if (headers.length === 0) return {};
    return {
      headers: Object.fromEntries(
        headers.map(({ name, schema, ...header }) => [name, { ...header, schema: this.#schemas.of(schema) }]),
      ),
    };
  }

  #errorsOf({ errors, errorShape }: Operation): Json {
    const byStatus = new Map<number, Set<ErrorCode>>();
    for (const code of errors) {
      const status = this.#statusOf(code, errorShape);
      byStatus.set(status, (byStatus.get(status) ?? new Set()).add(code));
    }
    return Object.fromEntries(
      [...byStatus].map(([status, codes]) => [
        String(status),
        this.#errorOf(status, [...codes].sort(), errorShape),
      ]),
    );
  }

  #statusOf(code: ErrorCode, shape: string): number {
    return shape === "problem" ? ERRORS[code].status : this.#shapeOf(shape).statusOf(code);
  }

  #shapeOf(name: string): ErrorShape {
    const shape = this.#shapes[name];
    if (shape === undefined) throw new Error(`there is no error shape ${name}`);
    return shape;
  }

  #errorOf(status: number, codes: readonly ErrorCode[], shape: string): Json {
    const waits = codes.some(
      (code) => ERRORS[code].retry === "wait" || ERRORS[code].retry === "resolve_outcome",
    );
    const headers: Json = {
      ...(waits
        ? {
            "Retry-After": {
              description: "Seconds to wait. `retryAfterMs` in the body has milliseconds.",
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
          : {
              "application/json": { schema: { $ref: `#/components/schemas/${this.#shapeOf(shape).schema}` } },
            },
    };
  }
}
