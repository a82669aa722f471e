// Checks a value against one of the schemas and reports every fault at once.
import { type Static, type TSchema } from "typebox";
import { Compile } from "typebox/compile";
import { Settings } from "typebox/system";

export type Validation<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly faults: string[] };

const MAX_FAULTS = 20;
Settings.Set({ maxErrors: MAX_FAULTS }); // The library's own limit is 8.
const compiled = new WeakMap<TSchema, ReturnType<typeof Compile>>();

/** The value, typed, or what is wrong with it: one line per fault, `path: message`. */
export function validate<T extends TSchema>(schema: T, value: unknown): Validation<Static<T>> {
  let check = compiled.get(schema);
  if (check === undefined) {
    check = Compile(schema);
    compiled.set(schema, check);
  }
  if (check.Check(value)) return { ok: true, value: value as Static<T> };
  const faults = [...check.Errors(value)]
    // Each unknown field is a fault of its own as well, with its path.
    .filter((fault) => fault.keyword !== "additionalProperties")
    .slice(0, MAX_FAULTS)
    .map((fault) => {
      const message = fault.keyword === "boolean" ? "is not a known field" : fault.message;
      return `${fault.instancePath === "" ? "/" : fault.instancePath}: ${message}`;
    });
  return { ok: false, faults };
}
