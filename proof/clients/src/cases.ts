// Collects a client's results. An error is a result, too, with every field that PostgreSQL sends.
import { type Transcript } from "./compare.ts";

/** Fields of errors and notices. `line` and `routine` name the place in the server's source. */
const FIELDS = [
  ...["severity", "code", "message", "detail", "hint", "position", "internalPosition", "internalQuery"],
  ...["where", "schema", "table", "column", "dataType", "constraint", "file", "line", "routine"],
  // The names in postgres.js.
  ...["severity_local", "schema_name", "table_name", "column_name", "type_name", "constraint_name"],
] as const;

export class Cases {
  readonly #seen = new Map<string, unknown>();

  get transcript(): Transcript {
    return this.#seen;
  }

  /** The result is the value or the error of the client's call. */
  async see(name: string, call: () => Promise<unknown>): Promise<void> {
    if (this.#seen.has(name)) throw new Error(`two cases are called ${name}`);
    try {
      this.#seen.set(name, plain(await call()));
    } catch (error) {
      this.#seen.set(name, { error: fieldsOf(error) });
    }
  }
}

export function fieldsOf(error: unknown): Record<string, unknown> {
  const given = error as Readonly<Record<string, unknown>>;
  const fields = FIELDS.flatMap((name) => (given[name] === undefined ? [] : [[name, given[name]] as const]));
  return Object.fromEntries(fields);
}

/** JSON has neither bytes nor 64-bit integers. */
function plain(value: unknown): unknown {
  const text = JSON.stringify(value, (_, each: unknown) => (typeof each === "bigint" ? `${each}n` : each));
  return text === undefined ? null : (JSON.parse(text) as unknown);
}
