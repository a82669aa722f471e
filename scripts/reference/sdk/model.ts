// What a reference says of a package, whatever its language: the shape in which both languages'
// readers hand it to the one renderer.

/** A parameter of a function, or a field of a class, of options or of data. */
export interface ParameterDoc {
  readonly name: string;
  readonly type: string;
  /** As it is written in the code; null where there is none. */
  readonly default: string | null;
  readonly doc: string;
}

export interface FunctionEntry {
  readonly name: string;
  readonly kind: "function";
  readonly signature: string;
  readonly params: readonly ParameterDoc[];
  readonly text: string;
  readonly examples: readonly string[];
  /** What can be called on it, where it is more than a function. */
  readonly methods?: readonly FunctionEntry[];
}

export interface ClassEntry {
  readonly name: string;
  /** `options` and `data` are what calls take and give; they have fields, and seldom methods. */
  readonly kind: "class" | "error" | "options" | "data";
  readonly signature: string;
  /** Of the constructor, where users call it. */
  readonly params: readonly ParameterDoc[];
  readonly text: string;
  readonly examples: readonly string[];
  readonly bases: readonly string[];
  readonly fields: readonly ParameterDoc[];
  readonly methods: readonly FunctionEntry[];
}

interface TypeEntry {
  readonly name: string;
  readonly kind: "type" | "value";
  readonly signature: string;
  readonly text: string;
  readonly examples: readonly string[];
}

export type ApiItem = FunctionEntry | ClassEntry | TypeEntry;

export interface Module {
  readonly name: string;
  readonly text: string;
  readonly examples: readonly string[];
  readonly entries: readonly ApiItem[];
}
