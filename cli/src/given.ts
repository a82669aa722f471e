// The arguments of a command of this package, as they were given.
import { parseArgs } from "node:util";
import { badInput } from "./refusal.ts";

export interface Option {
  readonly name: string;
  /** The placeholder of its value; a flag has none. */
  readonly value?: string;
  /** It may be repeated. */
  readonly isMany?: true;
  readonly does: string;
}

type Values = Readonly<Record<string, string | boolean | readonly (string | boolean)[] | undefined>>;

export class Given {
  readonly positionals: readonly string[];
  readonly #values: Values;

  constructor(positionals: readonly string[], values: Values) {
    this.positionals = positionals;
    this.#values = values;
  }

  /** Errors: Refusal. */
  static read(args: readonly string[], options: readonly Option[]): Given {
    const config = options.map(({ name, value, isMany }) => [
      name,
      { type: value === undefined ? ("boolean" as const) : ("string" as const), multiple: isMany === true },
    ]);
    try {
      const { values, positionals } = parseArgs({
        args: [...args],
        options: Object.fromEntries(config) as Record<
          string,
          { type: "string" | "boolean"; multiple: boolean }
        >,
        allowPositionals: true,
      });
      return new Given(positionals, values);
    } catch (cause) {
      throw badInput(cause instanceof Error ? cause.message : String(cause));
    }
  }

  flag(name: string): boolean {
    return this.#values[name] === true;
  }

  /** Null: it was not given. */
  text(name: string): string | null {
    const value = this.#values[name];
    return typeof value === "string" ? value : null;
  }

  all(name: string): readonly string[] {
    const value = this.#values[name];
    return Array.isArray(value) ? value.map(String) : [];
  }

  /** Errors: Refusal, if it is not a whole number in the range. */
  whole(
    name: string,
    range: { readonly fallback: number; readonly min: number; readonly max: number },
  ): number {
    const text = this.text(name);
    if (text === null) return range.fallback;
    const value = Number(text);
    if (/^[0-9]+$/.test(text) && value >= range.min && value <= range.max) return value;
    throw badInput(`--${name} must be a whole number from ${String(range.min)} to ${String(range.max)}`);
  }

  /** The only positional argument; null if there is none. Errors: Refusal, if there are more. */
  only(what: string): string | null {
    const [first = null, ...others] = this.positionals;
    if (others.length > 0)
      throw badInput(`only one ${what} can be given, and there are ${String(others.length + 1)}`);
    return first;
  }

  /** Errors: Refusal, if there is a positional argument. */
  none(): void {
    const [first] = this.positionals;
    if (first !== undefined) throw badInput(`unexpected argument: ${first}`);
  }
}
