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
  return { ok: false, faults: faultsOf([...check.Errors(value)]).slice(0, MAX_FAULTS) };
}

interface Fault {
  readonly keyword: string;
  readonly instancePath: string;
  readonly message: string;
  readonly params: object;
}

/**
 * What a place may hold is one fault, although each word and each type of the choice failed alone.
 */
function faultsOf(errors: readonly Fault[]): string[] {
  const choices = new Map<string, Choice>();
  for (const { keyword, instancePath, params } of errors) {
    const { allowedValue, type } = params as { allowedValue?: unknown; type?: string };
    const choice = choices.get(instancePath) ?? { words: new Set(), types: new Set() };
    if (keyword === "const") choice.words.add(JSON.stringify(allowedValue));
    else if (keyword === "type" && type !== undefined) choice.types.add(type);
    else continue;
    choices.set(instancePath, choice);
  }
  const faults = errors.flatMap(({ keyword, instancePath, message }) => {
    // Each unknown field is a fault of its own as well, with its path.
    if (keyword === "additionalProperties") return [];
    const choice = /^(?:const|type|anyOf)$/.test(keyword) ? choices.get(instancePath) : undefined;
    const own = keyword === "boolean" ? "is not a known field" : message;
    return [`${instancePath === "" ? "/" : instancePath}: ${choice === undefined ? own : inWords(choice)}`];
  });
  return [...new Set(faults)];
}

/** The words and types that a place may hold. A word of the wrong type has failed as both. */
interface Choice {
  readonly words: Set<string>;
  readonly types: Set<string>;
}

function inWords({ words, types }: Choice): string {
  const listed = [...(words.size > 0 ? words : types)];
  const last = listed.pop() ?? "";
  return `must be ${listed.length === 0 ? last : `${listed.join(", ")} or ${last}`}`;
}
