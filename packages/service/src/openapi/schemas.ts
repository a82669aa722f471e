// Turns schemas of the wire into those of a document: each named schema appears once, and others
// refer to it.
import { type TSchema } from "@highwater/protocol";

export type Json = Readonly<Record<string, unknown>>;

/** TypeBox writes the names of a record in this way. */
const ANY_NAME = "^.*$";

export class Schemas {
  /** All named schemas. */
  readonly components: Json;
  /** By the schema without its description, because a use may describe it anew. */
  readonly #names: ReadonlyMap<string, { readonly name: string; readonly description?: unknown }>;

  /**
   * `stricter`: constraints on texts that the service checks outside the schema, so that it can
   * name the fault.
   */
  constructor(named: Readonly<Record<string, TSchema>>, stricter: Readonly<Record<string, Json>> = {}) {
    this.#names = new Map(
      Object.entries(named).map(([name, schema]) => {
        const { description, ...bare } = schema as Json;
        return [JSON.stringify(bare), { name, description }];
      }),
    );
    this.components = Object.fromEntries(
      Object.entries(named).map(([name, schema]) => [
        name,
        // Not `of`, which would make the schema a reference to itself.
        { ...(this.#inDocument(plain(schema)) as Json), ...stricter[name] },
      ]),
    );
  }

  /** A schema as it appears in the document. */
  of(schema: TSchema): unknown {
    return this.#referring(plain(schema));
  }

  #inDocument(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((inner) => this.#referring(inner));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(
      Object.entries(simpler(value as Json)).map(([key, inner]) => [key, this.#referring(inner)]),
    );
  }

  #referring(value: unknown): unknown {
    const { description, ...bare } = (value ?? {}) as Json;
    const known = this.#names.get(JSON.stringify(bare));
    if (known === undefined || (description === undefined && known.description !== undefined))
      return this.#inDocument(value);
    const $ref = `#/components/schemas/${known.name}`;
    return description === known.description ? { $ref } : { $ref, description };
  }
}

function plain(schema: TSchema): unknown {
  return JSON.parse(JSON.stringify(schema));
}

/** The same meaning in the form that readers and client generators expect. */
function simpler(schema: Json): Json {
  const { anyOf, patternProperties, ...rest } = schema;
  if (isLiterals(anyOf)) return { type: "string", enum: anyOf.map((one) => one.const), ...rest };
  const values = (patternProperties as Json | undefined)?.[ANY_NAME];
  if (values !== undefined) return { ...rest, additionalProperties: values };
  return schema;
}

function isLiterals(value: unknown): value is readonly { readonly const: string }[] {
  return (
    Array.isArray(value) &&
    value.every((one: Json) => one["type"] === "string" && typeof one["const"] === "string")
  );
}
