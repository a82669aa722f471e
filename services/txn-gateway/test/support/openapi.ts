// The committed OpenAPI document, and checks of what a gateway answers against it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Compile } from "typebox/schema";

type Json = Readonly<Record<string, unknown>>;

interface MediaType {
  readonly schema: Json;
  readonly example?: unknown;
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>;
}

interface DocumentedResponse {
  readonly headers?: Readonly<Record<string, { readonly required?: boolean; readonly schema: Json }>>;
  readonly content: Readonly<Record<string, MediaType>>;
}

export interface DocumentedOperation {
  readonly operationId: string;
  readonly requestBody?: { readonly content: Readonly<Record<string, MediaType>> };
  readonly responses: Readonly<Record<string, DocumentedResponse>>;
}

export interface OpenApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, DocumentedOperation>>>>;
  readonly components: Json;
}

export const DOCUMENT_FILE = fileURLToPath(
  new URL("../../../../docs/reference/openapi.json", import.meta.url),
);

export function readDocument(): OpenApiDocument {
  return JSON.parse(readFileSync(DOCUMENT_FILE, "utf8")) as OpenApiDocument;
}

/** Fails, with the value, unless it fits a schema of the document. */
export function assertFits(document: OpenApiDocument, schema: Json, value: unknown, what: string): void {
  const validator = Compile({ ...schema, components: document.components });
  if (!validator.Check(value))
    assert.fail(
      `${what}: ${JSON.stringify(validator.Errors(value)).slice(0, 1_000)} in ${JSON.stringify(value)}`,
    );
}

/** Fails unless the document has such an answer to the operation: its status, content type, headers and body. */
export async function assertDocumented(
  document: OpenApiDocument,
  operation: DocumentedOperation,
  response: Response,
): Promise<unknown> {
  const what = `${operation.operationId} ${String(response.status)}`;
  const documented = operation.responses[String(response.status)];
  const text = await response.text();
  assert.ok(documented !== undefined, `${what} is not documented: ${text}`);
  for (const [name, { required = false }] of Object.entries(documented.headers ?? {}))
    if (required) assert.ok(response.headers.has(name), `${what} lacks the header ${name}`);
  const type = (response.headers.get("content-type") ?? "").split(";", 1)[0] ?? "";
  const media = documented.content[type];
  assert.ok(media !== undefined, `${what}: the content type ${type} is not documented`);
  const body: unknown = type.endsWith("/json") || type.endsWith("+json") ? JSON.parse(text) : text;
  assertFits(document, media.schema, body, what);
  return body;
}
