// A page for each OpenAPI document: every call with its parameters, body and responses, and every
// schema. Plain Markdown: it needs no program in the reader's browser, and the search finds it.
import { anchorOf, tableOf } from "@highwater/lab-tools/markdown";
import { capital, type SitePage } from "./markdown.ts";

interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly format?: string;
  readonly pattern?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: boolean | Schema;
  readonly required?: readonly string[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
}

interface Media {
  readonly schema?: Schema;
  readonly example?: unknown;
  readonly examples?: Readonly<Record<string, { readonly summary?: string; readonly value: unknown }>>;
}
type Content = Readonly<Record<string, Media>>;

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly description?: string;
  readonly schema?: Schema;
}

interface Operation {
  readonly tags?: readonly string[];
  readonly summary?: string;
  readonly description?: string;
  readonly security?: readonly unknown[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly description?: string; readonly content?: Content }>>;
}

export interface OpenApi {
  readonly info: { readonly title: string };
  readonly tags?: readonly { readonly name: string; readonly description?: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly webhooks?: OpenApi["paths"];
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

const METHODS = ["get", "post", "put", "patch", "delete"];
/** Inner objects deeper than that are in the document alone. */
const DEPTH = 4;

export function apiPage(document: OpenApi, address: string, file: string): SitePage {
  const { info, tags = [], paths, webhooks = {}, components } = document;
  const calls = [paths, webhooks].flatMap((all) =>
    Object.entries(all).flatMap(([path, operations]) =>
      METHODS.flatMap((method) => {
        const operation = operations[method];
        if (operation === undefined) return [];
        return [{ name: all === webhooks ? path : `${method.toUpperCase()} ${path}`, operation }];
      }),
    ),
  );
  const groups = tags.map(({ name, description = "" }) => {
    const own = calls.filter(({ operation }) => operation.tags?.[0] === name);
    return [`## ${capital(name)}`, description, ...own.map((call) => callOf(call.name, call.operation))];
  });
  const untagged = calls.filter(({ operation }) => !tags.some(({ name }) => name === operation.tags?.[0]));
  if (untagged.length > 0) throw new Error(`no tag: ${untagged.map(({ name }) => name).join(", ")}`);
  const schemas = Object.entries(components.schemas).map(([name, schema]) => schemaOf(name, schema));
  const body = [
    `From [the OpenAPI document](${file}). [HTTP](/reference/http/) explains the calls, and [errors](/reference/errors/) the error responses.`,
    ...groups.flat(),
    "## Schemas",
    ...schemas,
  ];
  return { address, title: info.title, body: `${body.filter((part) => part !== "").join("\n\n")}\n` };
}

function callOf(name: string, operation: Operation): string {
  const { summary = "", description = "", security = [], parameters = [], requestBody } = operation;
  const parts = [`### \`${name}\``, `**${summary}**`, description];
  if (security.length > 0) parts.push("Needs a credential: `Authorization: Bearer …`.");
  if (parameters.length > 0)
    parts.push(
      table(
        ["parameter", "in", "type", "meaning"],
        parameters.map(({ name: own, in: where, required = false, schema = {}, description: text }) => [
          `\`${own}\`${required ? " (required)" : ""}`,
          where,
          typeOf(schema),
          text ?? schema.description ?? "",
        ]),
      ),
    );
  for (const [kind, media] of Object.entries(requestBody?.content ?? {}))
    parts.push(`Body, \`${kind}\`: ${typeOf(media.schema ?? {})}`, ...examplesOf(media));
  const responses = Object.entries(operation.responses).map(
    ([status, { description: text = "", content = {} }]) => {
      const types = Object.entries(content).map(
        ([kind, media]) => typeOf(media.schema ?? {}) || `\`${kind}\``,
      );
      return [`\`${status}\``, types.join(", "), text];
    },
  );
  parts.push(table(["status", "content", "meaning"], responses));
  const [first] = Object.entries(operation.responses).filter(([status]) => status.startsWith("2"));
  const shown = Object.values(first?.[1].content ?? {}).flatMap(examplesOf);
  if (shown.length > 0) parts.push(`A response ${first?.[0] ?? ""}:`, ...shown);
  return parts.filter((part) => part !== "").join("\n\n");
}

/** The first one: the document has the others. */
function examplesOf({ example, examples = {} }: Media): string[] {
  const [named] = Object.values(examples);
  const value = named === undefined ? example : named.value;
  if (typeof value !== "object" || value === null) return [];
  return [`\`\`\`json\n${JSON.stringify(value, null, 2)}\n\`\`\``];
}

function schemaOf(name: string, schema: Schema): string {
  const rows = rowsOf(schema, "", 0);
  const parts = [`### ${name}`, schema.description ?? ""];
  if (rows.length === 0) parts.push(typeOf(schema));
  else parts.push(table(["field", "type", "meaning"], rows));
  return parts.filter((part) => part !== "").join("\n\n");
}

/** A row for each field, and for those of inner objects. */
function rowsOf(schema: Schema, path: string, depth: number): string[][] {
  if (depth > DEPTH) return [];
  const required = new Set(schema.required ?? []);
  const own = Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
    const at = path === "" ? name : `${path}.${name}`;
    const meaning = [
      field.description ?? "",
      ...(field.default === undefined ? [] : [`Default: ${code(field.default)}.`]),
    ];
    return [
      [`\`${at}\`${required.has(name) ? " (required)" : ""}`, typeOf(field), meaning.join(" ").trim()],
      ...rowsOf(field, at, depth + 1),
    ];
  });
  const items = schema.items === undefined ? [] : rowsOf(schema.items, `${path}[]`, depth + 1);
  const alternatives = [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])];
  return [...own, ...items, ...alternatives.flatMap((one) => rowsOf(one, path, depth + 1))];
}

/** In words and links. */
function typeOf(schema: Schema): string {
  if (schema.$ref !== undefined) {
    const name = schema.$ref.split("/").at(-1) ?? "";
    return `[${name}](#${anchorOf(name)})`;
  }
  if (schema.const !== undefined) return code(schema.const);
  if (schema.enum !== undefined) return schema.enum.map(code).join(", ");
  const alternatives = schema.anyOf ?? schema.oneOf ?? schema.allOf;
  if (alternatives !== undefined) return [...new Set(alternatives.map(typeOf))].join(" or ");
  if (schema.items !== undefined)
    return `array of ${typeOf(schema.items) || "any"}${bounds(schema.minItems, schema.maxItems)}`;
  const values = [schema.additionalProperties, ...Object.values(schema.patternProperties ?? {})].find(
    (one) => typeof one === "object",
  );
  if (typeof values === "object") return `object of ${typeOf(values) || "any"}`;
  const kind = typeof schema.type === "string" ? schema.type : (schema.type ?? []).join(" or ");
  const bound = bounds(schema.minimum ?? schema.minLength, schema.maximum ?? schema.maxLength);
  const format = schema.pattern === undefined ? (schema.format ?? "") : code(schema.pattern);
  return [kind + bound, format].filter((part) => part !== "").join(", ");
}

function bounds(least?: number, most?: number): string {
  if (least === undefined && most === undefined) return "";
  if (most === undefined) return `, at least ${String(least)}`;
  return least === undefined ? `, at most ${String(most)}` : `, ${String(least)} to ${String(most)}`;
}

const code = (value: unknown): string => `\`${typeof value === "string" ? value : JSON.stringify(value)}\``;

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return tableOf(
    head,
    rows.map((cells) => cells.map((cell) => cell.replaceAll(/\s*\n\s*/g, " "))),
  );
}
